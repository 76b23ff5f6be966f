#include "random_networks/case_file.hpp"

#include <fstream>
#include <iterator>

#include "unisono/error.hpp"

namespace unisono::test {

ModelWithData read_model_with_data(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  onnx::ModelProto model;
  if (!file || !model.ParseFromString(bytes)) throw UserError(path.string() + ": not an ONNX model");
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<std::string, int> inputs, outputs;  // their types
  for (const auto& i : graph.input()) inputs[i.name()] = i.type().tensor_type().elem_type();
  for (const auto& o : graph.output()) outputs[o.name()] = o.type().tensor_type().elem_type();
  ModelWithData result;
  const std::string prefix = "expected/";
  auto& initializers = *graph.mutable_initializer();
  for (int i = initializers.size(); i-- > 0;) {
    const std::string name = initializers[i].name();
    const std::string output = name.starts_with(prefix) ? name.substr(prefix.size()) : "";
    if (inputs.contains(name)) {
      result.inputs[name] = as_case_tensor(initializers[i], inputs[name], name);
    } else if (outputs.contains(output)) {
      result.expected[output] = as_case_tensor(initializers[i], outputs[output], name);
    } else {
      continue;
    }
    initializers.DeleteSubrange(i, 1);
  }
  for (const auto& [name, type] : inputs)
    if (!result.inputs.contains(name)) throw UserError(path.string() + ": input '" + name + "' has no value");
  result.model = model.SerializeAsString();
  return result;
}

}  // namespace unisono::test
