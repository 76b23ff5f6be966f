// BatchNormalization with training_mode: by the statistics of its own input.

#include <gtest/gtest.h>

#include <cmath>

#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono::test {
namespace {

OnnxModel batch_norm(const std::string& input, std::vector<float> running_variance) {
  OnnxModel m("BatchNormalization", 17, {input, "scale", "bias", "mean", "variance"});
  m.set("training_mode", std::int64_t{1});
  m.set("momentum", 0.75f);
  m.set("epsilon", 0.5f);
  m.add_constant("scale", {3}, {1, 2, -3});
  m.add_constant("bias", {3}, {0, 10, 20});
  m.add_constant("mean", {3}, {1, 1, 2});
  m.add_constant("variance", {3}, std::move(running_variance));
  return m;
}

// (2,3): of each column mean and variance are 2 and 1, 0 and 4, 5 and 0
const std::vector<float> x{1, -2, 5, 3, 2, 5};
const float r = 1 / std::sqrt(1.5f), q = 2 / std::sqrt(4.5f);
const std::vector<float> y{-r, 10 - 2 * q, 20, r, 10 + 2 * q, 20};

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-6) << i;
}

TEST(OnnxBatchStatistics, NormaliseAndMoveTheRunningOnes) {
  OnnxModel m = batch_norm("x", {2, 1, 4});
  for (const char* name : {"running_mean", "running_variance"}) {
    m.node->add_output(name);
    m.proto.mutable_graph()->add_output()->set_name(name);
  }
  auto outputs = run(compile(parse(m.bytes())), {{"x", {{2, 3}, x}}});
  expect_near(outputs.at("y").data, y);
  expect_near(outputs.at("running_mean").data, {1.25f, 0.75f, 2.75f});
  expect_near(outputs.at("running_variance").data, {1.75f, 1.75f, 3});
}

// As TorchScript writes the standardisation of weights: computed when the file is read
TEST(OnnxBatchStatistics, OfConstantsAreAConstant) {
  OnnxModel m = batch_norm("c", {1, 1, 1});
  m.add_constant("c", {2, 3}, x);
  m.node->set_output(0, "w");
  m.node->add_output("unused_mean");
  auto* add = m.proto.mutable_graph()->add_node();
  add->set_op_type("Add");
  for (const char* name : {"x", "w"}) add->add_input(name);
  add->add_output("y");
  const Network n = parse(m.bytes());
  const auto live = std::count_if(n.operators.begin(), n.operators.end(),
                                  [&](const Operator& op) { return op.output == n.outputs.front(); });
  EXPECT_EQ(live, 1);
  EXPECT_EQ(explain(n).regions.size(), 1u);
  expect_near(run(compile(n), {{"x", {{2, 3}, std::vector<float>(6, 0)}}}).at("y").data, y);
}

TEST(OnnxBatchStatistics, RefusalsSayWhatIsWrong) {
  OnnxModel old = batch_norm("x", {1, 1, 1});
  old.proto.mutable_opset_import(0)->set_version(13);
  old.node->clear_attribute();
  old.node->add_output("mean_output");
  EXPECT_THAT(refusal(old),
              Says("m.onnx: BatchNormalization 'n' (opset 13): has outputs of training; export the model"));
  OnnxModel stored = batch_norm("x", {1, 1, 1});
  stored.node->clear_attribute();
  stored.node->add_output("mean_output");
  EXPECT_EQ(refusal(stored),
            "m.onnx: BatchNormalization 'n' (opset 17): has outputs of training, and training_mode is 0; expected one "
            "output");
}

}  // namespace
}  // namespace unisono::test
