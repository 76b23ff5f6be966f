#include "tuner/error_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/bounds.hpp"
#include "support/dtypes.hpp"

namespace unisono::tuner {

namespace {

// The fast forms' error, for elements only: scalars and columns are computed by the accurate forms
double fast_error(const Node& node, std::span<const double> inputs, double result) {
  if (!(node.axes == axes::mn)) return 0;
  const codegen::FastBound bound = codegen::fast_bound(node);
  const double x = std::abs(inputs[node.op == Op::div ? 1 : 0]);
  if (bound == codegen::FastBound{}) return 0;
  if (!std::isfinite(result) || x > bound.limit) return std::numeric_limits<double>::infinity();
  return 1.05 * (bound.relative * std::abs(result) + bound.absolute + bound.input * x);  // the input is off, too
}

// Roundings that a term of a mean goes through: the rows of a thread, its lanes and warps, the slots of a segment, the
// segments, the units of a group.
std::int64_t statistics_chain(const Contraction& contraction, const Graph& graph) {
  const Extents e = extents(contraction);
  const std::int64_t slots = e.rows_per_image() / 64 + e.height + 2;  // at most: patches of 8 x 8 pixels waste some
  const bool batch = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& x) {
    return x.op == Op::batch_norm || (x.attr.domain.rows && !x.attr.domain.per_image);
  });
  return 16 + 5 + 2 + slots * (batch ? e.images : 1) + 64;
}

// The longest chain of sums of a stored reduction: a thread's elements, lanes, warps, a column's slots, the columns of
// all images.
std::int64_t fold_chain(const Contraction& contraction) {
  const Extents e = extents(contraction);
  const std::int64_t slots = e.rows_per_image() / 64 + e.height + 2;
  return 256 + 5 + 4 + e.images * slots + e.images * (e.cols / 256 + 1);
}

bool takes_words(const Contraction& contraction) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires { c.dtype_a; })
          return support::is_multiplied_as_tf32(c.dtype_a);
        else
          return support::is_multiplied_as_tf32(c.dtype_x);
      },
      contraction);
}

}  // namespace

reference::ErrorModel error_model(const Contraction& contraction, const Graph& graph, bool accurate,
                                  const families::Plan::Numerics& numerics) {
  reference::ErrorModel model;
  model.function_ulps = 8;  // CUDA's powf: 4 units in the last place, each up to two of u
  model.longest_chain = numerics.folds ? fold_chain(contraction) : statistics_chain(contraction, graph);
  if (!accurate) model.coarser = fast_error;
  if (numerics.kept_columns > 0) {
    model.kept_columns = numerics.kept_columns;
    // 16 bits of the type of the main output, and the rounding of the centre that is taken off
    model.kept_roundoff = 1.02 * unit_roundoff(graph.stores.back().dtype);
    for (const Store& s : graph.stores)
      if (graph[s.value].axes == axes::mn)
        model.kept_roundoff = std::max(model.kept_roundoff, 1.02 * unit_roundoff(s.dtype));
    // In f32 the difference of centre and mean, the shift that it makes and the sum round as much as the value itself
    if (numerics.kept) model.kept_roundoff = (*numerics.kept == DType::f32 ? 4 : 1.02) * unit_roundoff(*numerics.kept);
    model.kept_centred = numerics.centred;
    if (!numerics.centred && numerics.kept == DType::f32) model.kept_roundoff = 0;  // as it was computed
  }
  return model;
}

double accumulator_error(const Contraction& contraction) {
  const bool words = takes_words(contraction);
  const double each = words ? 8 : 16;
  const double steps = std::ceil(static_cast<double>(depth(contraction)) / each) + 8;  // and partial sums of split-K
  // Each tf32 factor is truncated: less than 2^-10 of it is lost
  return 2 * std::sqrt(steps) * 0x1p-23 + (words ? 2 * 0x1p-10 + 0x1p-20 : 0);
}

}  // namespace unisono::tuner
