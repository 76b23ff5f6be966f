#pragma once
/// Attributes that are values: what an operation is then written out in, by the column EXPANDED of the table of
/// operations. Parser and builder share it.

#include <span>

#include "unisono/builder.hpp"

namespace unisono::ir {

/// `op` of x with its attributes, in the order of info(op).parameters. Numbers and constants alone make the operation
/// itself; with a value it is written out, computed in f32 at least and rounded to the dtype that the operation has
/// with numbers. Throws UserError as GraphBuilder::node does, for numbers beside values too.
Value with_attributes(Op op, Value x, std::span<const NumberOrValue> attributes);

}  // namespace unisono::ir
