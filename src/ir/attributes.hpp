#pragma once
/// Which attributes an operation reads, what values they may have, and when two sets are the same.

#include <cstddef>
#include <optional>
#include <string>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Equality of attribute sets, of their numbers as same_number() says. (Attributes::operator== follows IEEE: there NaN
/// differs from itself.)
bool same_attributes(const Attributes& x, const Attributes& y);
/// A hash of what tells the attributes of the nodes of long graphs apart: numbers and names. Equal sets have one.
std::size_t hash_of(const Attributes& attributes);

/// True if `value` is one of the values of i32 or bool.
bool is_exact_in(double value, DType integer_or_bool);

/// What is wrong with `attr`; nothing: it holds what `op` reads within its ranges and nothing else.
std::optional<std::string> wrong_attributes(Op op, const Attributes& attr);
/// Throws UserError unless `attr` holds what `op` reads within its ranges and nothing else.
void check_attributes(Op op, const Attributes& attr);

}  // namespace unisono::ir
