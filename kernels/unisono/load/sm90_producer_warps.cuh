// Producers of several warps: they do im2col in shared memory, or load element by element.
#pragma once
#include "unisono/load/sm90_producer.cuh"

namespace unisono {

template <class Kernel>
UNISONO_DEVICE void Producer<Kernel>::explicit_im2col(const Params& params, u8* memory, const Barriers& barriers) {
  using Im2col = ExplicitIm2col<Config>;
  constexpr int kWindows = Config::kStagesA, kWarps = Kernel::kProducers / 32;
  const ConvParams& p = params.fixed;
  const ConvGeometry& g = p.geometry;
  u8* const windows = memory + Kernel::kOffsetWindows;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = gridDim.x;
  const auto load = [&](int item, u32 window) {
    Im2col::load_window(p, tile_at<1, 1, kGroup>(g, item, 0), shared_address(windows) + window * Im2col::kWindowBytes,
                        barriers.window(window));
  };
  for (int i = 0; i < kWindows - 1; ++i)
    if (threadIdx.x == 0 && int(blockIdx.x) + i * step < Kernel::items(g)) load(blockIdx.x + i * step, i);
  __syncwarp();
  const Im2col im2col{int(threadIdx.x)};
  im2col.fill_filters(p, memory + kOffsetB);
  RingPosition<kStages> at(0);
  RingPosition<kWindows> window(0), ahead(kWindows - 1);
  int issuing_warp = 0;
  for (int item = blockIdx.x; item < Kernel::items(g); item += step) {
    if (const int next = item + (kWindows - 1) * step; warp == issuing_warp && lane == 0 && next < Kernel::items(g)) {
      mbarrier_wait(barriers.empty_window(ahead.stage), ahead.parity ^ 1);
      load(next, ahead.stage);
    }
    __syncwarp();
    if (++issuing_warp == kWarps) issuing_warp = 0;
    mbarrier_wait(barriers.window(window.stage), window.parity);
#pragma unroll
    for (int k = 0; k < Im2col::kSteps; ++k) {
      im2col.fill(memory + at.stage * kBytesA, windows + window.stage * Im2col::kWindowBytes, k,
                  [&] { mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1); });
      fence_async_shared();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(barriers.full(at.stage));
      at.advance();
    }
    if (lane == 0) mbarrier_arrive(barriers.empty_window(window.stage));
    window.advance(), ahead.advance();
  }
}

template <class Kernel>
UNISONO_DEVICE void Producer<Kernel>::gather(const Params& params, u8* memory, const Barriers& barriers) {
  const ConvParams& p = params.fixed;
  const ConvGeometry& g = p.geometry;
  const Gatherer gatherer = Gatherer::of(p, reinterpret_cast<GatheredRow*>(memory + kOffsetTable));
  Sharing sharing(0);
  RingPosition<kStages> at(0);
  for (int item = blockIdx.x; item < Kernel::items(g); item += gridDim.x) {
    const Tile tile = tile_at<1, 1, kGroup>(g, Kernel::tile_of(g, item), 0);
    const Range range = Kernel::loads_of(g, item);
    gatherer.find_rows(tile);
    for (int load = range.begin; load < range.end; ++load) {
      u8 *const to_a = memory + at.stage * kBytesA, *const to_b = memory + kOffsetB + at.stage * kBytesB;
      mbarrier_wait(barriers.empty(at.stage), at.parity ^ 1);
      if constexpr (Operands::kGatherFilters) {
        gatherer.fill_filters(to_b, tile, load * kK);
      } else if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barriers.full(at.stage), kBytesB);
        load_filter(p, sharing, shared_address(to_b), barriers.full(at.stage), load * kK, 0, tile.tile_n * kN,
                    tile.image);
      }
      gatherer.fill_pixels(to_a, load * kK);
      fence_async_shared();
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(barriers.full(at.stage));
      at.advance();
    }
  }
}

template <class Kernel>
template <int i>
UNISONO_DEVICE void Producer<Kernel>::prefetch_tensor(const Params& params, const Tile& tile, int lane) {
  if constexpr (Kernel::template kIsPrefetched<i>) {
    const ConvGeometry& g = params.fixed.geometry;
    const auto source = Visitor::template tensor<i>(params.visitor);
    const Rows rows = Rows::of(g, tile, kM, 0);
    const int first = tile.tile_n * kN, count = smaller(kN, g.channels - first);
    const u8* base =
        static_cast<const u8*>(source.memory) + (u64(tile.image) * g.rows * g.channels + first) * source.kElementBytes;
    for (int m = lane; m < kM && count > 0; m += 32)
      for (int line = 0; line < count * source.kElementBytes; line += 128)
        if (rows.valid(m)) prefetch_line(base + u64(rows.pixel(m)) * g.channels * source.kElementBytes + line);
  }
}

}  // namespace unisono
