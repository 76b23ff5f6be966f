// The main loop: matrix instructions over the stages that the producer fills, and their release.
#pragma once
#include "unisono/sm90/conv_kernel.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::multiply_stage(Accumulators& acc, u64 a, u64 b, int accumulate) {
  wgmma_fence();
  if constexpr (kGrouped)
    multiply_groups(acc, a, b, accumulate);
  else
    multiply_step(acc, a, b, accumulate);
  wgmma_commit();
}

// Each slice of the filters by the channels of its groups: next to those there are only zeros. Filters that are the
// first operand are not sliced, as that has 64 rows.
template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::multiply_groups(Accumulators& acc, u64 a, u64 b, int accumulate) {
  constexpr GroupSlices kSlices = group_slices(kN, Operands::kGroupChannels, Operands::kGroupFilters);
#pragma unroll
  for (int k = 0; k < kSlices.steps; ++k)
#pragma unroll
    for (int block = 0; block < Tail::kAccBlocks; ++block) {
      const u64 at_a = a + (k * 32 >> 4), at_b = b + (k * 32 >> 4);
      const int slice = k / kSlices.together;
      if constexpr (kSwap)
        wgmma<Element, Config::kWarpgroupRows>(acc[block], at_b + (block * kRows64B >> 4), at_a, accumulate | k);
      else
        wgmma<Element, kSlices.filters>(
            reinterpret_cast<float(&)[kSlices.filters / 2]>(acc[block][slice * kSlices.filters / 2]),
            at_a + (block * kRows64A >> 4), at_b + (slice * kSlices.filters * kRowBytes >> 4),
            accumulate | k % kSlices.together);
    }
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::multiply_step(Accumulators& acc, u64 a, u64 b, int accumulate) {
#pragma unroll
  for (int k = 0; k < kStepBytes / 32; ++k)
#pragma unroll
    for (int block = 0; block < Tail::kAccBlocks; ++block) {
      const u64 at_a = a + ((Operands::kColumnsA ? k * 2048 : k / 4 * kAtomBytesA + k % 4 * 32) >> 4);
      const u64 at_b = b + ((Operands::kColumnsB ? k * 2048 : k / 4 * kAtomBytesB + k % 4 * 32) >> 4);
      wgmma<Element, kSwap ? Config::kWarpgroupRows : kColumns, kSwap ? Operands::kColumnsB : Operands::kColumnsA,
            kSwap ? Operands::kColumnsA : Operands::kColumnsB>(
          acc[block], kSwap ? at_b + (block * kRows64B >> 4) : at_a + (block * kRows64A >> 4), kSwap ? at_a : at_b,
          accumulate | k);
    }
}

// A load of activations serves all filter taps.
template <class Kernel>
struct HaloLoop {
  using Barriers = typename Kernel::Barriers;
  static constexpr int kStages = Kernel::kStages, kStagesA = Kernel::kStagesA, kBytesA = Kernel::kBytesA,
                       kBytesB = Kernel::kBytesB, kRowBytes = Kernel::kRowBytes, kLineBytes = Kernel::kLineBytes;
  static constexpr bool kStationary = Kernel::kStationary, kGrouped = Kernel::kGrouped;

  template <class Accumulators, class Between>
  static UNISONO_DEVICE void multiply(Accumulators& acc, const ConvGeometry& g, u64 base_a, u64 base_b,
                                      const Barriers& barriers, u32 done, int loads, int rank, int next_group,
                                      bool first_tile, const typename Kernel::Voids& voids, Between&& between) {
    if (voids.has_all(g)) return pass(acc, g, barriers, done, loads, rank, next_group);
    RingPosition<kStages> at(kStationary ? 0 : done * g.taps_h * g.taps_w);
    u32 previous = 0;
    RingPosition<kStagesA> at_a(done);
    u32 previous_a = 0;
    const u32 pixel = (kRowBytes >> 4) * g.dilation_w, line = (kLineBytes >> 4) * g.dilation_h - pixel * g.taps_w;
    for (int load = 0; load < loads; ++load) {
      mbarrier_wait(barriers.full_a(at_a.stage), at_a.parity);
      u64 a = base_a + at_a.stage * (kBytesA >> 4);
      for (int r = 0; r < g.taps_h; ++r, a += line)
        for (int s = 0; s < g.taps_w; ++s, a += pixel) {
          if (!kStationary || (first_tile && !kGrouped)) mbarrier_wait(barriers.full(at.stage), at.parity);
          if (voids.has(r, s)) {
            Kernel::release(barriers.empty(at.stage), rank);
            at.advance();
            continue;
          }
          const int r_before = r - voids.rows, s_before = s - voids.columns;  // taps of this load, 0: none
          Kernel::multiply_stage(acc, a, base_b + at.stage * (kBytesB >> 4), load | r_before | s_before);
          between();
          if (load | r_before | s_before) {
            wgmma_wait<1>();
            if (!kStationary) Kernel::release(barriers.empty(previous), rank);
            if ((r_before | s_before) == 0) Kernel::release(barriers.empty_a(previous_a), rank);
          }
          previous = at.stage;
          at.advance();
        }
      previous_a = at_a.stage;
      at_a.advance();
    }
    Kernel::finish_multiply(acc, barriers, next_group);
    Kernel::release(barriers.empty_a(previous_a), rank);
    if (!kStationary) Kernel::release(barriers.empty(previous), rank);
  }

  // A tile whose phase has no taps: stages go by, and what they add up to is zero.
  template <class Accumulators>
  static UNISONO_DEVICE void pass(Accumulators& acc, const ConvGeometry& g, const Barriers& barriers, u32 done,
                                  int loads, int rank, int next_group) {
    const int taps = g.taps_h * g.taps_w;
    RingPosition<kStages> at(done * taps);
    RingPosition<kStagesA> at_a(done);
    for (int load = 0; load < loads; ++load, at_a.advance()) {
      mbarrier_wait(barriers.full_a(at_a.stage), at_a.parity);
      Kernel::release(barriers.empty_a(at_a.stage), rank);
      for (int tap = 0; tap < taps; ++tap, at.advance()) {
        mbarrier_wait(barriers.full(at.stage), at.parity);
        Kernel::release(barriers.empty(at.stage), rank);
      }
    }
    for (auto& block : acc)
      for (float& sum : block) sum = 0;
    Kernel::finish_multiply(acc, barriers, next_group);
  }
};

// Each load of activations serves one filter tap, and so does one of filters, in the same stage.
template <class Kernel>
struct Im2colLoop {
  using Barriers = typename Kernel::Barriers;
  static constexpr int kStages = Kernel::kStages, kBytesA = Kernel::kBytesA, kBytesB = Kernel::kBytesB;

  template <class Accumulators, class Between>
  static UNISONO_DEVICE void multiply(Accumulators& acc, const ConvGeometry&, u64 base_a, u64 base_b,
                                      const Barriers& barriers, u32 done, int loads, int rank, int next_group, bool,
                                      const typename Kernel::Voids&, Between&& between) {
    RingPosition<kStages> at(done);
    u32 previous = 0;
    for (int block = 0; block < loads; ++block) {
      mbarrier_wait(barriers.full(at.stage), at.parity);
      Kernel::multiply_stage(acc, base_a + at.stage * (kBytesA >> 4),
                             base_b + (Kernel::kIm2colSmem ? u32(block) : at.stage) * (kBytesB >> 4), block);
      between();
      if (block > 0) {
        wgmma_wait<1>();
        Kernel::release(barriers.empty(previous), rank);
      }
      previous = at.stage;
      at.advance();
    }
    Kernel::finish_multiply(acc, barriers, next_group);
    Kernel::release(barriers.empty(previous), rank);
  }
};

// The same where the filters stay.
template <class Kernel>
struct StationaryLoop {
  using Barriers = typename Kernel::Barriers;
  static constexpr int kStagesA = Kernel::kStagesA, kBytesA = Kernel::kBytesA, kBytesB = Kernel::kBytesB;

  template <class Accumulators, class Between>
  static UNISONO_DEVICE void multiply(Accumulators& acc, const ConvGeometry&, u64 base_a, u64 base_b,
                                      const Barriers& barriers, u32 done, int loads, int rank, int next_group,
                                      bool first_tile, const typename Kernel::Voids&, Between&& between) {
    u32 previous = 0;
    RingPosition<kStagesA> at_a(done);
    for (int block = 0; block < loads; ++block) {
      if (first_tile && !Kernel::kGrouped) mbarrier_wait(barriers.full(block), 0);
      mbarrier_wait(barriers.full_a(at_a.stage), at_a.parity);
      Kernel::multiply_stage(acc, base_a + at_a.stage * (kBytesA >> 4), base_b + block * (kBytesB >> 4), block);
      between();
      if (block > 0) {
        wgmma_wait<1>();
        Kernel::release(barriers.empty_a(previous), rank);
      }
      previous = at_a.stage;
      at_a.advance();
    }
    Kernel::finish_multiply(acc, barriers, next_group);
    Kernel::release(barriers.empty_a(previous), rank);
  }
};

template <class Kernel, bool kHalo, bool kStationary>
struct LoopOf : HaloLoop<Kernel> {};
template <class Kernel>
struct LoopOf<Kernel, false, false> : Im2colLoop<Kernel> {};
template <class Kernel>
struct LoopOf<Kernel, false, true> : StationaryLoop<Kernel> {};

template <class Config, class Visitor>
template <class Between>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::multiply(Accumulators& acc, const ConvGeometry& g, u32 shared,
                                                         const Barriers& barriers, u32 done, int loads, int rank,
                                                         int first_row, int next_group, bool first_tile,
                                                         const Voids& voids, Between&& between) {
  const u64 base_a = stage_descriptor<Operands::kColumnsA, kLineBytes>(shared + first_row / 8 * (kRows64A / 8));
  const u64 base_b = stage_descriptor<Operands::kColumnsB>(shared + kOffsetB);
  LoopOf<ConvFprop, kHaloTile, kStationary>::multiply(acc, g, base_a, base_b, barriers, done, loads, rank, next_group,
                                                      first_tile, voids, between);
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::finish_multiply(Accumulators& acc, const Barriers& barriers,
                                                                int next_group) {
  if (kConsumerGroups > 1 && (threadIdx.x & 31) == 0) mbarrier_arrive(barriers.order(next_group));
  wgmma_wait<0>();
#pragma unroll
  for (int b = 0; b < Tail::kAccBlocks; ++b) wgmma_hold(acc[b]);
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::release(u32 barrier, int rank) {
  const int lane = threadIdx.x & 31;
  if (kClusterCtas == 1) {
    if (lane == 0) mbarrier_arrive(barrier);
  } else if (kGrid) {
    if (lane < kClusterCtas) mbarrier_arrive_cluster(barrier, lane);
  } else {
    const int rank_m = rank / kClusterN, rank_n = rank % kClusterN;
    if (lane < kClusterN)
      mbarrier_arrive_cluster(barrier, rank_m * kClusterN + lane);
    else if (lane < kClusterN + kClusterM && lane - kClusterN != rank_m)
      mbarrier_arrive_cluster(barrier, (lane - kClusterN) * kClusterN + rank_n);
  }
}

}  // namespace unisono
