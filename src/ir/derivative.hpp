#pragma once
/// Derivatives of elementwise operations, as graphs: the column DERIVATIVE of the table of operations.

#include <optional>
#include <vector>

#include "unisono/builder.hpp"

namespace unisono::ir {

/// The gradient with respect to each input of the elementwise operation that made `result`, given that with respect to
/// `result`. Appends nodes to the builder of both. An input has none where the result is constant in it, or where it
/// is no float: conditions, labels, integers. A gradient has the axes of `result` and `gradient`; along axes that its
/// input lacks, the caller sums it. At kinks (abs at 0, min of equals, …) it is that of one side.
/// Throws Unsupported for what is not elementwise and for user functions.
std::vector<std::optional<Value>> derivative(Value result, Value gradient);

}  // namespace unisono::ir
