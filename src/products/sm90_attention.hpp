#pragma once
/// Attention by the matrix instructions of a warpgroup, of tiles that TMA loads (sm_90a).

#include <array>
#include <optional>
#include <vector>

#include "products/attention.hpp"

namespace unisono::products {

/// A tensor in memory, and a box of it, as TMA is told: (columns, rows, inner batches, outer batches).
struct MatrixMap {
  std::array<std::uint64_t, 4> extents{};  ///< elements
  std::array<std::uint64_t, 3> strides{};  ///< bytes; of the extents from the second on
  std::array<std::uint32_t, 4> box{};      ///< rows of 128 bytes, swizzled
};

struct Sm90AttentionTiles {
  int width = 0, value_width = 0;  ///< rounded up to 16, and to 8
  int groups = 2;                  ///< warpgroups, of 64 queries each
  int keys = 64;                   ///< in a block
  int stages = 2;                  ///< blocks in shared memory
  int ctas = 1;                    ///< on an SM, for which there are registers
  int threads() const { return 128 * (groups + 1); }
  int load_registers() const { return 24; }  ///< a thread of the warpgroup that loads has
  int registers() const;                     ///< another has
  int queries() const { return 64 * groups; }
  std::uint32_t shared_bytes() const;
};

/// None where tiles cannot be loaded by TMA, or attention() is the better kernel: masks, few keys, other architectures.
std::optional<Sm90AttentionTiles> sm90_attention_tiles(const AttentionProblem& problem, const plan::Device& device);

/// A kernel that takes Sm90AttentionParams of these `maps` of queries, keys and values; `parameters` has all but them
/// and addresses.
struct Sm90AttentionKernel {
  Kernel kernel;
  Sm90AttentionParams parameters{};
  std::array<MatrixMap, 3> maps{};
};
Sm90AttentionKernel sm90_attention(const AttentionProblem& problem, const Sm90AttentionTiles& tiles);

/// Problems of which sm90_attention() makes every kernel that it has; some of them twice.
std::vector<AttentionProblem> sm90_attention_space();

}  // namespace unisono::products
