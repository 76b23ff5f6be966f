// A normalisation over the channels of one pixel, all of which a warpgroup's tile has.
#pragma once
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/ptx/arithmetic.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

struct RowAffine {
  float mean, factor, shift;
};

// What normalises each row of the tile over its channels: row 64 b + 16 warp + lane / 4 + 8 half is number 2 b + half.
// The four lanes of a row share a pivot, so that a large common offset costs no bits; deviations are taken from the
// mean.
template <class Tile>
struct RowStatistics {
  using Visitor = typename Tile::EpilogueVisitor;
  static constexpr int kBlocks = Tile::kBlocks, kN = Tile::kN;
  static constexpr Stores kStores = Tile::kStores;

  const Tile& tile;

  UNISONO_DEVICE void of(RowAffine (&rows)[2 * kBlocks]) const {
    const int lane = tile.thread & 31;
    const float inverse = 1.f / float(tile.geometry.channels);
    // Eight channels exist together or not at all, unless the number of channels is arbitrary.
    auto some = [&](int j, int e, float x) {
      if constexpr (kStores == Stores::kTma)
        return x;
      else
        return 8 * j + 2 * (lane & 3) + e < tile.geometry.channels ? x : 0.f;
    };
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float pivot = __shfl_sync(~0u, as_float(tile.acc[b][2 * half]), lane & ~3);
        float sum = 0.f, m2 = 0.f;
#pragma unroll
        for (int j = 0; j < kN / 8; ++j)
          if (8 * j < tile.geometry.channels)
            sum += some(j, 0, tile.acc[b][4 * j + 2 * half] - pivot) +
                   some(j, 1, tile.acc[b][4 * j + 2 * half + 1] - pivot);
        const float mean = fmaf(over_four_lanes(sum), inverse, pivot);
#pragma unroll
        for (int j = 0; j < kN / 8; ++j)
          if (8 * j < tile.geometry.channels) {
            const float x = some(j, 0, tile.acc[b][4 * j + 2 * half] - mean),
                        y = some(j, 1, tile.acc[b][4 * j + 2 * half + 1] - mean);
            m2 = fmaf(x, x, fmaf(y, y, m2));
          }
        const float2 affine =
            Visitor::affine(typename Visitor::Late{}, tile.uniform, mean, over_four_lanes(m2) * inverse);
        rows[2 * b + half] = {mean, affine.x, affine.y};
      }
  }
};

}  // namespace unisono
