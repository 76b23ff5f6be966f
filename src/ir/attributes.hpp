#pragma once
/// Which attributes an operation reads, what values they may have, and when two sets are the same.

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Equality of numbers as parts of a graph: 0 and -0 differ, all NaNs are one.
bool same_number(double x, double y);
bool same_number(const std::optional<double>& x, const std::optional<double>& y);

/// Equality of attribute sets in that sense. (Attributes::operator== follows IEEE: there NaN differs from itself.)
bool same_attributes(const Attributes& x, const Attributes& y);

/// True if `value` is one of the values of i32 or bool.
bool is_exact_in(double value, DType integer_or_bool);

/// Throws UserError unless `attr` holds what `op` reads within its ranges and nothing else.
void check_attributes(Op op, const Attributes& attr);

}  // namespace unisono::ir
