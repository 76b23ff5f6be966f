#include "network/constant_operator.hpp"

#include <map>
#include <memory>
#include <utility>

#include "network/dim.hpp"
#include "unisono/network/executable.hpp"

namespace unisono::network {

namespace {

struct IsElementary {
  bool operator()(const operators::Conv2d&) const { return false; }
  bool operator()(const operators::UpsampledConv2d&) const { return false; }
  bool operator()(const operators::StackedConv3d&) const { return false; }
  bool operator()(const operators::ConvTranspose2d&) const { return false; }
  bool operator()(const operators::Conv3d&) const { return false; }
  bool operator()(const operators::Gemm&) const { return false; }
  bool operator()(const operators::MatMul&) const { return false; }
  bool operator()(const operators::Attention&) const { return false; }
  bool operator()(const operators::NormGradient&) const { return false; }
  bool operator()(const operators::Pool2d&) const { return false; }
  bool operator()(const operators::PoolNd&) const { return false; }
  bool operator()(const operators::PixelReshape&) const { return false; }
  bool operator()(const operators::Resize&) const { return false; }
  bool operator()(const operators::Resample&) const { return false; }
  bool operator()(const auto&) const { return true; }
};

}  // namespace

bool is_elementary(const OperatorKind& kind) { return std::visit(IsElementary{}, kind); }

NetworkTensor result_type(const OperatorKind& kind, const std::vector<const NetworkTensor*>& inputs, std::string name) {
  const std::string what = to_string(kind);
  return {std::move(name), infer_dtype(kind, inputs, what), infer_shape(kind, inputs, what), nullptr, nullptr};
}

NetworkTensor computed(const OperatorKind& kind, const std::vector<const NetworkTensor*>& inputs, std::string name) {
  NetworkTensor result = result_type(kind, inputs, name);
  if (std::holds_alternative<operators::Reshape>(kind) || std::holds_alternative<operators::Flatten>(kind)) {
    result.constant = inputs[0]->constant;  // the same elements
    result.bytes = inputs[0]->bytes;
    return result;
  }
  Network n;
  n.name = name;
  Operator op{kind, name, {}, static_cast<TensorId>(inputs.size())};
  for (const NetworkTensor* t : inputs) {
    op.inputs.push_back(static_cast<TensorId>(n.tensors.size()));
    n.tensors.push_back(*t);
  }
  n.outputs.push_back(op.output);
  n.tensors.push_back(result);
  n.tensors.back().name = "y";
  n.operators.push_back(std::move(op));
  const std::vector<std::int64_t> shape = values(result.shape);
  const auto count = static_cast<std::size_t>(element_count(shape));
  const bool is_f32 = result.dtype == DType::f32;
  std::vector<float> floats(is_f32 ? count : 0);
  std::vector<std::byte> bytes(is_f32 ? 0 : count * size_of(result.dtype));
  void* data = is_f32 ? static_cast<void*>(floats.data()) : bytes.data();
  compile(std::move(n), {.threads = 1, .cached_plans = 1})
      .run({}, std::map<std::string, TensorView>{{"y", TensorView{data, result.dtype, shape, {}}}});
  if (is_f32) {
    result.constant = std::make_shared<const std::vector<float>>(std::move(floats));
  } else {
    result.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }
  return result;
}

}  // namespace unisono::network
