// What a consumer warpgroup does with a tile's accumulators: visitors, statistics, normalisation, stores.
// What a visitor supplies is in epilogue/visitor.cuh.
#pragma once
#include "unisono/epilogue/columns.cuh"
#include "unisono/epilogue/exchanged.cuh"
#include "unisono/epilogue/general_needs.cuh"
#include "unisono/epilogue/held_tiles.cuh"
#include "unisono/epilogue/packed_pairs.cuh"
#include "unisono/epilogue/row_statistics.cuh"
#include "unisono/epilogue/sm90_fetch.cuh"
#include "unisono/epilogue/sm90_fragment.cuh"
#include "unisono/epilogue/sm90_leaving.cuh"
#include "unisono/epilogue/sm90_plane_slices.cuh"
#include "unisono/epilogue/tensors.cuh"
#include "unisono/epilogue/tile.cuh"
#include "unisono/exchange/publish_moments.cuh"
#include "unisono/exchange/statistics_exchange.cuh"
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/ptx/sm90_tma.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

template <class Config, class Visitor>
struct Epilogue {
  using Element = typename Config::Element;
  using Configuration = Config;
  using EpilogueVisitor = Visitor;
  static constexpr bool kByPhases = Config::Operands::kPhases;
  static constexpr int kPhases = kByPhases ? 4 : 1;
  using Rows = RowsIn<Config>;
  using At = WarpgroupTile<Rows>;
  static constexpr bool kSwap = Config::kSwap;
  static constexpr int kN = Config::kTileN, kPixels = Config::kWarpgroupRows, kBlocks = kPixels / 64;  // blocks of rows
  static constexpr int kAccBlocks = kSwap ? kN / 64 : kBlocks, kProducts = Config::Operands::kProducts,
                       kAccCount = kSwap ? kPixels / 2 : kProducts * kN / 2;
  using Accumulators = float[kAccBlocks][kAccCount];     // epilogue/sm90_fragment.cuh
  using Fragment = RowFragment<kPixels, kN, kProducts>;  // pixels first
  static constexpr Norm kNorm = Config::kNorm;
  static constexpr Stores kStores = Config::kStores;
  static constexpr int kTogether = kStores == Stores::kTma ? 8 : 1;
  static constexpr bool kInPlanes = kStores == Stores::kPlanesTma, kByTma = kStores == Stores::kTma || kInPlanes;
  static_assert(kByTma || kNorm != Norm::kStreamed, "the second pass loads and stores by TMA");
  static constexpr bool kShared = kSwap != kInPlanes;  // all four warps write to each slice, which a barrier completes
  using Resample = typename Config::Resample;
  static_assert(Resample::kMaps == 0 || !kByPhases, "what is resampled is no phase");
  static_assert(Resample::kMaps == 0 || kStores == Stores::kTma, "what is resampled goes through TMA");
  static_assert(!Resample::kPooled || Config::kTwoDimensional, "the 2x2 pixels of a window are in one slice");
  static constexpr bool kExchange = kNorm == Norm::kResident || kNorm == Norm::kStreamed;
  using Exchanged = typename ExchangedOf<Visitor>::Kind;
  using Statistic = typename ExchangedOf<Visitor>::Statistic;  // what is exchanged
  using Needs = GeneralNeeds<Config, Visitor, kNorm == Norm::kGeneral>;
  static constexpr int kMoments = Config::kMoments;  // channels of an entry of exchange/moment_store.cuh
  static_assert(kMoments == 0 || kNorm == Norm::kNone, "moments are stored of what the launch does not normalise");
  static constexpr int kUnit = kMoments > 0 ? kMoments : Config::kUnit;
  static constexpr bool kCut = kExchange && CutGroups<Config>::kValue;
  static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");
  using PiecesOf = Pieces<kN, kUnit, kCut>;
  static_assert(!kSwap || (kN % 64 == 0 && kPixels <= 256),
                "a matrix instruction has 64 rows, here channels, and at most 256 columns");
  // Channels first, a resident tile is centred by its channels' means where it lies, which costs nothing compared with
  // M2.
  static constexpr bool kCentred = kSwap && kNorm == Norm::kResident && !Visitor::kRaw && !ExchangedOf<Visitor>::kAny;
  static constexpr int kStoreBuffers = Config::kStoreBuffers;
  // Operands that arrive in the staging buffers: epilogue/sm90_fetch.cuh. Of those before a normalisation, if any of
  // these can be, else of `after`.
  static constexpr int kFetch = Config::kFetch;
  static constexpr bool kFetchBefore =
      kNorm != Norm::kNone && fetchable_tensors<Visitor, 0, Visitor::kTensorsBefore>() > 0;
  static constexpr int kFetchFirst = kFetchBefore ? 0 : Visitor::kTensorsBefore,
                       kFetchEnd = kFetchBefore ? Visitor::kTensorsBefore : Visitor::kTensors;
  static constexpr bool kNormalises = kExchange || kNorm == Norm::kRows, kRows = kNorm == Norm::kRows,
                        kSecondPass = kNorm == Norm::kStreamed;
  // Tiles of a row wait for one another; deferred, after the next tile's main loop: the columns of two are there.
  static constexpr bool kRowsMeet = kRows && Config::kMeets, kMeets = Needs::kMeets || kRowsMeet,
                        kDeferred = DeferredRows<Config>::kValue;
  static constexpr int kLate = divide_up(int(sizeof(typename Visitor::Late)), 4);  // words of a channel
  // The second store has its own staging buffers; the second pass writes it from registers.
  static constexpr SideStore kSide = Visitor::kSide;
  static_assert(kNormalises || kSide != SideStore::kBefore, "without a normalisation everything is `after`");
  static constexpr shared_layout::EpilogueLayout kLayout = [] {
    shared_layout::EpilogueShape s{};
    s.tile_n = kN;
    s.rows = kPixels;
    s.store_buffers = kStoreBuffers;
    s.exchanges = kExchange, s.by_rows = kRows, s.deferred = kDeferred;
    s.second_pass = kSecondPass;
    s.exchanged = ExchangedOf<Visitor>::kFolds;
    s.stores_moments = kMoments > 0;
    s.fetch = kFetch;
    s.fetches_before = kFetchBefore;
    s.columns_before = Visitor::kColumnsBefore;
    s.columns_after = Visitor::kColumnsAfter;
    s.late_words = kLate;
    s.side_before = kSide == SideStore::kBefore;
    s.side_after = kSide == SideStore::kAfter;
    s.folds = kExchange ? PassFolds<Visitor>::bytes(kN) : Needs::kFoldBytes;
    return shared_layout::epilogue_layout(s);
  }();

  // Stores go in slices of 16 rows x kSlice channels, each by one warp. Pixels first, a warp writes its slices itself:
  // no barrier between warps. Channels first, all four warps write to each of four slices, which are stored after a
  // barrier (kShared). In planes (kInPlanes) it is the other way around, and of a slice of 64 rows x kSlice channels
  // each warp stores a quarter of the channels: epilogue/sm90_plane_slices.cuh.
  static constexpr int kSlice = shared_layout::slice_channels(kN), kSliceBytes = int(kLayout.slice);
  static constexpr int kSlices = kLayout.slices, kStoresPerTile = kLayout.stores_per_tile;  // bulk groups of a warp
  // Narrow slices are stored several at a time, after one fence: as many as have 64 channels, if the others' buffers
  // are free meanwhile.
  static constexpr int kStoreGroup =
      kStoreBuffers == kStoresPerTile || kStoreBuffers % (2 * (64 / kSlice)) == 0 ? 64 / kSlice : 1;
  static constexpr int kStaging = int(kLayout.staging);  // a warp
  // Moments of the warps' rows, later scratch: in the staging buffers, or apart where those hold a tile or are being
  // stored.
  static constexpr bool kApart = kLayout.apart;
  static constexpr int kMomentBytes = int(kLayout.moments);  // a warp
  static constexpr int kScratch = smaller(larger(128, kN + 126), (4 * kMomentBytes - kN * 4) / int(sizeof(Statistic)));
  using Held = HeldPair<typename HeldIn<Config, Visitor>::Type>;  // of tiles that wait
  static_assert(kNorm != Norm::kStreamed || kStoreBuffers == kStoresPerTile * Held::kPlanes,
                "the staging buffers hold a whole tile");
  static_assert(!kShared || kStoreBuffers >= smaller(2, kStoresPerTile),
                "four warps write a slice while the one before is stored");

  // Column values in shared memory: the visitor's for `before`, those for `after` (unless the second pass has them),
  // then mean, factor, shift of the normalisation; the operands of the last two lie in their place until the statistics
  // are known.
  static constexpr int kBefore = kLayout.before, kAfter = kLayout.after;
  static constexpr int kMean = kBefore + kAfter, kFactor = kMean + 1, kShift = kMean + 2, kColumns = kLayout.columns;
  static constexpr int kTensorsBefore = kNormalises ? Visitor::kTensorsBefore : 0;

  static constexpr int kSideBuffers = kLayout.side_buffers, kSideStaging = kSideBuffers * kSliceBytes;  // a warp
  static constexpr int kSideOffset = int(kLayout.at_side), kFoldOffset = int(kLayout.at_folds),
                       kFetchOffset = int(kLayout.at_fetched), kWarpgroupBytes = int(kLayout.bytes);
  static_assert(kFetch <= fetchable_tensors<Visitor, kFetchFirst, kFetchEnd>(),
                "operands that are fetched have 16 bits");
  static_assert(kFetch == 0 || (kByTma && !kByPhases && !kSecondPass), "staging buffers that operands arrive in");

  const ConvParams& fixed;
  const ConvGeometry& geometry;
  const ExchangeParams& norm;
  const typename Visitor::Params& visitor;
  const typename Visitor::Uniform& uniform;
  u8* const memory;   // this warpgroup's kWarpgroupBytes, aligned as a swizzled slice needs
  const int thread;   // in the warpgroup
  const int barrier;  // a named barrier of the warpgroup
  const u32 epoch;
  Accumulators& acc;
  const Trace& trace;
  const MapOr<PooledOutput, PlanesToConvert>* const
      further;               // Resample::kMaps, or phase_maps(); then those of fetched operands
  const u32 fetch_barriers;  // Fetch::kBarriers
  u32 fetch_parity = 0;      // a bit for each staging buffer
  int set = 0;               // kDeferred: where columns are

  UNISONO_DEVICE float* columns() const { return reinterpret_cast<float*>(memory + 4 * kStaging + kDeferred * set); }
  UNISONO_DEVICE u8* staging(int warp) const { return memory + warp * kStaging; }
  UNISONO_DEVICE u8* moments(int warp) const {
    return (kApart ? memory + 4 * kStaging + kColumns * kN * 4 : memory) + warp * kMomentBytes;
  }
  UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }

  // Warpgroups' shares of an image's tiles of the same channels; tiles across.
  UNISONO_DEVICE int slots() const { return geometry.tiles_m * Config::kClusterM * Config::kTileWarpgroups * kPhases; }
  UNISONO_DEVICE int tiles_across() const { return geometry.tiles_n / kPhases * Config::kClusterN; }
  UNISONO_DEVICE void* waiting_memory() const { return fixed.split.partials; }

  UNISONO_DEVICE u8* side_staging(int warp, int i) const {
    return memory + kSideOffset + warp * kSideStaging + i * kSliceBytes;
  }

  // Column values of a thread's channels: epilogue/columns.cuh.
  static constexpr int kLateColumns = kNorm == Norm::kResident && sizeof(typename Visitor::Late) >= 4 ? kLate : 0,
                       kLoaded = kBefore + kAfter + kLateColumns;
  using Columns = TileColumns<Epilogue>;

  // Tensor operands [kFirst, kEnd) on their way; for_pairs takes them pair by pair, and loads ahead up to pair `end`.
  template <int kFirst, int kEnd, int kFetched = 0>
  using Ring = typename TensorsOf<kStores, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetched,
                                  Config::kTwoDimensional>::Type;
  static constexpr int kPairs = kStoresPerTile * (kSlice / 4);  // of a tile, a lane
  template <bool kReads>
  using Fetching = Either<kReads, Fetch<Epilogue>, NothingFetched<Epilogue>>;

  UNISONO_DEVICE void* main_memory() const { return fixed.side_memory; }  // where results leave from registers
  // The offset of an element of the output.
  UNISONO_DEVICE u64 offset_of(const At& at, int m, int channel) const {
    return output_offset<kStores>(geometry, at, m, channel);
  }

  // Calls f(x, y, columns of x, columns of y, tensors of x, tensors of y) for each pair of neighbours x, y of block b
  // and slice s in the order in which a slice is packed, with tensor operands [kFirst, kEnd): neighbouring channels of
  // a row, or channels first neighbouring rows of a channel. Of a dual product x, y are of the first; the second's come
  // after the tensors.
  template <int kFirst, int kEnd, class F>
  UNISONO_DEVICE void for_pairs(const At& at, int b, int s, F&& f) const;
  template <int kFirst, int kEnd, class Tensors, class F>
  UNISONO_DEVICE void for_pairs(const At& at, int b, int s, Tensors& ring, int end, F&& f) const;
  // Before the first of several slices is written: the staging buffers are free, of every warp whose buffers this one
  // writes.
  UNISONO_DEVICE void open_staging() const {
    if ((thread & 31) == 0) tma_store_wait_read<0>();
    meet();
  }
  // The warps that write to the same staging buffers meet.
  UNISONO_DEVICE void meet() const {
    if constexpr (kShared)
      sync();
    else
      __syncwarp();
  }
  // What this warp writes of block b and slice s to staging buffers `stride` bytes apart from warp to warp.
  using Slices = SlicesOf<kInPlanes, kSwap, kSlice, Config::kTwoDimensional>;
  UNISONO_DEVICE void write_slice(u8* first_warp, int stride, const u32 (&packed)[kSlice / 4]) const {
    Slices::write(first_warp, stride, packed, thread / 32, thread & 31);
  }
  // Once this warp's part of the slices is written: they are whole, and those of kBuffers - 1 slices ago are free
  // (kFetches: when their operands have come).
  template <int kBuffers, bool kFetches = false>
  UNISONO_DEVICE void close_slice() const;

  // epilogue/normalise.cuh: before the second store's slices, if it comes before the normalisation; slice s of block
  // b.
  UNISONO_DEVICE void open_before() const {
    if constexpr (kShared) open_staging();
  }
  UNISONO_DEVICE void store_before(const At& at, int b, int s, const u32 (&packed)[kSlice / 4]) const;

  // Tensor maps of the pixels of the tile's parity phase.
  UNISONO_DEVICE const TensorMap& output_map(const At& at) const { return map_of(fixed.output, 0, at); }
  UNISONO_DEVICE const TensorMap& side_map(const At& at) const { return map_of(fixed.side, 3, at); }
  UNISONO_DEVICE const TensorMap& map_of(const TensorMap& first, int others, const At& at) const {
    if constexpr (kByPhases)
      return at.rows.phase == 0 ? first : further[others + at.rows.phase - 1];
    else
      return first;
  }

  UNISONO_DEVICE const TensorMap& fetch_map(int i) const { return further[Resample::kMaps + i]; }

  static UNISONO_DEVICE SlicePlace slice_place(const At& at, int m, int channel) {
    const SlicePlace place = Slices::place(at.rows, m, channel);
    return {place.x, place.y, place.z, at.rows.store_image(at.image)};
  }
  static UNISONO_DEVICE void store_slice(const TensorMap& map, const u8* buffer, const At& at, int m, int slice);

  // A slice of the main store, to every place that TMA writes it to.
  UNISONO_DEVICE void store_main(const u8* buffer, const At& at, int m, int slice) const;

  UNISONO_DEVICE void store_pooled(const u8* buffer, const At& at, int m, int slice) const {
    PooledSlices<Epilogue, Resample::kPooled>::store(*this, buffer, at, m, slice);
  }

  using Planes = PlaneSlice<kSlice, Config::kTwoDimensional>;

  // A slice by a warp's ordinary stores; the map's place holds a PlainOutput.
  UNISONO_DEVICE void store_plain(const TensorMap& map, const u8* buffer, const At& at, int m, int slice) const;

  // The moments of this warpgroup's rows, written to its slot. Leaves their pieces' means in column kMean; if kCentred
  // their channels', which the accumulators have been centred by.
  UNISONO_DEVICE void reduce_and_publish(const At& at);

  static constexpr int kStatisticsAtOnce =
      kAccBlocks * kAccCount <= 96 && Config::kTileWarpgroups * Config::kConsumerGroups == 2 ? 8 : 4;

  // Pixels first: before slice `i` of a tile is written by this warp, which stores kTogether slices at a time.
  template <int kTogether>
  UNISONO_DEVICE void await_buffers(int i) const;

  // Stores of.after(accumulator, columns, tensors, row as in epilogue/row_statistics.cuh) of the whole tile, slice by
  // slice, through this warp's staging buffers, and of.side of the same as the second store if kBoth.
  template <int kFirst, int kEnd, bool kBoth, class Of>
  UNISONO_DEVICE void store(const At& at, const Of& of);

  using Leaving = LeavingOf<Epilogue, kByTma, stores_octets<Config>()>;
  // What staging buffers `place` hold leaves, of one store or kBoth: rows from m on, channels from `slice`. `last`: of
  // the slices of a bulk group.
  template <bool kBoth>
  UNISONO_DEVICE void send_slice(const At& at, int warp, int place, int m, int slice, bool last) const;
  UNISONO_DEVICE void write_pairs(int place, const PackedPairs<kSlice / 4, false>& pairs) const {
    write_slice(staging(0) + place * kSliceBytes, kStaging, pairs.main);
  }
  UNISONO_DEVICE void write_pairs(int place, const PackedPairs<kSlice / 4, true>& pairs) const {
    write_slice(staging(0) + place * kSliceBytes, kStaging, pairs.main);
    write_slice(side_staging(0, place), kSideStaging, pairs.side);
  }
  // A slice of results on its way; write(place): to this warp's staging buffers of that number. kInOrder: slices come
  // in the order of blocks; else all blocks of one come before the next.
  template <bool kInOrder, bool kFetches, bool kBoth, class F>
  UNISONO_DEVICE void store_slices(const At& at, int b, int s, int warp, const F& write) const;
  // The same of pairs as for_pairs has them.
  template <bool kInOrder, bool kFetches, bool kBoth>
  UNISONO_DEVICE void store_pairs(const At& at, int b, int s, const PackedPairs<kSlice / 4, kBoth>& pairs) const;
  // Pairs of slice number i, in order, of the main store alone.
  UNISONO_DEVICE void store_main_pairs(const At& at, int i, const u32 (&packed)[kSlice / 4]) const;

  // Leaves the centred values in the staging buffers, which a barrier completes.
  UNISONO_DEVICE void keep_centred(const At& at) const;
};

}  // namespace unisono
