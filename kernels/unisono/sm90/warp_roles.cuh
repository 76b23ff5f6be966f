// How a CTA begins, which of its warps load, multiply and assist, and how it ends.
#pragma once
#include "unisono/sm90/conv_kernel.cuh"

namespace unisono {

// Which warps of the first warpgroup fill stages, and how: by TMA,
template <class Kernel, bool kDirect = Kernel::kDirect, bool kIm2col = Kernel::kIm2colSmem,
          bool kGather = Kernel::kGather>
struct Filling {
  static UNISONO_DEVICE void run(const typename Kernel::Params& params, u8*, u32 shared,
                                 const typename Kernel::Barriers& barriers, int rank) {
    if (Kernel::kPrefetches > 0 || Kernel::kFromPlanes ? threadIdx.x < 32 : threadIdx.x == 0)
      Producer<Kernel>::run(params, shared, barriers, rank);
  }
};
// by ordinary loads, from windows in shared memory or from memory,
template <class Kernel>
struct Filling<Kernel, false, true, false> {
  static UNISONO_DEVICE void run(const typename Kernel::Params& params, u8* memory, u32,
                                 const typename Kernel::Barriers& barriers, int) {
    if (threadIdx.x < Kernel::kProducers) Producer<Kernel>::explicit_im2col(params, memory, barriers);
  }
};
template <class Kernel>
struct Filling<Kernel, false, false, true> {
  static UNISONO_DEVICE void run(const typename Kernel::Params& params, u8* memory, u32,
                                 const typename Kernel::Barriers& barriers, int) {
    if (threadIdx.x < Kernel::Gatherer::kThreads) Producer<Kernel>::gather(params, memory, barriers);
  }
};
// or not at all.
template <class Kernel, bool kIm2col, bool kGather>
struct Filling<Kernel, true, kIm2col, kGather> {
  static UNISONO_DEVICE void run(const typename Kernel::Params&, u8*, u32, const typename Kernel::Barriers&, int) {}
};

// The first warpgroup: some of its warps load, the others assist.
template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::produce(const Params& params, u8* memory, u32 shared,
                                                        const Barriers& barriers, int rank) {
  register_release<kProducerRegisters>();
  Filling<ConvFprop>::run(params, memory, shared, barriers, rank);
  if ((kExchange || kFromPlanes || Tail::kDeferred) && threadIdx.x >= kProducers)
    assist(params, memory, barriers, rank, threadIdx.x / 32 - kProducers / 32, epoch_of(params.fixed));
}

// By all threads, once the barriers are initialised. Filters that nobody writes are on their way meanwhile.
template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::await(const ConvParams& p, u32 shared, const Barriers& barriers,
                                                      int rank) {
  if constexpr (kFiltersAhead) {
    if (kClusterM > 1) cluster_sync();  // the barriers of all CTAs that a load reaches are there
    if (threadIdx.x == 0) Producer<ConvFprop>::load_filters_ahead(p, shared, barriers, rank);
  }
  await_launches_ahead();
}

// What comes before all roles: the next launch may begin, and planes are converted.
template <class Kernel>
UNISONO_DEVICE void open_launch(const typename Kernel::Params& params, u8* memory) {
  admit_next_launch();
  ConversionOf<Kernel>::ahead(params, memory);
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::run(const Params& params) {
  const ConvParams& p = params.fixed;
  UNISONO_DYNAMIC_SHARED(unaligned);
  u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const u32 shared = shared_address(memory);
  const Barriers barriers{shared + kOffsetBarriers};
  // By a shuffle, so that the compiler knows it is uniform in a warp: descriptors then live in uniform registers.
  const int warpgroup = __shfl_sync(~0u, int(threadIdx.x / 128), 0);
  const int rank = kClusterCtas > 1 ? int(cluster_rank()) : 0;
  if (threadIdx.x == 0) {  // as a separate function it would change the order of instructions elsewhere
    if (!kGather) tma_prefetch(p.activation);
    if (!Operands::kGatherFilters) tma_prefetch(p.filter);
    if (Tail::kByTma && Tail::Needs::kTiled > 0) tma_prefetch(p.output);
    if (Tail::kByTma && Visitor::kSide != SideStore::kNone) tma_prefetch(p.side);
#pragma unroll
    for (int i = 0; i < Resample::kCopies; ++i) tma_prefetch(params.further()[i]);
#pragma unroll
    for (int i = 0; i < Tail::kFetch + kProducts - 1; ++i) tma_prefetch(params.further()[Resample::kMaps + i]);
    // A stage is free once the consumers of every CTA that shares a tile with this one have read it. In a cluster
    // of rows and columns, of every CTA: one that loads both of its operands itself could run a round ahead of the
    // CTA across, and its arrivals would stand in for a slow one's.
    const int readers = 4 * kTileWarpgroups * kReaders;
    for (int s = 0; s < kStages; ++s)
      mbarrier_init(barriers.full(s), kFillers), mbarrier_init(barriers.empty(s), readers);
    if (kTwoRings)
      for (int s = 0; s < kStagesA; ++s)
        mbarrier_init(barriers.full_a(s), 1), mbarrier_init(barriers.empty_a(s), readers);
    if (kIm2colSmem)
      for (int w = 0; w < Config::kStagesA; ++w)
        mbarrier_init(barriers.window(w), 1), mbarrier_init(barriers.empty_window(w), kProducers / 32);
    for (int t = 0; t < 2; ++t) mbarrier_init(barriers.order(t), 4 * kTileWarpgroups);
    if constexpr (kStreamed) {
      for (int c = 0; c < kConsumers; ++c) Again::init_barriers(own_memory(memory, c));
      for (int t = 0; t < 2; ++t)
        mbarrier_init(barriers.columns(t).full, 32), mbarrier_init(barriers.columns(t).empty, 128 * kTileWarpgroups);
    }
    if constexpr (Tail::kFetch > 0) Fetch<Tail>::init_barriers(barriers.fetched(0), kConsumers);
    mbarrier_init_fence();
  }
  await(p, shared, barriers, rank);
  if (kCounted && threadIdx.x == 0 && is_counted(p)) enter_launch(p.launch);
  sync_cluster();
  open_launch<ConvFprop>(params, memory);

  if (warpgroup == 0) {
    produce(params, memory, shared, barriers, rank);
  } else {
    register_acquire<kConsumerRegisters>();
    if constexpr (kGrouped) GroupFiltersLoad<ConvFprop>::fill(p, memory + kOffsetB, int(threadIdx.x) - 128);
    consume(params, memory, shared, barriers, rank, warpgroup - 1, epoch_of(p));
  }
  if (kClusterCtas > 1) __syncwarp();
  sync_cluster();  // no CTA leaves while another may still signal it or deliver to it
  if (kCounted && threadIdx.x == 0 && is_counted(p)) leave_launch(p.launch);
}

}  // namespace unisono
