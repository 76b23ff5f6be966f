// Conv2d forward as an implicit matrix product for sm_90a: persistent, warp-specialised, NHWC times KRSC.
//
// One producer warp fills rings of shared-memory stages by TMA; consumer warpgroups multiply. One or two of
// them share a tile's rows (kTileWarpgroups), and such teams work alone or take turns at the tensor cores (kTurns), so
// that one's epilogue runs beside the other's main loop:
//   kTileWarpgroups, kTurns = 2, 1   cooperative; 1, 2  ping-pong; 2, 2  ping-pong with twice the warps an epilogue, for
//   tiles of up to 128 x 128, whose epilogues, of one warp a scheduler, would otherwise outlast a short main loop.
//
// Two ways to load the activations of a tile:
//   runs     of consecutive output pixels by im2col loads, once for every filter tap: any stride, padding, dilation; of products by boxes of rows;
//   patches  8 pixels wide, with a halo, once for all filter taps: each reads the same stage from another pixel, a seventh of
//            the traffic for a 3x3 filter. Stride 1. What comes from L2 a clock, and what shared memory
//            takes beside the matrix instructions' reads, bounds these kernels, so patches win wherever they cover the image well.
//
// Where a block's tiles all have the same channels and their filters fit, these stay in shared memory for the whole launch (kStationary): the
// TMA then brings activations alone, and what it writes no longer competes with the matrix instructions' reads.
//
// A configuration is a struct:
//   using Element = Bf16, F16 or Tf32;
//   static constexpr int kTileM, kTileN, kTileK;        // kTileK: 128 bytes; of 16-bit elements 256 too, and for runs 64
//   static constexpr int kTileWarpgroups, kTurns, kWarpgroupRows;  // kWarpgroupRows = kTileM / kTileWarpgroups: 64, 128 or 256
//   static constexpr int kStages, kStagesA;             // of filters (for runs, of both); of activations, for patches and beside stationary filters; unfold.cuh: of rows; of windows
//   static constexpr int kHaloH, kHaloW;                // patches: (R - 1) * dilation at most; (S - 1) * dilation
//   static constexpr int kStoreBuffers, kClusterM, kClusterN;
//   static constexpr bool kPatch, kSplit;               // kSplit: ConvGeometry::splits may exceed 1; without clusters
//   static constexpr bool kSwap;                        // operands swapped: see fragment.cuh
//   static constexpr Norm kNorm;
//   static constexpr int kUnit;                         // see exchange.cuh; any divisor of the largest will do
//   static constexpr int kGroup;                        // may be absent, see tiles.cuh; not with an exchange, which goes image by image
//   using Operands = Matrices<…>;                       // products, gathered images: layout.cuh; may be left out
//   static constexpr Stores kStores;                    // tiles.cuh; may be left out
//   using Resample = Resampled<…>;                      // resample.cuh; may be left out
//   using Head = FusedHead<…>;                          // head.cuh; may be left out
//   static constexpr int kMoments;                      // moment_store.cuh; may be left out
//   static constexpr bool kWide, kMeets;                // if kNorm is kGeneral: see general.cuh
//   static constexpr int kFetch;                        // fetch.cuh; may be left out
//   static constexpr bool kStationary;                  // kStages is then the number of k-steps of a tile; may be left out
#pragma once
#include "backlog.cuh"
#include "direct.cuh"
#include "general.cuh"
#include "produce.cuh"
#include "second_pass.cuh"
#include "split.cuh"
#include "wgmma.cuh"

namespace unisono {

// Config::kStationary, if there is one.
template <class Config> constexpr auto is_stationary(int) -> decltype(bool(Config::kStationary)) { return Config::kStationary; }
template <class Config> constexpr bool is_stationary(...) { return false; }

template <class Config, class Visitor> struct ConvFprop {
    using Configuration = Config;
    using EpilogueVisitor = Visitor;
    using Element = typename Config::Element;
    using Tail = Epilogue<Config, Visitor>;
    using Again = SecondPass<Config, Visitor>;
    using Rows = typename Tail::Rows;
    using At = typename Tail::At;
    using Accumulators = typename Tail::Accumulators;
    using Operands = typename OperandsOf<Config>::Type;
    static constexpr int kM = Config::kTileM, kN = Config::kTileN, kK = Config::kTileK, kStepBytes = kK * int(sizeof(typename Element::Word));
    // TMA swizzles spans of 128 bytes. Of operands with their k side by side a deeper step is several such atoms, each with all rows.
    static constexpr int kAtoms = kStepBytes > 128 ? kStepBytes / 128 : 1, kRowBytes = kStepBytes / kAtoms, kAtomK = kK / kAtoms;
    static constexpr int kClusterM = Config::kClusterM, kClusterN = Config::kClusterN, kClusterBlocks = kClusterM * kClusterN;
    static constexpr bool kGrid = kClusterM > 1 && kClusterN > 1;  // a cluster of rows and columns
    static constexpr int kReaders = kGrid ? kClusterBlocks : kClusterM + kClusterN - 1;  // blocks that release a stage
    static constexpr bool kSwap = Config::kSwap;
    static constexpr int kGroup = group_of<Config>(0);
    static constexpr int kTeam = Config::kTileWarpgroups, kTurns = Config::kTurns, kConsumers = kTeam * kTurns;
    static constexpr bool kGather = Operands::kGather, kDirect = Operands::kDirect, kUnfold = Operands::kUnfold;
    static constexpr bool kByHand = kGather || kUnfold;  // a warpgroup fills the stages
    using Gatherer = Gather<Config>;
    static constexpr bool kPhases = Operands::kPhases;
    static constexpr bool kPatch = Config::kPatch && !kUnfold, kStreamed = Config::kNorm == Norm::kStreamed;
    static constexpr bool kStationary = is_stationary<Config>(0), kTwoRings = kPatch || kStationary;
    static constexpr int kStages = Config::kStages, kStagesA = kTwoRings ? Config::kStagesA : kStages;

    // A producer warpgroup and the consumers. What a block holds at its start is 168 registers a thread of 384, or 96 of
    // 640; setmaxnreg moves them: 56 + 2 * 224 = 3 * 168, 32 + 4 * 112 = 5 * 96. Streamed, spare warps of the producer's warpgroup merge statistics.
    static constexpr int kThreads = 128 * (1 + kConsumers);
    static constexpr bool kGeneral = Config::kNorm == Norm::kGeneral, kAlone = Config::kNorm == Norm::kNone || kGeneral;
    // Ordinary loads take a producer more.
    static constexpr int kProducerRegisters = kByHand ? (kConsumers == 4 ? 64 : 88) : kConsumers == 4 ? (kStreamed ? 64 : 32) : kAlone ? 40 : kStreamed ? 72 : 56;
    static constexpr int kConsumerRegisters = kByHand ? (kConsumers == 4 ? 104 : 208) : kConsumers == 4 ? (kStreamed ? 104 : 112) : kAlone ? 232 : kStreamed ? 216 : 224;
    static constexpr bool kSplit = Config::kSplit, kExchange = Tail::kExchange;
    static constexpr bool kWorkspace = kSplit || kExchange || Tail::Needs::kMeets;
    static constexpr bool kCounted = kWorkspace || (kChecked && kGeneral);  // blocks are, that come and leave
    static_assert(!Tail::Needs::kMeets || (!kSplit && kGroup == 0), "tiles that wait for one another are whole, and neighbours");
    template <int i> static constexpr bool kIsPrefetched = is_loaded<Visitor, Tail::kFetchFirst, Tail::kFetchEnd, Tail::kFetch>(i);
    static constexpr bool kSpread = Tail::kFetch > 0 && kTurns == 1 && !kSplit && !kDirect;
    static constexpr bool kAllFetched = Tail::kFetch > 0 && Tail::kFetch == Visitor::kTensors;
    static constexpr int kPrefetches = kByHand || kAllFetched || Tail::kStores != Stores::kTma ? 0 : kStreamed ? Visitor::kTensorsBefore : Visitor::kTensors;  // the second pass comes much later
    static_assert(kGroup == 0 || !kExchange, "tiles of an image are neighbours where they exchange statistics");
    static_assert(!kSplit || !kStreamed, "split-K serves small outputs, which are resident");
    static_assert(!kSplit || kClusterBlocks == 1, "split-K goes without clusters");
    static_assert(kClusterBlocks <= 8, "a cluster has up to eight blocks");
    static_assert(!kStationary || (kAtoms == 1 && !kUnfold && !kSplit && !kGather && !kDirect && !kPhases && kGroup == 0 && !Operands::kBatched), "all tiles of a block have the same filters");
    static_assert(kConsumers == 2 || kConsumers == 4, "two or four consumer warpgroups");
    static_assert(Config::kWarpgroupRows * kTeam == kM, "the warpgroups of a team divide the tile's rows");

    static constexpr int kPatchPixels = 8 + Config::kHaloW;  // of a line
    static constexpr int kLineBytes = kPatch ? kPatchPixels * kRowBytes : 8 * kRowBytes;  // from 8 pixels of a tile to the next 8
    static constexpr int kBoxBytes = 64 * kStepBytes;  // of 64 columns of an operand (k, m) or (k, n)
    static constexpr int kAtomBytesA = kPatch ? divide_up((kM / 8 + Config::kHaloH) * kLineBytes, 1024) * 1024 : kM * kRowBytes, kAtomBytesB = kN * kRowBytes;
    static constexpr int kBytesA = kDirect ? 0 : kAtoms * kAtomBytesA, kBytesB = kDirect ? 0 : Operands::kColumnsB ? divide_up(kN, 64) * kBoxBytes : kAtoms * kAtomBytesB;
    static constexpr int kRows64A = Operands::kColumnsA ? kBoxBytes : 8 * kLineBytes, kRows64B = Operands::kColumnsB ? kBoxBytes : 64 * kRowBytes;  // from 64 rows to the next
    static constexpr int kWarpgroupBytes = divide_up(Tail::kWarpgroupBytes, 1024) * 1024;
    static constexpr int kOffsetB = kStagesA * kBytesA;
    static constexpr int kStagesB = filter_stages<Config>(kStages);
    static constexpr int kOffsetTail = kOffsetB + kStagesB * kBytesB;
    static constexpr int kOffsetSecond = kOffsetTail + kConsumers * kWarpgroupBytes;
    static constexpr int kOffsetBarriers = kOffsetSecond + (kStreamed ? kTurns * Again::kTeamBytes + kConsumers * Again::kOwnBytes : 0);
    static constexpr int kFetchBarriers = kConsumers * Fetch<Tail>::kBarriers;
    static constexpr int kOffsetTable = divide_up(kOffsetBarriers + 8 * (2 * kStages + 6 + kFetchBarriers), 16) * 16;  // of gathered rows
    static constexpr int kOffsetWindows = kUnfold ? divide_up(kOffsetTable + 16 * Config::kStagesA, 128) * 128 : 0;
    static constexpr int kSharedBytes = kUnfold ? kOffsetWindows + Config::kStagesA * window_bytes<Config>() + 1024 : kGather ? kOffsetTable + Gatherer::kTableBytes + 1024 : kOffsetBarriers + 8 * (2 * kStages + (kTwoRings ? 2 * kStagesA : 0) + 2 + (kStreamed ? 4 : 0) + kFetchBarriers) + 1024;  // 1024: alignment
    static_assert(kSharedBytes <= 232448, "the tile, its stages and its epilogue exceed a block's shared memory");
    static_assert(kBytesB % (1024 * kAtoms) == 0 && kBytesA % (1024 * kAtoms) == 0, "stages and atoms keep the swizzle's alignment");
    static_assert(kAtoms <= 2 && (kAtoms == 1 || (!kGather && sizeof(typename Element::Word) == 2)), "two atoms a step, of 16-bit elements that TMA loads");
    static_assert(sizeof(typename Element::Word) == 2 || (!Operands::kColumnsA && !Operands::kColumnsB), "tf32 is multiplied K-major only");
    static_assert(!kPatch || kRowBytes == 128, "a pixel of a patch is 128 bytes");
    static_assert(!kUnfold || sizeof(typename Element::Word) == 2, "windows are unfolded in pieces of two elements and more");
    static_assert(!kDirect || !kSplit, "there is nothing to split without stages");
    static_assert(!kGather || (!kPatch && kClusterBlocks == 1), "ordinary loads go without patches and clusters");
    static_assert(!kPhases || kPatch, "the pixels of a run do not lie evenly in the output of a phase");
    static_assert(!kPatch || !Operands::kColumnsA, "patches have their channels side by side");

    static constexpr int kProducers = kByHand ? Gatherer::kThreads : 32;  // threads; the rest of their warpgroup assists
    static constexpr int kFillers = kByHand ? kProducers / 32 + !Operands::kGatherFilters : 1;  // arrivals that fill a stage

    using Resample = typename Tail::Resample;
    using Params = KernelParams<Resample::kMaps + phase_maps<Config>() + Tail::kFetch + Tail::Head::kMaps, typename Visitor::Params>;
    static_assert(!Visitor::kRaw || Config::kNorm == Norm::kResident, "only a resident normalisation keeps its input");

    // Full and empty barriers of the filters' ring (for runs, of both operands'), then of the activations' own; turns; handovers of columns.
    struct Barriers {
        u32 base;
        UNISONO_DEVICE u32 full(u32 stage) const { return base + 8 * stage; }
        UNISONO_DEVICE u32 empty(u32 stage) const { return base + 8 * (kStages + stage); }
        UNISONO_DEVICE u32 full_a(u32 stage) const { return base + 8 * (2 * kStages + stage); }
        UNISONO_DEVICE u32 empty_a(u32 stage) const { return base + 8 * (2 * kStages + kStagesA + stage); }
        UNISONO_DEVICE u32 turn(int turn) const { return base + 8 * (2 * kStages + (kTwoRings ? 2 * kStagesA : 0) + turn); }
        UNISONO_DEVICE u32 fetched(int consumer) const { return turn(2 + consumer * Fetch<Tail>::kBarriers); }  // neither with columns
        UNISONO_DEVICE u32 window(u32 i) const { return base + kOffsetTable - kOffsetBarriers + 16 * i; }
        UNISONO_DEVICE u32 empty_window(u32 i) const { return window(i) + 8; }
        UNISONO_DEVICE typename Again::Handover columns(int of_turn) const { return {turn(2 + of_turn), turn(4 + of_turn)}; }
    };

    static UNISONO_DEVICE void run(const Params& params) {
        const ConvParams& p = params.fixed;
        UNISONO_DYNAMIC_SHARED(unaligned);
        u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
        const u32 shared = shared_address(memory);
        const Barriers barriers{shared + kOffsetBarriers};
        // By a shuffle, so that the compiler knows it is uniform in a warp: descriptors then live in uniform registers.
        const int warpgroup = __shfl_sync(~0u, int(threadIdx.x / 128), 0);
        const int rank = kClusterBlocks > 1 ? int(cluster_rank()) : 0;
        if (threadIdx.x == 0) {
            if (!kGather) tma_prefetch(p.activation);
            if (!Operands::kGatherFilters) tma_prefetch(p.filter);
            if (Tail::kStores == Stores::kTma && Tail::Needs::kTiled > 0) tma_prefetch(p.output);
            if (Tail::kStores == Stores::kTma && Visitor::kSide != SideStore::kNone) tma_prefetch(p.side);
#pragma unroll
            for (int i = 0; i < Resample::kCopies; ++i) tma_prefetch(params.maps()[i]);
#pragma unroll
            for (int i = 0; i < Tail::kFetch; ++i) tma_prefetch(params.maps()[Resample::kMaps + i]);
            // A stage is free once the consumers of every block that shares a tile with this one have read it. In a cluster of
            // rows and columns, of every block: one that loads both of its operands itself could run a round ahead of the block
            // across, and its arrivals would stand in for a slow one's.
            const int readers = 4 * kTeam * kReaders;
            for (int s = 0; s < kStages; ++s) mbarrier_init(barriers.full(s), kFillers), mbarrier_init(barriers.empty(s), readers);
            if (kTwoRings)
                for (int s = 0; s < kStagesA; ++s) mbarrier_init(barriers.full_a(s), 1), mbarrier_init(barriers.empty_a(s), readers);
            if (kUnfold)
                for (int w = 0; w < Config::kStagesA; ++w) mbarrier_init(barriers.window(w), 1), mbarrier_init(barriers.empty_window(w), kProducers / 32);
            for (int t = 0; t < 2; ++t) mbarrier_init(barriers.turn(t), 4 * kTeam);
            if constexpr (kStreamed) {
                for (int c = 0; c < kConsumers; ++c) Again::init_barriers(own_memory(memory, c));
                for (int t = 0; t < 2; ++t) mbarrier_init(barriers.columns(t).full, 32), mbarrier_init(barriers.columns(t).empty, 128 * kTeam);
            }
            if constexpr (Tail::kFetch > 0) Fetch<Tail>::init_barriers(barriers.fetched(0), kConsumers);
            mbarrier_init_fence();
        }
        await_launches_ahead();
        if (kCounted && threadIdx.x == 0 && is_counted(p)) enter_launch(p.launch);
        if constexpr (kClusterBlocks > 1) cluster_sync();
        else __syncthreads();
        admit_next_launch();

        if (warpgroup == 0) {
            register_release<kProducerRegisters>();
            if constexpr (kDirect) {
            } else if constexpr (kUnfold) {
                if (threadIdx.x < kProducers) Producer<ConvFprop>::unfold(params, memory, barriers);
            } else if constexpr (kGather) {
                if (threadIdx.x < Gatherer::kThreads) Producer<ConvFprop>::gather(params, memory, barriers);
            } else {
                if (kPrefetches > 0 ? threadIdx.x < 32 : threadIdx.x == 0) Producer<ConvFprop>::run(params, shared, barriers, rank);
            }
            if (kExchange && threadIdx.x >= kProducers) assist(params, memory, barriers, rank, threadIdx.x / 32 - kProducers / 32, epoch_of(p));
        } else {
            register_acquire<kConsumerRegisters>();
            consume(params, memory, shared, barriers, rank, warpgroup - 1, epoch_of(p));
        }
        if constexpr (kClusterBlocks > 1) {
            __syncwarp();
            cluster_sync();  // no block leaves while another may still signal it or deliver to it
        } else {
            __syncthreads();
        }
        if (kCounted && threadIdx.x == 0 && is_counted(p)) leave_launch(p.launch);
    }

    // A general epilogue without reductions has no workspace.
    static UNISONO_DEVICE bool is_counted(const ConvParams& p) { return kWorkspace || p.launch.exits != nullptr; }
    // By those who need it, so that the first loads of a launch do not wait for it.
    static UNISONO_DEVICE u32 epoch_of(const ConvParams& p) { return kWorkspace ? unisono::epoch_of(p.launch) : 0; }

    // Items of work: the parts of a tile are neighbours. Loads of activations: of patches one for all taps.
    static UNISONO_DEVICE int items(const ConvGeometry& g) { return kSplit ? g.tiles * g.splits : g.tiles; }
    static UNISONO_DEVICE int tile_of(const ConvGeometry& g, int item) { return kSplit ? divided(item, g.by_splits) : item; }
    static UNISONO_DEVICE int part(const ConvGeometry& g, int item) { return kSplit ? item - tile_of(g, item) * g.splits : 0; }
    static UNISONO_DEVICE Range loads_of(const ConvGeometry& g, int item) {
        const int loads = kPatch ? g.channel_blocks : divide_up(g.taps_h * g.taps_w * g.channel_blocks, kAtoms);
        if constexpr (kSplit) return {divided(loads * part(g, item), g.by_splits), divided(loads * (part(g, item) + 1), g.by_splits)};
        else return {0, loads};
    }

    // Issues one stage's matrix instructions: acc += activations (from `a`) * filters (from `b`)^T, or its transpose.
    static UNISONO_DEVICE void multiply_stage(Accumulators& acc, u64 a, u64 b, int accumulate) {
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kStepBytes / 32; ++k)
#pragma unroll
            for (int block = 0; block < Tail::kAccBlocks; ++block) {
                const u64 at_a = a + ((Operands::kColumnsA ? k * 2048 : k / 4 * kAtomBytesA + k % 4 * 32) >> 4);
                const u64 at_b = b + ((Operands::kColumnsB ? k * 2048 : k / 4 * kAtomBytesB + k % 4 * 32) >> 4);
                if constexpr (kSwap)
                    wgmma<Element, Config::kWarpgroupRows, Operands::kColumnsB, Operands::kColumnsA>(acc[block], at_b + (block * kRows64B >> 4), at_a,
                                                                                                     accumulate | k);
                else wgmma<Element, kN, Operands::kColumnsA, Operands::kColumnsB>(acc[block], at_a + (block * kRows64A >> 4), at_b, accumulate | k);
            }
        wgmma_commit();
    }

    template <bool kColumns, int kGroupBytes = 8 * kRowBytes> static UNISONO_DEVICE u64 stage_descriptor(u32 address) {
        if constexpr (kColumns) return columns_descriptor<kBoxBytes>(address);
        else return operand_descriptor<kRowBytes, kGroupBytes>(address);
    }

    // acc = the product over `loads` loads, the first of which is number `done` of this block; releases each stage once read. Stationary filters are
    // waited for in a warpgroup's first tile. `between` is called once the instructions of a step are under way.
    template <class Between> static UNISONO_DEVICE void multiply(Accumulators& acc, const ConvGeometry& g, u32 shared, const Barriers& barriers, u32 done, int loads,
                                     int rank, int first_row, int turn_to_give, bool first_tile, Between&& between) {
        const u64 base_a = stage_descriptor<Operands::kColumnsA, kLineBytes>(shared + first_row / 8 * (kRows64A / 8));
        const u64 base_b = stage_descriptor<Operands::kColumnsB>(shared + kOffsetB);
        RingPosition<kStages> at(kStationary ? 0 : kPatch ? done * g.taps_h * g.taps_w : done);
        u32 previous = 0;
        if constexpr (kPatch) {
            RingPosition<kStagesA> at_a(done);
            u32 previous_a = 0;
            const u32 pixel = (kRowBytes >> 4) * g.dilation_w, line = (kLineBytes >> 4) * g.dilation_h - pixel * g.taps_w;
            for (int load = 0; load < loads; ++load) {
                mbarrier_wait(barriers.full_a(at_a.stage), at_a.parity);
                u64 a = base_a + at_a.stage * (kBytesA >> 4);
                for (int r = 0; r < g.taps_h; ++r, a += line)
                    for (int s = 0; s < g.taps_w; ++s, a += pixel) {
                        if (!kStationary || first_tile) mbarrier_wait(barriers.full(at.stage), at.parity);
                        multiply_stage(acc, a, base_b + at.stage * (kBytesB >> 4), load | r | s);
                        between();
                        if (load | r | s) {
                            wgmma_wait<1>();
                            if constexpr (!kStationary) release(barriers.empty(previous), rank);
                            if ((r | s) == 0) release(barriers.empty_a(previous_a), rank);
                        }
                        previous = at.stage;
                        at.advance();
                    }
                previous_a = at_a.stage;
                at_a.advance();
            }
            finish_multiply(acc, barriers, turn_to_give);
            release(barriers.empty_a(previous_a), rank);
        } else if constexpr (kStationary) {
            RingPosition<kStagesA> at_a(done);
            for (int block = 0; block < loads; ++block) {
                if (first_tile) mbarrier_wait(barriers.full(block), 0);
                mbarrier_wait(barriers.full_a(at_a.stage), at_a.parity);
                multiply_stage(acc, base_a + at_a.stage * (kBytesA >> 4), base_b + block * (kBytesB >> 4), block);
                between();
                if (block > 0) {
                    wgmma_wait<1>();
                    release(barriers.empty_a(previous), rank);
                }
                previous = at_a.stage;
                at_a.advance();
            }
            finish_multiply(acc, barriers, turn_to_give);
            release(barriers.empty_a(previous), rank);
        } else {
            for (int block = 0; block < loads; ++block) {
                mbarrier_wait(barriers.full(at.stage), at.parity);
                multiply_stage(acc, base_a + at.stage * (kBytesA >> 4), base_b + (kUnfold ? u32(block) : at.stage) * (kBytesB >> 4), block);
                between();
                if (block > 0) {
                    wgmma_wait<1>();
                    release(barriers.empty(previous), rank);
                }
                previous = at.stage;
                at.advance();
            }
            finish_multiply(acc, barriers, turn_to_give);
        }
        if constexpr (!kStationary) release(barriers.empty(previous), rank);
    }

    static UNISONO_DEVICE void finish_multiply(Accumulators& acc, const Barriers& barriers, int turn_to_give) {
        if (kTurns > 1 && (threadIdx.x & 31) == 0) mbarrier_arrive(barriers.turn(turn_to_give));
        wgmma_wait<0>();
#pragma unroll
        for (int b = 0; b < Tail::kAccBlocks; ++b) wgmma_hold(acc[b]);
    }

    // One arrival a warp, at every block whose loads reach this one's stage.
    static UNISONO_DEVICE void release(u32 barrier, int rank) {
        const int lane = threadIdx.x & 31;
        if constexpr (kClusterBlocks == 1) {
            if (lane == 0) mbarrier_arrive(barrier);
        } else if constexpr (kGrid) {
            if (lane < kClusterBlocks) mbarrier_arrive_cluster(barrier, lane);
        } else {
            const int rank_m = rank / kClusterN, rank_n = rank % kClusterN;
            if (lane < kClusterN) mbarrier_arrive_cluster(barrier, rank_m * kClusterN + lane);
            else if (lane < kClusterN + kClusterM && lane - kClusterN != rank_m)
                mbarrier_arrive_cluster(barrier, (lane - kClusterN) * kClusterN + rank_n);
        }
    }

    // What warpgroup `member` of a team holds of cluster tile `index`.
    static UNISONO_DEVICE At place_of(const ConvGeometry& g, int index, int rank, int member) {
        const Tile tile = tile_at<kClusterM, kClusterN, kGroup, kPhases>(g, index, rank);
        return {tile.image, (tile.phase * g.tiles_m * kClusterM + tile.tile_m) * kTeam + member, tile.tile_n * kN, Rows::of(g, tile, kM, member * Config::kWarpgroupRows)};
    }

    static UNISONO_DEVICE void consume(const Params& params, u8* memory, u32 shared, const Barriers& barriers, int rank, int consumer, u32 epoch) {
        const ConvParams& p = params.fixed;
        const ConvGeometry& g = p.geometry;
        const typename Visitor::Uniform uniform = Visitor::uniform(params.visitor);
        const int member = consumer % kTeam, turn = consumer / kTeam;
        Accumulators acc;
        Trace trace{p.timeline};
        Tail tail{p, g, p.norm, params.visitor, uniform, memory + kOffsetTail + consumer * kWarpgroupBytes,
                  int(threadIdx.x) % 128, 1 + consumer, epoch, acc, trace, params.maps(), barriers.fetched(consumer)};
        Again again{tail, team_memory(memory, turn), own_memory(memory, consumer), barriers.columns(turn)};
        const int first = blockIdx.x / kClusterBlocks, step = gridDim.x / kClusterBlocks;
        auto place = [&](int i) { return place_of(g, tile_of(g, first + i * step), rank, member); };
        auto loads = [&](int i) {
            const Range range = loads_of(g, first + i * step);
            return range.end - range.begin;
        };
        u32 done = turn ? loads(0) : 0;  // loads of this block ahead of the item
        u32 turn_parity = turn == 0;  // the first turn is the first team's
        Backlog<kTurns> backlog{turn, kTurns * step % g.tiles_n == 0};
        At before{};  // streamed: the place of this team's tile before

        for (int i = turn; first + i * step < items(g); done += loads(i) + (kTurns > 1 ? loads(i + 1) : 0), i += kTurns) {
            const At at = place(i);
            trace.mark(0);
            if constexpr (Tail::kFetch > 0 && !kSpread)
                if (part(g, first + i * step) == 0) Fetch<Tail>{tail}.open(at);
            typename Tail::Columns columns;
            columns.load(tail, at);
            if constexpr (kTurns > 1 && !kDirect) {
                mbarrier_wait(barriers.turn(turn), turn_parity);
                turn_parity ^= 1;
            }
            trace.mark(1);
            if constexpr (kDirect) Direct<Config>::multiply(acc, Gatherer::of(p, nullptr), at.rows, at.image, at.first_channel, tail.thread);
            else if constexpr (kSpread) {
                SpreadFetch<Tail> fetch(tail, at, loads(i) * (kPatch ? g.taps_h * g.taps_w : 1));
                multiply(acc, g, shared, barriers, done, loads(i), rank, member * Config::kWarpgroupRows, turn ^ 1, i == turn, fetch);
                fetch.finish();
            } else multiply(acc, g, shared, barriers, done, loads(i), rank, member * Config::kWarpgroupRows, turn ^ 1, i == turn, NothingBetween{});
            trace.mark(2);
            if constexpr (kSplit) {
                const int item = first + i * step, rest = part(g, item);
                const size_t base = size_t(tile_of(g, item)) * (g.splits - 1) * kTeam + member;
                if (rest > 0) {
                    give_partial(p.split, base + (rest - 1) * kTeam, acc, epoch, tail.thread, tail.barrier);
                    continue;
                }
                for (int other = 0; other < g.splits - 1; ++other) add_partial(p.split, base + other * kTeam, acc, epoch, tail.thread, tail.barrier);
            }
            if constexpr (Tail::kLoaded > 0) {  // on their way during the main loop
                columns.put(tail, at);
                tail.sync();
            }
            if constexpr (Config::kNorm == Norm::kNone) {
                tail.store_result(at);
                if constexpr (Tail::kMoments > 0) tail.reduce_and_publish(at);
            } else if constexpr (kGeneral) {
                General<Config, Visitor>{tail}.run(at);
            } else {
                tail.apply_before(at);
                if constexpr (kExchange) tail.reduce_and_publish(at);
                trace.mark(3);
                if constexpr (Config::kNorm == Norm::kRows) {
                    tail.store_result(at);
                } else if constexpr (Config::kNorm == Norm::kResident) {
                    tail.load_statistics(at);
                    trace.mark(4);
                    tail.store_result(at);
                } else {
                    if (i > turn) backlog.template make_room<false>(again, place, i - kTurns, before, at.image);
                    trace.mark(4);
                    again.keep(at);
                    before = at;
                }
            }
            trace.mark(5);
            ++trace.tile;
            tail.sync();  // the columns are about to be overwritten
        }
        if constexpr (kStreamed) {
            const int mine = divide_up(divide_up(items(g) - first, step) - turn, kTurns);
            if (mine > 0) backlog.template make_room<true>(again, place, turn + (mine - 1) * kTurns, before, -1);
        }
        if ((threadIdx.x & 31) == 0) tma_store_wait_read<0>();  // shared memory outlives the stores' reads
        __syncwarp();
    }

    static UNISONO_DEVICE u8* team_memory(u8* memory, int turn) { return memory + kOffsetSecond + turn * Again::kTeamBytes; }
    static UNISONO_DEVICE u8* own_memory(u8* memory, int consumer) { return memory + kOffsetSecond + kTurns * Again::kTeamBytes + consumer * Again::kOwnBytes; }

    // The three spare warps of the producer's warpgroup: the block's share of merging teams; streamed, columns for the second pass.
    static UNISONO_DEVICE void assist(const Params& params, u8* memory, const Barriers& barriers, int rank, int warp, u32 epoch) {
        const ConvParams& p = params.fixed;
        if constexpr (kStreamed) {
            if (warp == 0) return merge_teams(p, rank, epoch, 0, 1);
            const int turn = warp - 1;
            if (turn >= kTurns) return;
            const typename Visitor::Uniform uniform = Visitor::uniform(params.visitor);
            typename Again::Preparer preparer{p, params.visitor, uniform, team_memory(memory, turn), barriers.columns(turn), epoch, int(threadIdx.x) & 31};
            const int step = gridDim.x / kClusterBlocks;
            for (int item = blockIdx.x / kClusterBlocks + turn * step; item < items(p.geometry); item += kTurns * step)
                preparer.prepare(place_of(p.geometry, item, rank, 0));
        } else {
            merge_teams(p, rank, epoch, warp, 4 - kProducers / 32);
        }
    }

    // Team work for each tile of this block, in order, by `warps` warps.
    static UNISONO_DEVICE void merge_teams(const ConvParams& p, int rank, u32 epoch, int warp, int warps) {
        if (p.norm.team_slots == 1) return;
        const ConvGeometry& g = p.geometry;
        for (int item = blockIdx.x / kClusterBlocks; item < items(g); item += gridDim.x / kClusterBlocks)
            for (int member = 0; member < kTeam; ++member) {
                if (part(g, item) > 0) break;
                const At at = place_of(g, tile_of(g, item), rank, member);
                merge_share<Config::kUnit>(p.norm, at.image, at.slot, at.first_channel, kN, g.channels, epoch, warp, warps);
            }
    }
};

}  // namespace unisono
