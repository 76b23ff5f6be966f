#pragma once
/// How far the forms for 16-bit outputs (kernels/unisono/epilogue/math.cuh) are from the functions that they stand for.

#include <limits>

#include "unisono/graph.hpp"

namespace unisono::codegen {

/// For a float32 input x (of div: divisor y) with |x| <= limit and a result f that is finite and normal,
/// |computed - f| <= relative·|f| + absolute + input·|x|. What x itself is off by comes on top.
struct FastBound {
  double relative = 0, absolute = 0, input = 0;
  double limit = std::numeric_limits<double>::infinity();
  bool operator==(const FastBound&) const = default;
};

/// The bound of an elementwise node; all zero where the form is as good as float32 arithmetic or the usual float32
/// function (within reference::ErrorModel::function_ulps). Columns and scalars are computed by accurate forms in any
/// case.
FastBound fast_bound(const Node& node);

/// Whether that is as much as half a unit in the last place of a 16-bit output that sums of many elements would show.
bool is_coarse(const Node& node);

}  // namespace unisono::codegen
