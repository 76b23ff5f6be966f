/// Initializers that are learnt, and what was learnt as initializers.

#include <fmt/format.h>

#include <map>

#include "network/onnx/importer.hpp"
#include "support/regular_file.hpp"
#include "unisono/onnx_writer.hpp"

namespace unisono {

namespace {

constexpr int onnx_float = 1;  // TensorProto::FLOAT
constexpr std::uint64_t most_bytes_of_model = (std::uint64_t{2} << 30) - 1;

onnx::ModelProto parsed_model(std::string_view bytes, const std::string& name) {
  onnx::ModelProto model;
  if (bytes.empty() || !model.ParseFromString(std::string(bytes)))
    throw UserError(fmt::format("{}: damaged, or not an ONNX model", name));
  return model;
}

// By name
std::map<std::string, onnx::TensorProto*> initializers_of(onnx::GraphProto& graph) {
  std::map<std::string, onnx::TensorProto*> all;
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) all[tensor.name()] = &tensor;
  return all;
}

bool keeps_elements(const std::string& op) {
  return op == "Unsqueeze" || op == "Squeeze" || op == "Reshape" || op == "Flatten" || op == "Identity";
}

// By a node's only output: what it gives another shape
std::map<std::string, std::string> reshaped_tensors(const onnx::GraphProto& graph) {
  std::map<std::string, std::string> from;
  for (const onnx::NodeProto& node : graph.node())
    if (node.output_size() == 1 && node.input_size() > 0 && keeps_elements(node.op_type()))
      from[node.output(0)] = node.input(0);
  return from;
}

void replace_elements(onnx::TensorProto& tensor, const std::vector<float>& values, const std::string& path) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) count *= extent;
  if (tensor.data_type() != onnx_float || tensor.data_location() != 0)
    throw UserError(fmt::format("{}: initializer '{}' is not float32, or is in another file", path, tensor.name()));
  if (count != static_cast<std::int64_t>(values.size()))
    throw UserError(
        fmt::format("{}: initializer '{}' has {} elements; {} were given", path, tensor.name(), count, values.size()));
  tensor.clear_float_data();
  tensor.set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

}  // namespace

std::string trainable_onnx(const std::string& path) {
  const auto file = support::RegularFile(path).read_all(most_bytes_of_model);
  if (!file) throw UserError(fmt::format("{}: is larger than 2 GiB", path));
  onnx::ModelProto model = parsed_model(*file, path);
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto known = initializers_of(graph);
  std::vector<onnx::TensorProto> own;
  std::vector<onnx::NodeProto> nodes;
  for (const onnx::NodeProto& node : graph.node()) {
    const bool hands_on = node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1;
    const auto source = hands_on ? known.find(node.input(0)) : known.end();
    if (source == known.end()) {
      nodes.push_back(node);
      continue;
    }
    own.push_back(*source->second);
    own.back().set_name(node.output(0));
  }
  if (own.empty()) return *file;
  graph.clear_node();
  for (onnx::NodeProto& node : nodes) *graph.add_node() = std::move(node);
  for (onnx::TensorProto& tensor : own) *graph.add_initializer() = std::move(tensor);
  return model.SerializeAsString();
}

std::string onnx_with_initializers(std::string_view bytes, const std::string& name,
                                   const std::map<std::string, std::vector<float>>& values) {
  onnx::ModelProto model = parsed_model(bytes, name);
  const auto known = initializers_of(*model.mutable_graph());
  const auto from = reshaped_tensors(model.graph());
  for (const auto& [tensor, elements] : values) {
    std::string source = tensor;
    for (std::size_t steps = 0; !known.contains(source) && from.contains(source) && steps <= from.size(); ++steps)
      source = from.at(source);
    const auto found = known.find(source);
    if (found == known.end())
      throw UserError(fmt::format(
          "{}: the model has no initializer '{}': what is computed from others cannot be written back", name, tensor));
    replace_elements(*found->second, elements, name);
  }
  return model.SerializeAsString();
}

}  // namespace unisono
