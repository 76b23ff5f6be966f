/// Reductions and running sums.

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"
#include "unisono/error.hpp"

namespace unisono::autodiff {

namespace {

// With an extent of 1 wherever the reduction dropped an axis, or all of them
NetworkValue with_axes(const operators::Reduce& r, NetworkValue v, NetworkValue x) {
  Extents64 shape = extents_of(x);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (r.axes.empty() || std::find(r.axes.begin(), r.axes.end(), static_cast<int>(i)) != r.axes.end()) shape[i] = 1;
  return shaped(v, shape);
}

// Equal extremes share the gradient
NetworkValue of_extremum(const operators::Reduce& r, NetworkValue x, NetworkValue out, NetworkValue g) {
  const NetworkValue zero = x.builder().constant(0.0), one = x.builder().constant(1.0);
  const NetworkValue is_extreme = mapped(MapOp::select, {mapped(MapOp::equal, {x, out}), one, zero});
  const NetworkValue many =
      with_axes(r, x.builder().apply(operators::Reduce{ReduceOp::sum, r.axes, true}, {is_extreme}), x);
  return is_extreme * (g / many);
}

// The product of the others. Where one element is zero, it alone has a gradient; where several are, none has
NetworkValue of_product(const operators::Reduce& r, NetworkValue x, NetworkValue g) {
  NetworkBuilder& net = x.builder();
  const NetworkValue zero = net.constant(0.0), one = net.constant(1.0);
  const auto over_axes = [&](ReduceOp op, NetworkValue v) {
    return with_axes(r, net.apply(operators::Reduce{op, r.axes, true}, {v}), x);
  };
  const NetworkValue is_zero = mapped(MapOp::equal, {x, zero});
  const NetworkValue factors = mapped(MapOp::select, {is_zero, one, x});
  const NetworkValue product = over_axes(ReduceOp::prod, factors);
  const NetworkValue zeros = over_axes(ReduceOp::sum, mapped(MapOp::select, {is_zero, one, zero}));
  const auto where = [&](NetworkValue count) {
    return g * product * mapped(MapOp::select, {mapped(MapOp::equal, {zeros, count}), one, zero});
  };
  return mapped(MapOp::select, {is_zero, repeated_as(where(one), x), where(zero) / factors});
}

}  // namespace

InputGradients derivative_of(const operators::Reduce& r, const Use& use) {
  if (use.out.dtype() != DType::f32)
    refuse_derivative(use, "it computes in " + std::string(to_string(use.out.dtype())) + "; gradients are of f32");
  const NetworkValue x = use.in[0];
  const NetworkValue g = with_axes(r, use.gradient, x), out = with_axes(r, use.out, x);
  const auto terms = static_cast<double>(elements_of(extents_of(x))) / static_cast<double>(elements_of(extents_of(g)));
  switch (r.op) {
    case ReduceOp::sum: return {repeated_as(g, x)};
    case ReduceOp::mean: return {repeated_as(g / terms, x)};
    case ReduceOp::sum_square: return {g * 2 * x};
    case ReduceOp::l1: return {g * mapped(MapOp::sign, {x})};
    case ReduceOp::l2: return {g / out * x};
    case ReduceOp::log_sum: return {repeated_as(g * exp(-out), x)};
    case ReduceOp::log_sum_exp: return {g * exp(x - out)};
    case ReduceOp::max:
    case ReduceOp::min: return {of_extremum(r, x, out, g)};
    case ReduceOp::prod: return {of_product(r, x, g)};
  }
  throw InternalError("a reduction without a derivative");
}

InputGradients derivative_of(const operators::CumulativeSum& c, const Use& use) {
  operators::CumulativeSum back = c;
  back.reverse = !c.reverse;
  return {use.net.apply(back, {use.gradient})};
}

}  // namespace unisono::autodiff
