// An epilogue that knows of a kernel's instructions its fragment alone (epilogue/fragment.cuh), and stores pairs from
// registers. A configuration has
//
//   using Fragment        epilogue/fragment.cuh, of a warpgroup's rows of a tile
//   int kWarpgroups       that share a tile's channels
//   using Rows            LinearRows, or WindowRows where results are pooled
//   using Resample        tile/resample.cuh: of results of 16 bits, whose channels are a multiple of 8
//   Norm kNorm            kStreamed: tiles wait in memory, where the kernel keeps and finds their sums
//   int kUnit             exchange/statistics_exchange.cuh
//   int kTogether         8: the number of channels is a multiple of it; 2: it is even; 1: it is any
//   bool kWide, kMeets    epilogue/general.cuh; of kRows kMeets: a row has several tiles
//
// A kernel calls, of each tile: Columns::load before its main loop, then finish(). Tiles wait for one another where
// the visitor says so: those of an image that is normalised or whose reductions elements read, those of a row if
// kMeets. All of them are in flight at once. Those that wait in memory are published one after another instead; once
// all tiles of an image are, or are about to be, share() and complete() are called of each of them.
#pragma once
#include "unisono/epilogue/columns.cuh"
#include "unisono/epilogue/fold_results.cuh"
#include "unisono/epilogue/fragment_stores.cuh"
#include "unisono/epilogue/general_elements.cuh"
#include "unisono/epilogue/general_rows.cuh"
#include "unisono/epilogue/normalise.cuh"
#include "unisono/epilogue/packed_pairs.cuh"
#include "unisono/epilogue/tensors.cuh"
#include "unisono/exchange/publish_moments.cuh"
#include "unisono/params/fragment_layout.cuh"
#include "unisono/params/tile_params.cuh"

namespace unisono {

// What epilogue/general_needs.cuh and general_spilled.cuh ask of a configuration.
template <class Config>
struct FragmentConfig : Config {
  static constexpr int kTileN = Config::Fragment::kChannels, kWarpgroupRows = Config::Fragment::kRows;
  static constexpr int kTileWarpgroups = Config::kWarpgroups, kConsumerGroups = 1, kClusterM = 1, kClusterN = 1;
};

template <bool kPairs, class Visitor, int kFirst, int kEnd, int kSlice, int kSlices>
struct FragmentTensors {
  using Type = PairedTensors<Visitor, kFirst, kEnd, false, kSlice, kSlices>;
};
template <class Visitor, int kFirst, int kEnd, int kSlice, int kSlices>
struct FragmentTensors<false, Visitor, kFirst, kEnd, kSlice, kSlices> {
  using Type = PlainTensors<Stores::kPlain, Visitor, kFirst, kEnd, false, kSlice, kSlices>;
};

template <class Config, class Visitor>
struct FragmentEpilogue {
  using EpilogueVisitor = Visitor;
  using Configuration = FragmentConfig<Config>;
  using Fragment = typename Config::Fragment;
  using Accumulators = typename Fragment::Accumulators;
  using At = WarpgroupTile<typename Config::Rows>;
  using Resample = typename Config::Resample;
  using Exchanged = typename ExchangedOf<Visitor>::Kind;
  using Statistic = typename ExchangedOf<Visitor>::Statistic;  // what is exchanged of an image
  static constexpr Norm kNorm = Config::kNorm;
  using Needs = GeneralNeeds<Configuration, Visitor, kNorm == Norm::kGeneral>;
  static constexpr bool kExchange = kNorm == Norm::kResident || kNorm == Norm::kStreamed,
                        kNormalises = kExchange || kNorm == Norm::kRows;
  static constexpr bool kRowsMeet = kNorm == Norm::kRows && Config::kMeets, kMeets = Needs::kMeets || kRowsMeet;
  static constexpr bool kWaits = kExchange || kMeets;  // tiles do for one another: launches are counted
  static constexpr bool kSwap = false, kCut = false, kCentred = false, kFetchBefore = false;
  static constexpr int kN = Fragment::kChannels, kPixels = Fragment::kRows, kBlocks = Fragment::kBlocks,
                       kAccBlocks = kBlocks, kProducts = Fragment::kProducts, kAccCount = kProducts * kN / 2,
                       kUnit = Config::kUnit, kMoments = 0, kTogether = Config::kTogether, kFetch = 0;
  static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");
  using PiecesOf = Pieces<kN, kUnit, kCut>;
  static constexpr int kSlice = shared_layout::slice_channels(kN), kSlices = kN / kSlice, kPairs = Fragment::kPairs;

  // Column values in shared memory: the visitor's for `before`, those for `after`, then mean, factor, shift.
  static constexpr int kLate = divide_up(int(sizeof(typename Visitor::Late)), 4);
  static constexpr int kLateColumns = kExchange && sizeof(typename Visitor::Late) >= 4 ? kLate : 0;
  static constexpr shared_layout::FragmentLayout kLayout = shared_layout::fragment_layout(
      {kN, kExchange, kNorm == Norm::kRows, ExchangedOf<Visitor>::kFolds, Visitor::kColumnsBefore,
       Visitor::kColumnsAfter, kLateColumns, kExchange ? PassFolds<Visitor>::bytes(kN) : Needs::kFoldBytes},
      sizeof(Statistic));
  static constexpr int kBefore = kLayout.before, kAfter = kLayout.after, kMean = kBefore + kAfter, kFactor = kMean + 1,
                       kShift = kMean + 2, kColumns = kLayout.columns, kScratch = kLayout.scratch;
  static constexpr int kTensorsBefore = kNormalises ? Visitor::kTensorsBefore : 0;
  static constexpr SideStore kSide = Visitor::kSide;
  static constexpr int kMomentBytes = int(kLayout.moments), kFoldOffset = int(kLayout.at_folds),
                       kBytes = int(kLayout.bytes);
  static constexpr int kLoaded = kBefore + kAfter + kLateColumns;
  using Columns = TileColumns<FragmentEpilogue>;
  template <int kFirst, int kEnd, int = 0>
  using Ring = typename FragmentTensors<(kTogether > 1), Visitor, kFirst, kEnd, kSlice, kSlices>::Type;
  template <bool>
  using Fetching = NothingFetched<FragmentEpilogue>;

  const TileParams& fixed;
  const ConvGeometry& geometry;
  const ExchangeParams& norm;
  const typename Visitor::Params& visitor;
  const typename Visitor::Uniform& uniform;
  u8* const memory;  // kBytes, of 16
  const int thread, barrier;
  const u32 epoch;
  Accumulators& acc;

  UNISONO_DEVICE float* columns() const { return reinterpret_cast<float*>(memory); }
  UNISONO_DEVICE u8* moments(int warp) const { return memory + kColumns * kN * 4 + warp * kMomentBytes; }
  UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }
  UNISONO_DEVICE int slots() const { return Config::kWarpgroups * geometry.tiles_m; }
  UNISONO_DEVICE int tiles_across() const { return geometry.tiles_n; }
  UNISONO_DEVICE void* main_memory() const { return fixed.output; }
  UNISONO_DEVICE void* waiting_memory() const { return fixed.waiting; }
  UNISONO_DEVICE u64 offset_of(const At& at, int m, int channel) const {
    return output_offset<Stores::kPlain>(geometry, at, m, channel);
  }

  UNISONO_DEVICE void finish(const At& at, const Columns& of_tile) {
    finish(Either<kExchange, OfImages, Either<kNorm == Norm::kGeneral, InStages, Either<kNormalises, OfRows, Alone>>>(),
           at, of_tile);
  }
  UNISONO_DEVICE void open(const At& at, const Columns& of_tile) const {
    of_tile.put(*this, at);
    sync();
  }
  // The sums become what waits, and what the tile adds to the statistics is on its way.
  UNISONO_DEVICE void publish(const At& at, const Columns& of_tile) {
    open(at, of_tile);
    apply_before(*this, at);
    if constexpr (!ExchangedOf<Visitor>::kAny)  // else apply_before has published it
      MomentPublisher<FragmentEpilogue>{*this}.publish(at, at.rows.all_valid(kPixels));
    sync();
  }
  // This warpgroup's share of its segment of slots. All shares are published before any warpgroup waits for an image.
  UNISONO_DEVICE void share(const At& at) const {
    if (norm.segment_slots > 1)
      merge_share<Statistic, PiecesOf>(norm, at.image, at.slot, at.first_channel, geometry.channels, epoch, thread / 32,
                                       4);
  }
  // Waits for the image, and stores what is left of the sums.
  UNISONO_DEVICE void complete(const At& at) {
    put_statistics<4>(Exchanged(), *this, at, [] {});
    store_normalised(*this, at);
    sync();  // the columns are about to be overwritten
  }

  template <int kFirst, int kEnd, class Tensors, class F>
  UNISONO_DEVICE void for_pairs(const At& at, int b, int s, Tensors& ring, int end, F&& f) const {
    for_pairs_of_slice<kEnd - kFirst>(*this, at, b, s, ring, end, f);
  }

  // epilogue/normalise.cuh
  template <int kFirst, int kEnd, bool kBoth, class Of>
  UNISONO_DEVICE void store(const At& at, const Of& of) const {
    Ring<kFirst, kEnd> ring{visitor, geometry, thread / 32, thread & 31};
    ring.open(0, kPairs, at);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        StoredPairs<Visitor, kSlice / 4, kBoth> packed;
        int pair = 0;
        for_pairs<kFirst, kEnd>(
            at, b, s, ring, kPairs,
            [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
              const int row = Fragment::thread_row((b * kSlices + s) * (kSlice / 4) + pair);
              packed.put(pair++, of, x, y, one, two, t1, t2, row);
            });
        store_pairs<true, false>(at, b, s, packed);
      }
  }

  // epilogue/tile.cuh
  template <bool kInOrder, bool kFetches>
  UNISONO_DEVICE void store_pairs(const At& at, int b, int s, const PackedPairs<kSlice / 4, false>& pairs) const {
    store_main_pairs(at, b * kSlices + s, pairs.main);
  }
  template <bool kInOrder, bool kFetches>
  UNISONO_DEVICE void store_pairs(const At& at, int b, int s, const PackedPairs<kSlice / 4, true>& pairs) const {
    store_main_pairs(at, b * kSlices + s, pairs.main);
    store_before(at, b, s, pairs.side);
  }
  UNISONO_DEVICE void store_main_pairs(const At& at, int i, const u32 (&packed)[kSlice / 4]) const {
    FragmentStores<FragmentEpilogue>{*this}.template put_slice<true>(fixed.output, fixed.output_pitch, at, i, packed);
  }
  UNISONO_DEVICE void open_before() const {}
  UNISONO_DEVICE void store_before(const At& at, int b, int s, const u32 (&packed)[kSlice / 4]) const {
    FragmentStores<FragmentEpilogue>{*this}.template put_slice<false>(fixed.side, geometry.channels, at,
                                                                      b * kSlices + s, packed);
  }

 private:
  // By the way of normalising: when the statistics of all tiles of an image are there;
  struct OfImages {};
  UNISONO_DEVICE void finish(OfImages, const At& at, const Columns& of_tile) {
    publish(at, of_tile);
    share(at);
    complete(at);
  }
  // by stages of reductions;
  struct InStages {};
  UNISONO_DEVICE void finish(InStages, const At& at, const Columns& of_tile) {
    open(at, of_tile);
    General<FragmentEpilogue>{*this}.run(at);
    sync();  // the columns are about to be overwritten
  }
  // over the channels of rows;
  struct OfRows {};
  UNISONO_DEVICE void finish(OfRows, const At& at, const Columns& of_tile) {
    open(at, of_tile);
    apply_before(*this, at);
    store_normalised(*this, at);
    sync();
  }
  // not at all.
  struct Alone {};
  UNISONO_DEVICE void finish(Alone, const At& at, const Columns& of_tile) {
    open(at, of_tile);
    store_normalised(*this, at);
    sync();
  }
};

}  // namespace unisono
