// Split-K: where an output has fewer tiles than the chip has CTAs, several CTAs share a tile, each over a part of
// the k-blocks. The first of them adds the others' accumulators, in order, and runs the epilogue. The others write
// theirs to the workspace in the order of their registers and raise a flag to the launch's epoch plus one.
#pragma once
#include "unisono/mma/sums.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono {

// `part` counts the warpgroups' partial tiles: ((tile * (splits - 1) + rank - 1) * warpgroups of a tile + this one).
template <int kBlocks, int kCount>
UNISONO_DEVICE void give_partial(const SplitParams& p, size_t part, const float (&acc)[kBlocks][kCount], u32 epoch,
                                 int thread, int barrier) {
  store_sums<kCount / 4>(static_cast<float4*>(p.partials) + part * (kBlocks * kCount / 4) * 128 + thread, acc);
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
  for_sums<kCount / 4, kCount / 4 % 8 == 0 ? 8 : 4>(from, acc, [](float* to, const float4& value) {
    to[0] += value.x, to[1] += value.y, to[2] += value.z, to[3] += value.w;
  });
}

}  // namespace unisono
