#pragma once
/// The groups of operations that evaluate() dispatches to. Each fills `out`, whose axes and dtype are those of the
/// node.

#include <span>

#include "reference/term.hpp"

namespace unisono::reference {

using Inputs = std::span<const Term* const>;

void evaluate_unary(const Node& node, const Term& input, Term& out, const ErrorModel& model);
void evaluate_cast(const Term& x, Term& out, const ErrorModel& model);
void evaluate_one_hot(const Term& label, Term& out);

/// Arithmetic, comparisons, logic, fma and select.
void evaluate_elementwise(Op op, Inputs inputs, Term& out, const Space& space, const ErrorModel& model);

/// Nodes of dtype i32: two's-complement arithmetic.
void evaluate_integer(Op op, Inputs inputs, Term& out, const Space& space);

void evaluate_reduction(const Node& node, const Term& x, Term& out, const Space& space, const ErrorModel& model);
void evaluate_normalisation(const Node& node, Inputs inputs, Term& out, const Space& space, const ErrorModel& model);
/// Adds to the bounds of x − mean(x) what x may be off because it waited for the mean over `domain`.
void add_kept_errors(const Term& x, const ReduceDomain& domain, Term& difference, const Space& space,
                     const ErrorModel& model);
void evaluate_softmax(const Node& node, const Term& x, Term& out, const Space& space, const ErrorModel& model);

/// Rounds values to the node's dtype if that is bf16, f16 or tf32, and bounds with them: rounding is monotone, so an
/// implementation's result lies between the roundings of the two ends of the interval.
void round_term(Term& x);
V round_value(V x, DType t);

}  // namespace unisono::reference
