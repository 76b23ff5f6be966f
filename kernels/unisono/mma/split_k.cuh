// Split-K: where an output has fewer tiles than the chip has CTAs, several CTAs share a tile, each over a part of
// the k-blocks. The first of them adds the others' accumulators, in order, and runs the epilogue. The others write
// theirs to the workspace in the order of their registers and raise a flag to the launch's epoch plus one.
#pragma once
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono {

// `part` counts the warpgroups' partial tiles: ((tile * (splits - 1) + rank - 1) * warpgroups of a tile + this one).
template <int kBlocks, int kCount>
UNISONO_DEVICE void give_partial(const SplitParams& p, size_t part, const float (&acc)[kBlocks][kCount], u32 epoch,
                                 int thread, int barrier) {
  float4* to = static_cast<float4*>(p.partials) + part * (kBlocks * kCount / 4) * 128 + thread;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i)
      to[(b * kCount / 4 + i) * 128] = {acc[b][4 * i], acc[b][4 * i + 1], acc[b][4 * i + 2], acc[b][4 * i + 3]};
  named_barrier(barrier, 128);
  if (thread == 0) {
    delay_point();
    __threadfence();
    store_release(p.flags + part, epoch + 1);
  }
}

template <int kBlocks, int kCount>
UNISONO_DEVICE void add_partial(const SplitParams& p, size_t part, float (&acc)[kBlocks][kCount], u32 epoch, int thread,
                                int barrier) {
  if (thread == 0) {
    Watchdog watchdog;
    delay_point();
    for (;;) {
      if (load_acquire(p.flags + part) == epoch + 1) break;
      __nanosleep(100);
      watchdog.tick();
    }
  }
  named_barrier(barrier, 128);
  const float4* from = static_cast<const float4*>(p.partials) + part * (kBlocks * kCount / 4) * 128 + thread;
  constexpr int kBatch = kCount / 4 % 8 == 0 ? 8 : 4;  // loads in flight
  static_assert(kCount / 4 % kBatch == 0, "partial tiles move in batches of 4 or 8 quadruples");
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int base = 0; base < kCount / 4; base += kBatch) {
      float4 values[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) values[i] = load_l2(from + (b * kCount / 4 + base + i) * 128);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float* to = acc[b] + 4 * (base + i);
        to[0] += values[i].x, to[1] += values[i].y, to[2] += values[i].z, to[3] += values[i].w;
      }
    }
}

}  // namespace unisono
