#pragma once
/// The float64 reference: plain loops that define what every backend must compute. It shares nothing with passes, plans
/// or backends; of src/ir it uses names and arity of the table of operations, in which its formulas have a column of
/// their own.
///
/// Numerics (docs/numerics.md). Values of dtype f64 and f32 are held in float64 and not rounded; values of dtype bf16,
/// f16 and tf32 are rounded to their dtype after each node, because a cast in the graph asks for just that; i32 wraps
/// and bool is exact.
///
/// Bounds. Next to each value stands a bound on the error of an implementation that computes every node in its dtype:
/// propagated from node to node over the intervals of the inputs (running error analysis, Higham, "Accuracy and
/// Stability of Numerical Algorithms", 2nd ed., §3.3). It is the tolerance that tests use.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::reference {

/// Values in canonical order: row-major over (row, column) of the axes, whatever the layout in memory. An [m,n] value
/// has rows·cols elements, row m = (b·P + p)·Q + q; a [b,n] value images·cols; a scalar one.
struct Values {
  Axes axes;
  std::vector<double> value;
  std::vector<double> bound;  ///< absolute error bound of each element; infinity makes no claim at all
};

/// The implementation whose error the bounds describe.
struct ErrorModel {
  double accumulate = 0x1p-24;  ///< unit roundoff of the accumulator
  double function_ulps = 4;     ///< error of exp, tanh, … in units of u·|result|; one rounding counts 1
  /// Most roundings that one term of a reduction goes through on its way into the result, such as the length of a
  /// tile's partial sum plus the number of merges. 0: any order of summation, that is (count − 1).
  std::int64_t longest_chain = 0;
  /// Unit roundoff of the type in which the input of a normalisation over rows, an image's or all, waits for the
  /// statistics, centred by the mean of some values in those rows of its column and its neighbours (runs of
  /// kept_columns, which divide the number of columns): each is off by at most this times the range of those values. 0:
  /// it waits as it was computed.
  double kept_roundoff = 0;
  std::int64_t kept_columns = 1;
  /// False: what waits in that type is not a normalisation's input and has no centre, but each element that is known
  /// ahead of reductions over rows and read behind them.
  bool kept_centred = true;
  /// What an elementwise operation may be off beyond all that, absolute, at these inputs, where its exact result is
  /// `result`: for implementations with coarser functions. Empty: nothing.
  std::function<double(const Node& node, std::span<const double> inputs, double result)> coarser = {};
};

/// The contraction of `a` and `b` in float64, [m,n]. The bound is γ·Σ|a·b|, γ = depth·u/(1 − depth·u) with u =
/// accumulate (Higham, eq. 3.5), and 0 for integers whose sums f32 holds. Padding contributes nothing. Throws UserError
/// for operands of another shape than shape_a and shape_b.
Values contract(const Contraction& contraction, const ConstTensorView& a, const ConstTensorView& b,
                const ErrorModel& model = {});

/// Evaluates the epilogue for every store but scratch, by the store's name; values are those of the node, in the
/// store's form, before the store rounds them. `arguments` gives operands and scalars; names that the graph does not
/// read are ignored, and `acc` is read only if a store or effect depends on it. Effects are called after all values, in
/// the graph's order. Throws UserError for a missing operand, a wrong shape or dtype, columns that groups do not
/// divide, or a function without a CPU callable.
std::map<std::string, Values> evaluate(const Graph& graph, const Contraction& contraction, const Values& acc,
                                       const Arguments& arguments, const ErrorModel& model = {});
/// The same of a dual product, with the accumulators of both products.
std::map<std::string, Values> evaluate(const Graph& graph, const Contraction& contraction, const Values& acc,
                                       const Values& acc1, const Arguments& arguments, const ErrorModel& model = {});

/// contract, then evaluate.
std::map<std::string, Values> run(const Contraction& contraction, const Graph& graph, const Arguments& arguments,
                                  const ErrorModel& model = {});

/// `values` as they are after being stored in `dtype`: rounded, with the bounds that go with it.
Values stored(const Values& values, DType dtype);

/// What a comparison found.
struct Agreement {
  std::int64_t elements = 0;
  std::int64_t outside = 0;       ///< elements whose error is above their bound plus the rounding of the stored dtype
  double worst = 0;               ///< largest error/tolerance
  std::int64_t worst_index = -1;  ///< canonical index
  double worst_expected = 0, worst_actual = 0;
  double largest_error = 0;    ///< absolute
  std::int64_t unclaimed = 0;  ///< elements whose bound is infinite: whatever is there agrees
  bool ok() const { return outside == 0; }
};

/// Compares every element of an output in memory with the expected values. NaN agrees with NaN only, infinity with the
/// same infinity (or, where the bound crosses the largest finite number of the stored dtype, with that).
Agreement compare(const Values& expected, const Contraction& contraction, const ConstTensorView& actual);

/// The same of a store that may have another form.
Agreement compare(const Values& expected, const Store& store, const Contraction& contraction,
                  const ConstTensorView& actual);

/// Shape in memory of an output with these axes: {} for a scalar, (images), (rows), (cols), (images, cols),
/// (images, groups), (rows, groups), and shape_mn for [m,n].
std::vector<std::int64_t> shape_of(const Axes& axes, const Contraction& contraction);

/// The same of an operand, which may lack some coordinates of rows.
std::vector<std::int64_t> shape_of(const Node& operand, const Contraction& contraction);

/// The same of a store of the graph, in its form.
std::vector<std::int64_t> shape_of(const Graph& graph, const Store& store, const Contraction& contraction);

}  // namespace unisono::reference
