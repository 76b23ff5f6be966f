#include "node_case.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "network/onnx/importer.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::test {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Inputs of an operator that say what its result looks like
const std::map<std::string, std::vector<int>>& parameter_inputs() {
  static const std::map<std::string, std::vector<int>> table{
      {"ConstantOfShape", {0}}, {"Dropout", {1, 2}},    {"Expand", {1}},         {"Pad", {1, 2, 3}},
      {"Reshape", {1}},         {"Resize", {1, 2, 3}},  {"Slice", {1, 2, 3, 4}}, {"Split", {1}},
      {"Squeeze", {1}},         {"Tile", {1}},          {"Unsqueeze", {1}},      {"Upsample", {1}},
      {"CenterCropPad", {1}},   {"Col2Im", {1, 2}},     {"CumSum", {1}},         {"OneHot", {1}},
      {"Range", {0, 1, 2}},     {"TopK", {1}},          {"Trilu", {1}},          {"AffineGrid", {1}},
      {"BlackmanWindow", {0}},  {"HammingWindow", {0}}, {"HannWindow", {0}}};
  return table;
}

std::vector<int> parameters_of(const std::string& op) {
  if (op.starts_with("Reduce")) return {1};
  const auto it = parameter_inputs().find(op);
  return it == parameter_inputs().end() ? std::vector<int>{} : it->second;
}

}  // namespace

NodeCase read_case(const std::filesystem::path& folder) {
  NodeCase c;
  c.name = folder.filename();
  if (!c.model.ParseFromString(read_file(folder / "model.onnx"))) throw UserError(c.name + ": model.onnx is damaged");
  for (const auto& set : c.model.opset_import())
    if (set.domain().empty()) c.opset = set.version();
  for (const auto& i : c.model.graph().input()) c.inputs.push_back(i.name());
  for (const auto& o : c.model.graph().output()) c.outputs.push_back(o.name());
  for (const auto& n : c.model.graph().node()) {
    c.operators.push_back(n.op_type());
    for (const int i : parameters_of(n.op_type()))
      if (i < n.input_size() && std::find(c.inputs.begin(), c.inputs.end(), n.input(i)) != c.inputs.end())
        c.parameters.insert(n.input(i));
  }
  // the functions that are written out compute shapes from vectors of integers
  for (const auto& i : c.model.graph().input()) {
    const auto& type = i.type().tensor_type();
    if (c.operators.size() > 1 && type.elem_type() == 7 && type.shape().dim_size() == 1) c.parameters.insert(i.name());
    c.types[i.name()] = type.elem_type();
  }
  for (const auto& o : c.model.graph().output()) c.types[o.name()] = o.type().tensor_type().elem_type();
  for (int i = 0;; ++i) {
    const auto data = folder / ("test_data_set_" + std::to_string(i));
    if (!std::filesystem::is_directory(data)) break;
    c.data.push_back(data);
  }
  return c;
}

CaseTensor read_tensor(const std::filesystem::path& file, int type) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(read_file(file))) throw UserError(file.string() + ": is damaged");
  return as_case_tensor(std::move(proto), type, file.string());
}

CaseTensor as_case_tensor(onnx::TensorProto proto, int type, const std::string& where) {
  // NumPy has no bfloat16: these files say uint16
  const int bfloat16 = network::onnx_import::data_type_of(DType::bf16);
  if (type == bfloat16 && proto.data_type() == network::onnx_import::data_type_of(DType::u16))
    proto.set_data_type(bfloat16);
  auto data = network::onnx_import::tensor_data(proto, {}, where);
  CaseTensor t{data.dtype, {proto.dims().begin(), proto.dims().end()}, std::move(data.elements)};
  const DType stored = *network::onnx_import::dtype_of(proto.data_type());
  if (stored == t.dtype) return t;
  // float16 and bfloat16, which were read as f32
  const std::size_t n = t.bytes.size() / sizeof(float);
  std::vector<std::byte> narrow(n * size_of(stored));
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    support::store(narrow.data(), at, stored, support::load(t.bytes.data(), at, DType::f32));
  }
  return {stored, t.shape, std::move(narrow)};
}

}  // namespace unisono::test
