#pragma once
/// Attention's operands as they lie in memory.

#include <cstdint>
#include <vector>

#include "network/cuda/input.hpp"
#include "products/attention.hpp"

namespace unisono::network::gpu {

/// Matrices that are bound: where they are, and the bytes from there to the first element.
struct PlacedMatrix {
  Location at;
  std::int64_t first = 0;
  Interval memory;
};

/// The problem, and where q, k, v, the masks and the result lie, in this order.
struct AttentionOperands {
  products::AttentionProblem problem;
  std::vector<PlacedMatrix> placed;
};

/// Throws UserError for extents that kernels cannot count.
AttentionOperands attention_operands(const PlanningInput& in, const Operator& op);

}  // namespace unisono::network::gpu
