/// Operators on constants alone are computed while importing.

#include <algorithm>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr double most_elements = 0x1p20;  // of a result, unless it is a cast

double elements(const Shape& shape) {
  double n = 1;
  for (const Dim& d : shape) n *= static_cast<double>(d.value());
  return n;
}

// What takes a time in proportion to its elements
struct IsCheap {
  bool operator()(const operators::Conv2d&) const { return false; }
  bool operator()(const operators::ConvTranspose2d&) const { return false; }
  bool operator()(const operators::Conv3d&) const { return false; }
  bool operator()(const operators::Gemm&) const { return false; }
  bool operator()(const operators::MatMul&) const { return false; }
  bool operator()(const operators::Pool2d&) const { return false; }
  bool operator()(const operators::PoolNd&) const { return false; }
  bool operator()(const operators::Resize&) const { return false; }
  bool operator()(const operators::Resample&) const { return false; }
  bool operator()(const auto&) const { return true; }
};
// Runs a network of one operator, whose result is its last tensor, and gives that its elements
void compute_result(Network n, NetworkTensor& result, const std::vector<std::int64_t>& shape) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  std::vector<std::byte> bytes(count * size_of(result.dtype));
  std::vector<float> floats(result.dtype == DType::f32 ? count : 0);
  void* data = result.dtype == DType::f32 ? static_cast<void*>(floats.data()) : bytes.data();
  n.tensors.back().name = "y";
  compile(std::move(n), {.threads = 1, .cached_plans = 1})
      .run({}, std::map<std::string, TensorView>{{"y", TensorView{data, result.dtype, shape, {}}}});
  if (result.dtype == DType::f32) {
    result.constant = std::make_shared<const std::vector<float>>(std::move(floats));
  } else {
    result.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }
}
}  // namespace

std::optional<NetworkTensor> folded(const Network& network, const OperatorKind& kind,
                                    const std::vector<NetworkValue>& inputs, const std::string& where,
                                    const std::function<void(std::uint64_t work, std::uint64_t bytes)>& take) {
  Network n;
  n.name = where;
  Operator op{kind, where, {}, static_cast<TensorId>(inputs.size())};
  std::vector<const NetworkTensor*> types;
  for (const NetworkValue& v : inputs) {
    if (!network[v.id()].is_constant()) return std::nullopt;
    op.inputs.push_back(static_cast<TensorId>(n.tensors.size()));
    n.tensors.push_back(network[v.id()]);
    types.push_back(&network[v.id()]);
  }
  if (inputs.empty() || !std::visit(IsCheap{}, kind)) return std::nullopt;
  NetworkTensor result{where, infer_dtype(kind, types, to_string(kind)), infer_shape(kind, types, to_string(kind))};
  if (std::holds_alternative<operators::Reshape>(kind) || std::holds_alternative<operators::Flatten>(kind)) {
    result.constant = types[0]->constant;  // the same elements: of any number
    result.bytes = types[0]->bytes;
    return result;
  }
  const auto* map = std::get_if<operators::Map>(&kind);
  double work = elements(result.shape);
  for (const NetworkTensor* t : types) work = std::max(work, elements(t->shape));
  if (work > most_elements && !(map != nullptr && map->op == MapOp::cast)) return std::nullopt;
  n.tensors.push_back(result);
  n.operators.push_back(std::move(op));
  n.outputs.push_back(n.operators[0].output);
  const std::vector<std::int64_t> shape = values(result.shape);
  take(static_cast<std::uint64_t>(work), static_cast<std::size_t>(element_count(shape)) * size_of(result.dtype));
  compute_result(std::move(n), result, shape);
  return result;
}

}  // namespace unisono::network::onnx_import
