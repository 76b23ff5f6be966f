/// Reductions as ONNX defines them: over the axes of an attribute or an input.

#include <cmath>

#include "reference/network/tensors.hpp"
#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

// Means, norms and logarithms of integers are rounded towards zero; only their sums and products wrap
Tensor64 reduced_over(ReduceOp op, const std::vector<int>& axes, bool keep, const Tensor64& x) {
  const bool wraps = op == ReduceOp::sum || op == ReduceOp::prod || op == ReduceOp::sum_square || op == ReduceOp::l1;
  const bool picks = op == ReduceOp::max || op == ReduceOp::min;
  if (is_float(x.dtype) || wraps || picks) return evaluated(operators::Reduce{op, axes, keep}, {&x}, x.dtype);
  Tensor64 real = x;
  real.dtype = DType::f64;
  Tensor64 y = evaluated(operators::Reduce{op, axes, keep}, {&real}, x.dtype);
  y.bound.assign(y.value.size(), 0.0);
  for (double& v : y.value) v = as_integer(std::trunc(v), x.dtype);
  return y;
}

template <ReduceOp op>
void reduce(Call& call) {
  const Tensor64& x = call.in(0);
  const auto axes = call.list("axes", 1);
  const bool keep = call.integer("keepdims", 1) != 0;
  if ((!axes || axes->empty()) && call.integer("noop_with_empty_axes", 0) != 0) {
    // no axis is reduced; what the operator does to each element stays
    Tensor64 each_alone = in_shape(x, x.shape);
    each_alone.shape.push_back(1);
    const int last = static_cast<int>(x.shape.size());
    return call.result(reduced_over(op, {last}, false, each_alone));
  }
  std::vector<int> reduced;
  if (axes)
    for (const std::int64_t a : *axes) reduced.push_back(static_cast<int>(call.axis(a, x.shape.size())));
  call.result(reduced_over(op, reduced, keep, x));
}

constexpr OnnxDefinition reduction_table[] = {
    {"ReduceL1", reduce<ReduceOp::l1>},          {"ReduceL2", reduce<ReduceOp::l2>},
    {"ReduceLogSum", reduce<ReduceOp::log_sum>}, {"ReduceLogSumExp", reduce<ReduceOp::log_sum_exp>},
    {"ReduceMax", reduce<ReduceOp::max>},        {"ReduceMean", reduce<ReduceOp::mean>},
    {"ReduceMin", reduce<ReduceOp::min>},        {"ReduceProd", reduce<ReduceOp::prod>},
    {"ReduceSum", reduce<ReduceOp::sum>},        {"ReduceSumSquare", reduce<ReduceOp::sum_square>}};

}  // namespace

std::span<const OnnxDefinition> reduction_definitions() { return reduction_table; }

}  // namespace unisono::float64
