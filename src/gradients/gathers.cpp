/// Gathers: what was read several times is the sum of several gradients, added in the order of the indices. Scatters.

#include <numeric>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"

namespace unisono::autodiff {

// x (…,V,…), indices (I…) → (…,I…,…). Axis and indices come first, then rows are added to those of a table.
InputGradients derivative_of(const operators::Gather& g, const Use& use) {
  const Extents64 x = extents_of(use.in[0]), at = extents_of(use.in[1]);
  const auto axis = static_cast<std::size_t>(g.axis);
  std::vector<int> order, back(x.size());
  for (std::size_t i = 0; i < at.size(); ++i) order.push_back(static_cast<int>(axis + i));
  for (std::size_t i = 0; i < axis; ++i) order.push_back(static_cast<int>(i));
  for (std::size_t i = axis + at.size(); i < use.gradient.shape().size(); ++i) order.push_back(static_cast<int>(i));
  const std::int64_t indices = elements_of(at), rows = x[axis], columns = rows == 0 ? 0 : elements_of(x) / rows;
  const NetworkValue updates =
      shaped(order.empty() ? use.gradient : transpose(use.gradient, order), {indices, columns});
  const NetworkValue sums = use.net.apply(operators::ScatterND{.reduction = ScatterReduction::add},
                                          {zeros(use.net, {rows, columns}), shaped(use.in[1], {indices, 1}), updates});
  Extents64 first{x[axis]};  // the shape with the axis in front
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i != axis) first.push_back(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) back[i] = static_cast<int>(i == axis ? 0 : i < axis ? i + 1 : i);
  return {transpose(shaped(sums, first), back), std::nullopt};
}

InputGradients derivative_of(const operators::GatherElements& g, const Use& use) {
  return {use.net.apply(operators::ScatterElements{.axis = g.axis, .reduction = ScatterReduction::add},
                        {zeros(use.net, extents_of(use.in[0])), use.in[1], use.gradient}),
          std::nullopt};
}

InputGradients derivative_of(const operators::GatherND& g, const Use& use) {
  if (g.batch != 0) refuse_derivative(use, "with axes of a batch it has no derivative; use GatherElements");
  return {use.net.apply(operators::ScatterND{.reduction = ScatterReduction::add},
                        {zeros(use.net, extents_of(use.in[0])), use.in[1], use.gradient}),
          std::nullopt};
}

namespace {

// What an update replaces has no part in the result. Of several updates of one element, which ONNX leaves undefined,
// each has the gradient.
InputGradients of_scatter(const OperatorKind& scatter, const OperatorKind& gather, ScatterReduction reduction,
                          const Use& use) {
  if (reduction != ScatterReduction::none && reduction != ScatterReduction::add)
    refuse_derivative(use, "with a reduction other than add it has no derivative");
  InputGradients result(3);
  const NetworkValue g = use.gradient, at = use.in[1];
  if (use.wanted[0])
    result[0] =
        reduction == ScatterReduction::add ? g : use.net.apply(scatter, {g, at, zeros(use.net, extents_of(use.in[2]))});
  if (use.wanted[2]) result[2] = use.net.apply(gather, {g, at});
  return result;
}

}  // namespace

InputGradients derivative_of(const operators::ScatterElements& s, const Use& use) {
  return of_scatter(operators::ScatterElements{.axis = s.axis}, operators::GatherElements{.axis = s.axis}, s.reduction,
                    use);
}

InputGradients derivative_of(const operators::ScatterND& s, const Use& use) {
  return of_scatter(operators::ScatterND{}, operators::GatherND{}, s.reduction, use);
}

}  // namespace unisono::autodiff
