#include "reference/network/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/bounds.hpp"
#include "network/cuda/run/plan.hpp"
#include "network/regions.hpp"
#include "reference/network/index.hpp"
#include "reference/network/operators.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

Tensor64 constant(const NetworkTensor& tensor) {
  Tensor64 x;
  for (const Dim& dim : tensor.shape) x.shape.push_back(dim.value());
  const void* data = tensor.constant ? static_cast<const void*>(tensor.constant->data()) : tensor.bytes->data();
  x.value = as_float64({data, tensor.dtype, x.shape, {}}, tensor.name);
  x.bound.assign(x.value.size(), 0.0);
  x.dtype = tensor.dtype;
  return x;
}

/// How many operators and outputs still need each tensor.
std::vector<int> count_uses(const Network& network) {
  std::vector<int> uses(network.tensors.size(), 0);
  for (const Operator& op : network.operators) {
    for (const TensorId id : op.inputs) ++uses[id];
  }
  for (const TensorId id : network.outputs) ++uses[id];
  return uses;
}

/// Whether results are some of the inputs' elements, which were rounded when they were stored.
bool only_moves(const OperatorKind& kind) {
  if (const auto* pool = std::get_if<operators::Pool2d>(&kind)) return !pool->average;
  if (const auto* resize = std::get_if<operators::Resize>(&kind)) return resize->mode == ResizeMode::nearest;
  using namespace operators;
  return std::holds_alternative<Concat>(kind) || std::holds_alternative<Pad>(kind) ||
         std::holds_alternative<Reshape>(kind) || std::holds_alternative<Flatten>(kind) ||
         std::holds_alternative<Transpose>(kind) || std::holds_alternative<Expand>(kind) ||
         std::holds_alternative<Identity>(kind) || std::holds_alternative<Slice>(kind);
}

/// Whether an operator's result is rounded when it is stored: moved elements are not if they were before.
bool is_rounded(const Network& network, const Operator& op, const Rounding& rounding) {
  if (!rounding.stored.contains(network[op.output].name)) return false;
  return !only_moves(op.kind) || std::none_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
    const bool is_input = std::find(network.inputs.begin(), network.inputs.end(), id) != network.inputs.end();
    return (is_input && !rounding.exact.contains(network[id].name)) || network[id].is_constant() ||
           rounding.stored.contains(network[id].name);
  });
}

/// What a result may be off where its type's normal range ends: it may be flushed to 0. f16 is rounded from f32, which
/// has its subnormals.
double underflow(DType t) {
  return t == DType::f64 ? 0 : t == DType::f16 ? 0x1p-24 : static_cast<double>(std::numeric_limits<float>::min());
}

/// Adds what storing the result in fewer bits, and coarser functions, may do.
void add_rounding(Tensor64& result, bool stored, const Operator& op, const std::vector<const Tensor64*>& inputs,
                  const Rounding& rounding) {
  if (!is_float(result.dtype)) return;
  const double u = stored && rounding.tensors != DType::f32 ? unit_roundoff(rounding.tensors) : 0;
  const double tiny = underflow(result.dtype);
  for (std::size_t i = 0; i < result.value.size(); ++i) {
    if (!std::isfinite(result.value[i])) continue;
    if (result.bound[i] > 0) result.bound[i] += tiny;
    result.bound[i] += u * std::abs(result.value[i]);
  }
  const auto* e = std::get_if<operators::Elementwise>(&op.kind);
  if (!rounding.fast || e == nullptr) return;
  Node node;
  node.op = e->op;
  node.attr = e->attr;
  const codegen::FastBound fast = codegen::fast_bound(node);
  if (fast == codegen::FastBound{}) return;
  const std::vector<double> x = expanded(*inputs[e->op == Op::div ? 1 : 0], result.shape);
  for (std::size_t i = 0; i < x.size(); ++i)
    result.bound[i] += fast.relative * std::abs(result.value[i]) + fast.absolute + fast.input * std::abs(x[i]);
}

/// Whether an implementation keeps this constant in the type of its tensors: weights of contractions, and whatever is
/// no vector of an epilogue.
bool is_stored(const Network& network, const Operator& op, std::size_t input) {
  const NetworkTensor& t = network[op.inputs[input]];
  if (!t.is_constant() || !is_float(t.dtype)) return false;
  if (network::is_contraction(op.kind) || std::holds_alternative<operators::Recurrence>(op.kind)) return input == 1;
  if (std::holds_alternative<operators::Normalisation>(op.kind) ||
      std::holds_alternative<operators::BatchNorm>(op.kind))
    return false;
  const auto extended = std::count_if(t.shape.begin(), t.shape.end(), [](const Dim& d) { return !(d == Dim(1)); });
  return !std::holds_alternative<operators::Elementwise>(op.kind) || extended > 1;
}

/// As inputs and constants are when they have been stored. Of a filter whose taps are added first
/// no weight is rounded by itself, and the rounding of |a + b| moves it by no more than u|a| + u|b|: by that each moves
/// here.
void round_operands(std::vector<Tensor64>& tensors, const Network& network, const Rounding& rounding) {
  if (rounding.tensors == DType::f32) return;
  std::vector<bool> stored(tensors.size(), false);
  for (const TensorId id : network.inputs)
    stored[id] = is_float(network[id].dtype) && !rounding.exact.contains(network[id].name);
  for (const Operator& op : network.operators)
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      stored[op.inputs[i]] = stored[op.inputs[i]] || is_stored(network, op, i);
  std::mt19937_64 random(1);
  const double u = unit_roundoff(rounding.tensors);
  for (TensorId id = 0; id < tensors.size(); ++id) {
    const bool summed = rounding.summed.contains(network[id].name);
    for (std::size_t i = 0; stored[id] && i < tensors[id].value.size(); ++i) {
      double& x = tensors[id].value[i];
      x = summed ? x * (random() % 2 == 0 ? 1 + u : 1 - u) : support::round_to(x, rounding.tensors);
    }
  }
}

}  // namespace

Rounding rounding_of(const NetworkExecutable& network, const NetworkOptions& options) {
  if (options.device == Device::cpu) return {};
  Rounding rounding{.tensors = options.precision, .fast = true};
  for (const RegionReport& r : network.report().regions) {
    rounding.stored.insert(r.outputs.begin(), r.outputs.end());
    if (!r.summed_filter.empty()) rounding.summed.insert(r.summed_filter);
  }
  rounding.exact = network::gpu::tensors_in_f32(network.network(), options);
  for (const std::string& name : rounding.exact) rounding.stored.erase(name);
  const Network& n = network.network();
  for (const Operator& op : n.operators)
    if (std::holds_alternative<operators::Normalisation>(op.kind)) rounding.stored.insert(n[op.inputs[0]].name);
  return rounding;
}

Tensors64 evaluate_network(const Network& network, const Tensors64& inputs, const TensorObserver& observer,
                           const Rounding& rounding) {
  std::vector<Tensor64> tensors(network.tensors.size());
  for (const TensorId id : network.inputs) {
    const auto found = inputs.find(network[id].name);
    if (found == inputs.end()) throw UserError(fmt::format("input '{}' is missing", network[id].name));
    tensors[id] = found->second;
    tensors[id].dtype = network[id].dtype;
  }
  for (TensorId id = 0; id < tensors.size(); ++id)
    if (network[id].is_constant()) tensors[id] = constant(network[id]);
  round_operands(tensors, network, rounding);
  std::vector<int> uses = count_uses(network);
  for (const Operator& op : network.operators) {
    std::vector<const Tensor64*> operands;
    for (const TensorId id : op.inputs) operands.push_back(&tensors[id]);
    Tensor64 result = evaluate_operator(op.kind, operands);
    result.dtype = network[op.output].dtype;
    add_rounding(result, is_rounded(network, op, rounding), op, operands, rounding);
    if (observer) observer(op, result);
    result.margin = result.other = {};
    for (const TensorId id : op.inputs) {
      if (--uses[id] == 0) tensors[id] = {};
    }
    tensors[op.output] = std::move(result);
  }
  Tensors64 outputs;
  for (const TensorId id : network.outputs) outputs[network[id].name] = tensors[id];
  return outputs;
}

}  // namespace unisono::float64
