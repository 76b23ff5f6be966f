// Column values of a tile on their way from memory to a warpgroup's shared memory: those of the visitor, and of a
// resident normalisation what its factor and shift read. They are loaded when the tile begins, and put where they are
// read once its main loop has ended.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

template <class Tile>
struct TileColumns {
  using Visitor = typename Tile::EpilogueVisitor;
  static constexpr int kN = Tile::kN, kEach = divide_up(kN, 128);  // channels of a thread
  static constexpr int kBefore = Tile::kBefore, kAfter = Tile::kAfter, kLate = Tile::kLateColumns;

  float before[kEach][larger(1, kBefore)], after[kEach][larger(1, kAfter)], late[kEach][larger(1, kLate)];

  template <class At>
  UNISONO_DEVICE void load(const Tile& tile, const At& at) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int n = tile.thread + 128 * j, channel = at.first_channel + n;
      if (n >= kN || channel >= tile.geometry.channels) break;
      if constexpr (kBefore > 0) Visitor::columns_before(tile.visitor, tile.uniform, at.image, channel, before[j]);
      if constexpr (kAfter > 0) Visitor::columns_after(tile.visitor, tile.uniform, at.image, channel, after[j]);
      if constexpr (kLate > 0) {
        const auto of_channel = Visitor::late(tile.visitor, tile.uniform, at.image, channel);
#pragma unroll
        for (int i = 0; i < kLate; ++i) late[j][i] = reinterpret_cast<const float*>(&of_channel)[i];
      }
    }
  }
  template <class At>
  UNISONO_DEVICE void put(const Tile& tile, const At& at) const {
    float* const columns = tile.columns();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int n = tile.thread + 128 * j;
      if (n >= kN || at.first_channel + n >= tile.geometry.channels) break;
#pragma unroll
      for (int i = 0; i < kBefore; ++i) columns[i * kN + n] = before[j][i];
#pragma unroll
      for (int i = 0; i < kAfter; ++i) columns[(kBefore + i) * kN + n] = after[j][i];
#pragma unroll
      for (int i = 0; i < kLate; ++i) columns[(Tile::kFactor + i) * kN + n] = late[j][i];
    }
  }
};

}  // namespace unisono
