// Tiles whose image is not complete, in memory: every thread finds its own sums again, in f32; of a dual product the
// first's, in whose place is what waits. A CTA publishes the
// moments of its tiles one after another, in the order of images. When it comes to the next image, or to its end, it
// waits for the one before: all its own tiles of that are published by then, and so they are, or soon will be, in all
// other CTAs, which wait for earlier images at most. All CTAs are in flight at once.
#pragma once
#include "unisono/params/sm80_conv_params.cuh"
#include "unisono/ptx/global.cuh"

namespace unisono {

template <class Kernel>
struct TilesInMemory {
  using Tail = typename Kernel::Tail;
  using At = typename Tail::At;
  static constexpr int kBlocks = Tail::kBlocks, kQuadruples = Tail::kN / 8, kWarpgroups = Kernel::kThreads / 128;

  const Sm80ConvParams& f;
  Tail& tail;
  int first;  // tile of this CTA's that waits

  UNISONO_DEVICE int warpgroup() const { return int(threadIdx.x) / 128; }
  UNISONO_DEVICE float4* place(int tile) const {
    return static_cast<float4*>(f.waiting) +
           (size_t(tile) * kWarpgroups + warpgroup()) * (kBlocks * kQuadruples * 128) + tail.thread;
  }
  UNISONO_DEVICE void keep(int tile) const {
    float4* const to = place(tile);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int i = 0; i < kQuadruples; ++i) {
        const float* const of = tail.acc[b] + 4 * i;
        to[(b * kQuadruples + i) * 128] = {of[0], of[1], of[2], of[3]};
      }
  }
  UNISONO_DEVICE void bring_back(int tile) const {
    const float4* const from = place(tile);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int i = 0; i < kQuadruples; ++i) {
        const float4 four = from[(b * kQuadruples + i) * 128];
        float* const to = tail.acc[b] + 4 * i;
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
      }
  }
  UNISONO_DEVICE At at(int tile) const {
    return Kernel::place_of(f.tile.geometry, Kernel::tile_of(f.tile.geometry, tile), warpgroup());
  }

  // The tiles of images before `image`.
  UNISONO_DEVICE void complete_ahead_of(int image) {
    const int tiles = f.tile.geometry.tiles, step = gridDim.x;
    int end = first;
    for (; end < tiles && at(end).image < image; end += step) tail.share(at(end));
    for (; first < end; first += step) {
      const At place = at(first);
      typename Tail::Columns columns;
      columns.load(tail, place);
      bring_back(first);
      tail.open(place, columns);
      tail.complete(place);
    }
  }
};

}  // namespace unisono
