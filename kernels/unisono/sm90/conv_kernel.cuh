// The kernel of sm90/conv_fprop.cuh: what a CTA holds where, and the members that the headers next to this one define.
// What a configuration is: sm90/conv_config.cuh.
#pragma once
#include "unisono/epilogue/general_spilled.cuh"
#include "unisono/epilogue/pending_tiles.cuh"
#include "unisono/epilogue/sm90_second_pass.cuh"
#include "unisono/load/direct.cuh"
#include "unisono/load/sm90_group_filters.cuh"
#include "unisono/load/sm90_producer.cuh"
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/mma/split_k.cuh"
#include "unisono/params/sm90_group_slices.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/sm90/conv_config.cuh"

namespace unisono {

template <class Config, class Visitor>
struct ConvFprop {
  using Configuration = Config;
  using EpilogueVisitor = Visitor;
  using Element = typename Config::Element;
  using Tail = Epilogue<Config, Visitor>;
  using Again = SecondPass<Config, Visitor>;
  using Spilled = SpilledTiles<Tail>;
  using Rows = typename Tail::Rows;
  using At = typename Tail::At;
  using Accumulators = typename Tail::Accumulators;
  using Operands = typename Config::Operands;
  static constexpr int kM = Config::kTileM, kN = Config::kTileN, kK = Config::kTileK,
                       kStepBytes = kK * int(sizeof(typename Element::Word));
  static constexpr int kClusterM = Config::kClusterM, kClusterN = Config::kClusterN,
                       kClusterCtas = kClusterM * kClusterN;
  static constexpr bool kGrid = kClusterM > 1 && kClusterN > 1;                      // a cluster of rows and columns
  static constexpr int kReaders = kGrid ? kClusterCtas : kClusterM + kClusterN - 1;  // CTAs that release a stage
  static constexpr bool kSwap = Config::kSwap;
  static constexpr int kProducts = Operands::kProducts, kColumns = kProducts * kN;  // of a matrix instruction
  static constexpr bool kHints = Hints<Config>::kValue, kByChannels = ByChannels<Config>::kValue;
  static constexpr int kGroup = kByChannels ? -1 : Config::kGroup;
  static constexpr int kTileWarpgroups = Config::kTileWarpgroups, kConsumerGroups = Config::kConsumerGroups,
                       kConsumers = kTileWarpgroups * kConsumerGroups;
  using Pending = PendingTiles<kConsumerGroups, kByChannels>;
  static constexpr bool kGather = Operands::kGather, kDirect = Operands::kDirect, kIm2colSmem = Operands::kIm2colSmem;
  static constexpr bool kFilledByWarps = kGather || kIm2colSmem;  // of the stages, not by TMA
  using Gatherer = Gather<Config>;
  static constexpr bool kFiltersAhead = Operands::kFiltersAhead, kFromPlanes = Operands::kFromPlanes;
  static constexpr bool kPhases = Operands::kPhases, kGrouped = Operands::kGrouped;
  using Voids = Either<Operands::kOddH || Operands::kOddW, VoidTaps<Operands>, NoVoidTaps>;
  static constexpr bool kHaloTile = Config::kTwoDimensional && !kIm2colSmem,
                        kStreamed = Config::kNorm == Norm::kStreamed;
  static constexpr bool kStationary = Config::kStationary, kTwoRings = kHaloTile || kStationary;
  static constexpr int kStages = Config::kStages, kStagesA = kTwoRings ? Config::kStagesA : kStages;
  static constexpr shared_layout::StageLayout kStage = [] {
    shared_layout::StageShape s{};
    s.tile_m = kM;
    s.tile_n = kN;
    s.step_bytes = kStepBytes;
    s.halo = kHaloTile;
    s.halo_h = Config::kHaloH;
    s.halo_w = Config::kHaloW;
    s.columns_b = Operands::kColumnsB;
    s.direct = kDirect;
    s.products = kProducts;
    return shared_layout::stage_layout(s);
  }();
  static constexpr int kAtoms = kStage.atoms, kRowBytes = int(kStage.row), kAtomK = kK / kAtoms;

  // A producer warpgroup and the consumers. What a CTA holds at its start is 168 registers a thread of 384, or 96 of
  // 640; setmaxnreg moves them: 56 + 2 * 224 = 3 * 168, 32 + 4 * 112 = 5 * 96. Streamed, spare warps of the producer's
  // warpgroup merge statistics.
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr bool kGeneral = Config::kNorm == Norm::kGeneral, kAlone = Config::kNorm == Norm::kNone || kGeneral;
  // Ordinary loads take a producer more.
  static constexpr int kProducerRegisters = kFilledByWarps    ? (kConsumers == 4 ? 64 : 88)
                                            : kConsumers == 4 ? (kStreamed ? 64 : 32)
                                            : kAlone          ? (kFromPlanes ? 56 : 40)
                                            : kStreamed       ? 72
                                                              : 56;
  static constexpr int kConsumerRegisters = kFilledByWarps    ? (kConsumers == 4 ? 104 : 208)
                                            : kConsumers == 4 ? (kStreamed ? 104 : 112)
                                            : kAlone          ? (kFromPlanes ? 224 : 232)
                                            : kStreamed       ? 216
                                                              : 224;
  static constexpr bool kSplit = Config::kSplit, kExchange = Tail::kExchange;
  static constexpr bool kWorkspace = kSplit || kExchange || Tail::kMeets || kFromPlanes;
  static constexpr bool kCounted = kWorkspace || (kChecked && kGeneral);  // CTAs that come and leave are counted
  static_assert(!Tail::kDeferred ||
                    (Tail::kRowsMeet && Tail::kFetch == 0 && kProducts == 1 && !kPhases && !kFilledByWarps),
                "what a tile that waits needs is in registers");
  static_assert(!Tail::kMeets || (!kSplit && kGroup == 0), "tiles that wait for one another are whole, and neighbours");
  template <int i>
  static constexpr bool kIsPrefetched = is_loaded<Visitor, Tail::kFetchFirst, Tail::kFetchEnd, Tail::kFetch>(i) &&
                                        !TensorOf<Visitor, i>::kPlaced;
  static constexpr bool kSpread = Tail::kFetch > 0 && kConsumerGroups == 1 && !kSplit && !kDirect;
  using Fetches = Either<(Tail::kFetch > 0 && !kSpread), AtOnce<Tail>, NotAtOnce<Tail>>;
  static constexpr bool kAllFetched = Tail::kFetch > 0 && Tail::kFetch == Visitor::kTensors;
  static constexpr int kPrefetches = kFilledByWarps || kAllFetched || Tail::kStores != Stores::kTma ? 0
                                     : kStreamed ? Visitor::kTensorsBefore
                                                 : Visitor::kTensors;  // the second pass comes much later
  static_assert(Config::kGroup == 0 || !kExchange, "tiles of an image are neighbours where they exchange statistics");
  static_assert(!kByChannels || (kExchange && !kSplit && !kPhases && !kStationary && !kIm2colSmem),
                "tiles of the same channels follow one another where others wait for these alone");
  static_assert(!kSplit || !kStreamed, "split-K serves small outputs, which are resident");
  static_assert(!kSplit || kClusterCtas == 1, "split-K goes without clusters");
  static_assert(kClusterCtas <= 8, "a cluster has up to eight CTAs");
  static_assert(!kStationary || (kAtoms == 1 && !kIm2colSmem && !kSplit && !kGather && !kDirect && !kPhases &&
                                 kGroup == 0 && !Operands::kBatched),
                "all tiles of a CTA have the same filters");
  static_assert(!kGrouped || (kStationary && kClusterCtas == 1 && kStepBytes == 128),
                "filters of groups stay, and the channels of a tile are its own");
  static_assert(kProducts == 1 || (!kSwap && !kSplit && !kStationary && !kFilledByWarps && !kPhases && !kGrouped &&
                                   !kFromPlanes && (!Operands::kColumnsB || kN % 64 == 0)),
                "two products: of tiles that TMA loads, both filters for each step");
  static_assert(!kFiltersAhead || !(kFilledByWarps || kDirect || kGrouped || Operands::kBatched || Operands::kVolumes ||
                                    kProducts > 1),
                "TMA loads the filters, which are constant");
  static_assert(kConsumers == 2 || kConsumers == 4, "two or four consumer warpgroups");
  static_assert(Config::kWarpgroupRows * kTileWarpgroups == kM,
                "the warpgroups of a consumer group divide the tile's rows");

  static constexpr int kLineBytes = int(kStage.line), kBoxBytes = int(kStage.box);
  static constexpr int kAtomBytesA = int(kStage.atom_a), kAtomBytesB = int(kStage.atom_b);
  static constexpr int kBytesA = int(kStage.a), kBytesB = int(kStage.b);
  static constexpr int kRows64A = Operands::kColumnsA ? kBoxBytes : 8 * kLineBytes,
                       kRows64B = Operands::kColumnsB ? kBoxBytes : 64 * kRowBytes;  // from 64 rows to the next
  static constexpr shared_layout::CtaLayout kLayout = [] {
    shared_layout::CtaShape s{};
    s.stage = kStage;
    s.stages = kStages;
    s.stages_a = kStagesA;
    s.stages_b = filter_stages<Config>(kStages);
    s.two_rings = kTwoRings;
    s.consumers = kConsumers;
    s.consumer_groups = kConsumerGroups;
    s.warpgroup = Tail::kWarpgroupBytes;
    s.second_pass = kStreamed;
    s.per_consumer_group = Again::kConsumerGroupBytes;
    s.own = Again::kOwnBytes;
    s.fetch_barriers = Fetch<Tail>::kBarriers;
    s.windows = kIm2colSmem ? Config::kStagesA : 0;
    s.window = window_bytes<Config>();
    s.table = kGather ? Gatherer::kTableBytes : 0;
    s.units = Operands::kSlotsBeside * kConvertedSlotBytes;
    return shared_layout::cta_layout(s);
  }();
  static constexpr int kOffsetB = int(kLayout.at_b), kOffsetTail = int(kLayout.at_epilogues),
                       kOffsetSecond = int(kLayout.at_second_pass), kOffsetBarriers = int(kLayout.at_barriers),
                       kOffsetTable = int(kLayout.at_table), kOffsetWindows = int(kLayout.at_windows);
  static constexpr int kSharedBytes = int(kLayout.bytes), kWarpgroupBytes = int(kLayout.warpgroup);
  static_assert(kSharedBytes <= 232448, "the tile, its stages and its epilogue exceed a CTA's shared memory");
  static_assert(kBytesB % (1024 * kAtoms) == 0 && kBytesA % (1024 * kAtoms) == 0,
                "stages and atoms keep the swizzle's alignment");
  static_assert(kAtoms <= 2 && (kAtoms == 1 || (!kGather && !kIm2colSmem && sizeof(typename Element::Word) == 2)),
                "two atoms a step, of 16-bit elements that TMA loads");
  static_assert(sizeof(typename Element::Word) == 2 || (!Operands::kColumnsA && !Operands::kColumnsB),
                "tf32 is multiplied K-major only");
  static_assert(!kHaloTile || kRowBytes == 128 || Operands::kVolumes, "a pixel of a halo tile is 128 bytes");
  static_assert(!kIm2colSmem || sizeof(typename Element::Word) == 2, "im2col moves pieces of two elements and more");
  static_assert(!kDirect || !kSplit, "there is nothing to split without stages");
  static_assert(!kGather || (!kHaloTile && kClusterCtas == 1), "ordinary loads go without halo tiles and clusters");
  static_assert(!kPhases || kHaloTile, "consecutive pixels do not lie evenly in the output of a phase");
  static_assert(!Operands::kVolumes || !kFilledByWarps, "TMA loads volumes");
  static_assert(!kHaloTile || !Operands::kColumnsA, "halo tiles have their channels side by side");

  static constexpr int kProducers = kFilledByWarps ? Gatherer::kThreads : 32;  // the rest of their warpgroup assists
  static constexpr int kFillers =
      kFilledByWarps ? kProducers / 32 + !Operands::kGatherFilters : 1;  // arrivals that fill a stage

  using Resample = typename Tail::Resample;
  static constexpr int kFurtherMaps =
      Resample::kMaps + phase_maps<Config>() + Tail::kFetch + kProducts - 1 + kFromPlanes;
  using Params = KernelParams<kFurtherMaps, typename Visitor::Params>;
  static constexpr params_layout::Layout kParams =
      params_layout::layout(kFurtherMaps, params_layout::fields_of_bytes(sizeof(typename Visitor::Params)));
  static_assert(sizeof(Params) == kParams.bytes, "the host fills it by this layout");
  static_assert(!Visitor::kRaw || Config::kNorm == Norm::kResident, "only a resident normalisation keeps its input");

  // Full and empty barriers of the filters' ring (for im2col tiles, of both operands'), then of the activations' own;
  // order of the consumer groups' main loops; handovers of columns.
  struct Barriers {
    u32 base;
    UNISONO_DEVICE u32 full(u32 stage) const { return base + 8 * stage; }
    UNISONO_DEVICE u32 empty(u32 stage) const { return base + 8 * (kStages + stage); }
    UNISONO_DEVICE u32 full_a(u32 stage) const { return base + 8 * (2 * kStages + stage); }
    UNISONO_DEVICE u32 empty_a(u32 stage) const { return base + 8 * (2 * kStages + kStagesA + stage); }
    UNISONO_DEVICE u32 order(int group) const {
      return base + 8 * (2 * kStages + (kTwoRings ? 2 * kStagesA : 0) + group);
    }
    UNISONO_DEVICE u32 fetched(int consumer) const {
      return order(2 + consumer * Fetch<Tail>::kBarriers);
    }  // neither with columns
    UNISONO_DEVICE u32 window(u32 i) const { return base + kOffsetTable - kOffsetBarriers + 16 * i; }
    UNISONO_DEVICE u32 empty_window(u32 i) const { return window(i) + 8; }
    UNISONO_DEVICE typename Again::Handover columns(int group) const { return {order(2 + group), order(4 + group)}; }
  };

  static UNISONO_DEVICE void run(const Params& params);
  static UNISONO_DEVICE void sync_cluster() {
    if (kClusterCtas > 1)
      cluster_sync();
    else
      __syncthreads();
  }
  static UNISONO_DEVICE void await(const ConvParams& p, u32 shared, const Barriers& barriers, int rank);
  static UNISONO_DEVICE void produce(const Params& params, u8* memory, u32 shared, const Barriers& barriers, int rank);

  // A general epilogue without reductions has no workspace.
  static UNISONO_DEVICE bool is_counted(const ConvParams& p) { return kWorkspace || p.launch.exits != nullptr; }
  // By those who need it, so that the first loads of a launch do not wait for it.
  static UNISONO_DEVICE u32 epoch_of(const ConvParams& p) { return kWorkspace ? unisono::epoch_of(p.launch) : 0; }

  // Items of work: the parts of a tile are neighbours. Loads of activations: one of a halo tile for all taps.
  static UNISONO_DEVICE int items(const ConvGeometry& g) { return kSplit ? g.tiles * g.splits : g.tiles; }
  static UNISONO_DEVICE int tile_of(const ConvGeometry& g, int item) {
    return kSplit ? divided(item, g.by_splits) : item;
  }
  static UNISONO_DEVICE int part(const ConvGeometry& g, int item) {
    return kSplit ? item - tile_of(g, item) * g.splits : 0;
  }
  static UNISONO_DEVICE Range loads_of(const ConvGeometry& g, int item) {
    const int loads = kHaloTile ? g.channel_blocks : divide_up(g.taps_h * g.taps_w * g.channel_blocks, kAtoms);
    if constexpr (kSplit)
      return {divided(loads * part(g, item), g.by_splits), divided(loads * (part(g, item) + 1), g.by_splits)};
    else
      return {0, loads};
  }

  // Issues one stage's matrix instructions: acc += activations (from `a`) * filters (from `b`)^T, or its transpose.
  static UNISONO_DEVICE void multiply_stage(Accumulators& acc, u64 a, u64 b, int accumulate);
  static UNISONO_DEVICE void multiply_step(Accumulators& acc, u64 a, u64 b, int accumulate);
  static UNISONO_DEVICE void multiply_groups(Accumulators& acc, u64 a, u64 b, int accumulate);

  template <bool kColumns, int kGroupBytes = 8 * kRowBytes>
  static UNISONO_DEVICE u64 stage_descriptor(u32 address) {
    if constexpr (kColumns)
      return columns_descriptor<kBoxBytes>(address);
    else
      return operand_descriptor<kRowBytes, kGroupBytes>(address);
  }

  // acc = the product over `loads` loads, from number `done` of this CTA on; releases each stage once it is read.
  // Stationary filters are waited for in a warpgroup's first tile. `between` is called once the instructions of a step
  // are under way.
  template <class Between>
  static UNISONO_DEVICE void multiply(Accumulators& acc, const ConvGeometry& g, u32 shared, const Barriers& barriers,
                                      u32 done, int loads, int rank, int first_row, int next_group, bool first_tile,
                                      const Voids& voids, Between&& between);

  // The main loop of a tile; fetches operands of its epilogue meanwhile.
  static UNISONO_DEVICE void multiply_tile(const ConvParams& p, Tail& tail, Accumulators& acc, u32 shared,
                                           const Barriers& barriers, u32 done, int loads, int rank, int member,
                                           int group, bool first_tile, const At& at);

  static UNISONO_DEVICE void finish_multiply(Accumulators& acc, const Barriers& barriers, int next_group);

  // One arrival a warp, at every CTA whose loads reach this one's stage.
  static UNISONO_DEVICE void release(u32 barrier, int rank);

  // What warpgroup `member` of a consumer group holds of cluster tile `index`.
  static UNISONO_DEVICE At warpgroup_tile(const ConvGeometry& g, int index, int rank, int member) {
    const Tile tile = tile_at<kClusterM, kClusterN, kGroup, kPhases, Voids::kAny>(g, index, rank);
    return {tile.image, (tile.phase * g.tiles_m * kClusterM + tile.tile_m) * kTileWarpgroups + member, tile.tile_n * kN,
            Rows::of(g, tile, kM, member * Config::kWarpgroupRows)};
  }

  static UNISONO_DEVICE void consume(const Params& params, u8* memory, u32 shared, const Barriers& barriers, int rank,
                                     int consumer, u32 epoch);

  static UNISONO_DEVICE u8* consumer_group_memory(u8* memory, int group) {
    return memory + kOffsetSecond + group * Again::kConsumerGroupBytes;
  }
  static UNISONO_DEVICE u8* own_memory(u8* memory, int consumer) {
    return memory + kOffsetSecond + kConsumerGroups * Again::kConsumerGroupBytes + consumer * Again::kOwnBytes;
  }

  static UNISONO_DEVICE bool join_parts(const ConvParams& p, Tail& tail, Accumulators& acc, int item, int member,
                                        u32 epoch);
  // The producer's three spare warps: the CTA's share of merging segments; streamed, columns for the second pass.
  static UNISONO_DEVICE void assist(const Params& params, u8* memory, const Barriers& barriers, int rank, int warp,
                                    u32 epoch);

  // The shares of merging rows for each tile of this CTA, in order, by `warps` warps.
  static UNISONO_DEVICE void share_rows(const ConvParams& p, int rank, u32 epoch, int warp, int warps);
  // The merges of segments for each tile of this CTA, in order, by `warps` warps.
  template <class Beside>
  static UNISONO_DEVICE void merge_segments(const ConvParams& p, int rank, u32 epoch, int warp, int warps,
                                            Beside& beside);
};

}  // namespace unisono
