/// ONNX import, operator by operator: the models of tests/data/onnx with what ONNX Runtime makes of them.

#include "unisono/onnx.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cases.hpp"
#include "support/sources.hpp"

namespace unisono {
namespace {

const std::filesystem::path data = test::source_path("tests/data/onnx");

test::HostTensors read(const nlohmann::json& tensors) {
  test::HostTensors result;
  for (const auto& [name, t] : tensors.items())
    result[name] = {t.at("shape").get<std::vector<std::int64_t>>(), t.at("data").get<std::vector<float>>()};
  return result;
}

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class OnnxModel : public testing::TestWithParam<std::string> {};

TEST_P(OnnxModel, AgreesWithOnnxRuntime) {
  const Network n = load_onnx((data / (GetParam() + ".onnx")).string());
  std::ifstream file(data / (GetParam() + ".json"));
  const nlohmann::json record = nlohmann::json::parse(file);
  const auto inputs = read(record.at("inputs")), expected = read(record.at("outputs"));
  const auto outputs = test::run(compile(n), inputs);
  ASSERT_EQ(outputs.size(), expected.size());
  for (const auto& [name, t] : expected) EXPECT_EQ(outputs.at(name).shape, t.shape);
  // what the file was taken to mean is what ONNX Runtime took it to mean, and what ran
  test::expect_agreement(n, inputs, expected);
  test::expect_agreement(n, inputs, outputs);
}

INSTANTIATE_TEST_SUITE_P(All, OnnxModel, testing::ValuesIn(models()), [](const auto& model) { return model.param; });

TEST(OnnxModels, AreThere) { EXPECT_GE(models().size(), 80u); }

// On a GPU, but for the changes of layout at the border: a loss is in its linear layer's launch, and both products of a
// gated unit are one
TEST(OnnxImport, ExportedLossesAndGatedUnitsAreOneLaunch) {
  for (const std::string name :
       {"bce_torchscript", "bce_dynamo", "bce_logits_torchscript", "bce_logits_dynamo", "bce_one_column",
        "geglu_slices", "geglu_split", "swiglu_two_products", "swiglu_interleaved"}) {
    NetworkOptions options;
    options.device = Device::cuda;
    const Network n = load_onnx((data / (name + ".onnx")).string());
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const TensorId id : n.inputs)
      for (const Dim& d : n[id].shape) shapes[n[id].name].push_back(d.value());
    std::vector<std::string> computing;
    for (const LaunchReport& l : explain_device(n, options, shapes).launches)
      if (!l.what.starts_with("change of layout")) computing.push_back(l.what + ": " + l.how);
    EXPECT_EQ(computing.size(), 1u) << name << ": " << testing::PrintToString(computing);
  }
}

TEST(OnnxImport, ExportedGroupNormIsOneOperator) {
  for (const std::string name : {"group_norm_exported", "group_norm_exported_fixed"}) {
    const FusionReport r = explain(load_onnx((data / (name + ".onnx")).string()));
    ASSERT_EQ(r.regions.size(), 1u) << to_string(r);
    EXPECT_EQ(r.regions[0].operators, (std::vector<std::string>{"group_norm", "mul", "add"}));
  }
}

}  // namespace
}  // namespace unisono
