/// Writing initializers back into a model.

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "network/onnx/importer.hpp"
#include "support/regular_file.hpp"
#include "unisono/onnx_writer.hpp"

namespace unisono {

namespace {

constexpr int onnx_float = 1;  // TensorProto::FLOAT
constexpr std::uint64_t most_bytes_of_model = (std::uint64_t{2} << 30) - 1;

void replace_elements(onnx::TensorProto& tensor, const std::vector<float>& values, const std::string& path) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) count *= extent;
  if (tensor.data_type() != onnx_float || tensor.data_location() != 0)
    throw UserError(
        fmt::format("{}: initializer '{}' is not of float32, or lies in another file", path, tensor.name()));
  if (count != static_cast<std::int64_t>(values.size()))
    throw UserError(
        fmt::format("{}: initializer '{}' has {} elements; {} were given", path, tensor.name(), count, values.size()));
  tensor.clear_float_data();
  tensor.set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

}  // namespace

std::string onnx_with_initializers(const std::string& path, const std::map<std::string, std::vector<float>>& values) {
  const auto file = support::RegularFile(path).read_all(most_bytes_of_model);
  onnx::ModelProto model;
  if (!file || !model.ParseFromString(*file))
    throw UserError(fmt::format("{}: damaged, not an ONNX model, or larger than 2 GiB", path));
  std::set<std::string> left;
  for (const auto& [name, elements] : values) left.insert(name);
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const auto found = values.find(tensor.name());
    if (found == values.end()) continue;
    replace_elements(tensor, found->second, path);
    left.erase(tensor.name());
  }
  if (!left.empty())
    throw UserError(
        fmt::format("{}: the model has no initializer '{}': what is computed from others cannot be written back", path,
                    *left.begin()));
  return model.SerializeAsString();
}

}  // namespace unisono
