#pragma once
/// Attention in one kernel: softmax(scale q kᵀ + masks) v.

#include <array>
#include <vector>

#include "products/kernel.hpp"

namespace unisono::products {

/// The widest head of queries and keys, and of values, for which the device's shared memory has room; 0: there is no
/// kernel for the device.
std::int64_t widest_head(const plan::Device& device);

/// Attention of these extents and strides (`extents.query_tiles` and addresses are not read). `masks`: how many there
/// are; `q_first`, `k_first`, `v_first`: see lies_together(). Heads are at most widest_head() wide.
struct AttentionProblem {
  AttentionParams extents{};
  int masks = 0;
  std::int64_t q_first = 0, k_first = 0, v_first = 0;
  DType element = DType::bf16;
};

/// Tiles of queries and blocks of keys.
struct AttentionTiles {
  int width = 0, value_width = 0;  ///< rounded up to 16; of the values, the columns of a part
  int parts = 1;                   ///< so many CTAs share the values' columns; each computes the weights
  int atoms = 1;                   ///< runs of 16 queries that a warp has
  int keys = 64;                   ///< in a block
  int queries() const { return 64 * atoms; }
  bool shares_queries() const;  ///< they stay in shared memory, beside the keys
  std::uint32_t shared_bytes() const;
};

AttentionTiles attention_tiles(const AttentionProblem& problem, const plan::Device& device);

/// The kernel; sets `extents.query_tiles`, which it is launched with.
Kernel attention(AttentionProblem& problem, const plan::Device& device);

/// Problems of which attention() makes every kernel that it has for the device; some of them twice.
std::vector<AttentionProblem> attention_space(const plan::Device& device);

}  // namespace unisono::products
