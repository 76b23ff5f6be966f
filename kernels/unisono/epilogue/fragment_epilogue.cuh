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
// A kernel calls, of each tile: Columns::load ahead of its main loop, then finish(). Tiles wait for one another where
// the visitor says so: those of an image that is normalised or whose reductions elements read, those of a row if
// kMeets. All of them are in flight at once. Those that wait in memory are published one after another instead; once
// all tiles of an image are, or are about to be, share() and complete() are called of each of them.
#pragma once
#include "unisono/epilogue/columns.cuh"
#include "unisono/epilogue/fold_results.cuh"
#include "unisono/epilogue/general_elements.cuh"
#include "unisono/epilogue/general_rows.cuh"
#include "unisono/epilogue/normalise.cuh"
#include "unisono/epilogue/tensors.cuh"
#include "unisono/exchange/publish_moments.cuh"
#include "unisono/params/fragment_layout.cuh"
#include "unisono/params/tile_params.cuh"

namespace unisono {

// What epilogue/general_needs.cuh asks of a configuration.
template <class Config>
struct FragmentConfig : Config {
  static constexpr int kTileN = Config::Fragment::kChannels, kWarpgroupRows = Config::Fragment::kRows;
};

template <bool kPairs, class Visitor, int kFirst, int kEnd, int kSlice, int kSlices>
struct FragmentTensors {
  using Type = TensorRing<Visitor, kFirst, kEnd, false, kSlice, kSlices>;
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
  static constexpr bool kMakesMore = Resample::kPooled || Resample::kUpsampled;
  using Statistic = Moments;  // what is exchanged of an image
  static_assert(!ExchangedOf<Visitor>::kAny, "its statistics are moments");
  static constexpr Norm kNorm = Config::kNorm;
  using Needs = GeneralNeeds<Configuration, Visitor, kNorm == Norm::kGeneral>;
  static constexpr bool kExchange = kNorm == Norm::kResident || kNorm == Norm::kStreamed,
                        kNormalises = kExchange || kNorm == Norm::kRows;
  static constexpr bool kRowsMeet = kNorm == Norm::kRows && Config::kMeets, kMeets = Needs::kMeets || kRowsMeet;
  static constexpr bool kWaits = kExchange || kMeets;  // tiles do for one another: launches are counted
  static constexpr bool kSwap = false, kCentred = false, kFetchBefore = false;
  static constexpr int kN = Fragment::kChannels, kPixels = Fragment::kRows, kBlocks = Fragment::kBlocks,
                       kAccBlocks = kBlocks, kProducts = Fragment::kProducts, kAccCount = kProducts * kN / 2,
                       kUnit = Config::kUnit, kMoments = 0, kTogether = Config::kTogether, kFetch = 0;
  static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");
  static constexpr int kSlice = shared_layout::slice_channels(kN), kSlices = kN / kSlice, kPairs = Fragment::kPairs;

  // Column values in shared memory: the visitor's for `before`, those for `after`, then mean, factor, shift.
  static constexpr int kLate = divide_up(int(sizeof(typename Visitor::Late)), 4);
  static constexpr int kLateColumns = kExchange && sizeof(typename Visitor::Late) >= 4 ? kLate : 0;
  static constexpr shared_layout::FragmentLayout kLayout =
      shared_layout::fragment_layout({kN, kExchange, kNorm == Norm::kRows, Visitor::kColumnsBefore,
                                      Visitor::kColumnsAfter, kLateColumns, Needs::kFoldBytes},
                                     sizeof(Statistic));
  static constexpr int kBefore = kLayout.before, kAfter = kLayout.after, kMean = kBefore + kAfter, kFactor = kMean + 1,
                       kShift = kMean + 2, kColumns = kLayout.columns, kScratch = kLayout.scratch;
  static constexpr int kTensorsBefore = kNormalises ? Visitor::kTensorsBefore : 0;
  static constexpr SideStore kSide = Visitor::kSide;
  static constexpr int kMomentBytes = int(kLayout.moments), kFoldOffset = int(kLayout.at_folds),
                       kBytes = int(kLayout.bytes);
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
  UNISONO_DEVICE u64 offset_of(const At& at, int m, int channel) const {
    return output_offset<Stores::kPlain>(geometry, at, m, channel);
  }

  UNISONO_DEVICE void finish(const At& at, const Columns& of_tile) {
    if constexpr (kExchange) {
      publish(at, of_tile);
      share(at);
      complete(at, of_tile);
    } else {
      open(at, of_tile);
      if constexpr (kNorm == Norm::kGeneral) {
        General<FragmentEpilogue>{*this}.run(at);
      } else {
        if constexpr (kNormalises) apply_before(*this, at);
        store_normalised(*this, at);
      }
      sync();  // the columns are about to be overwritten
    }
  }
  UNISONO_DEVICE void open(const At& at, const Columns& of_tile) const {
    of_tile.put(*this, at);
    sync();
  }
  // The sums become the input of the normalisation, and their moments are on their way.
  UNISONO_DEVICE void publish(const At& at, const Columns& of_tile) {
    open(at, of_tile);
    apply_before(*this, at);
    MomentPublisher<FragmentEpilogue>{*this}.publish(at, at.rows.all_valid(kPixels));
    sync();
  }
  // This warpgroup's share of its segment of slots, all of which are published before anybody waits for an image.
  UNISONO_DEVICE void share(const At& at) const {
    if (norm.segment_slots > 1)
      merge_share<Statistic, kUnit>(norm, at.image, at.slot, at.first_channel, kN, geometry.channels, epoch,
                                    thread / 32, 4);
  }
  // Waits for the image, and stores what is left of the sums.
  UNISONO_DEVICE void complete(const At& at, const Columns& of_tile) {
    if constexpr (kNorm == Norm::kStreamed) open(at, of_tile);
    put_normalisation<4>(*this, at, [] {});
    store_normalised(*this, at);
    sync();  // the columns are about to be overwritten
  }

  template <int kFirst, int kEnd, class Tensors, class F>
  UNISONO_DEVICE void for_pairs(const At& at, int b, int s, Tensors& ring, int end, F&& f) const {
    for_pairs_of_slice<kEnd - kFirst>(*this, at, b, s, ring, end, f);
  }

  // epilogue/normalise.cuh
  template <int kFirst, int kEnd, bool kBoth, class F, class G>
  UNISONO_DEVICE void store(const At& at, F&& f, G&& g) const {
    Ring<kFirst, kEnd> ring{visitor, geometry, thread / 32, thread & 31};
    ring.open(0, kPairs, at);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        u32 packed[kSlice / 4], beside[kSlice / 4];
        int pair = 0;
        for_pairs<kFirst, kEnd>(
            at, b, s, ring, kPairs,
            [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
              const int row = Fragment::thread_row((b * kSlices + s) * (kSlice / 4) + pair);
              packed[pair] = Visitor::Output::pack(f(x, one, t1, row), f(y, two, t2, row));
              if constexpr (kBoth) beside[pair] = Visitor::Side::pack(g(x, one, t1, row), g(y, two, t2, row));
              ++pair;
            });
        store_pairs<true, false, kBoth>(at, b, s, packed, beside);
      }
  }

  // epilogue/tile.cuh
  template <bool kInOrder, bool kFetches, bool kBoth>
  UNISONO_DEVICE void store_pairs(const At& at, int b, int s, const u32 (&packed)[kSlice / 4],
                                  const u32 (&beside)[kSlice / 4]) const {
    store_main_pairs(at, b * kSlices + s, packed);
    if constexpr (kBoth) store_before(at, b, s, beside);
  }
  UNISONO_DEVICE void store_main_pairs(const At& at, int i, const u32 (&packed)[kSlice / 4]) const {
    put_slice<true>(fixed.output, fixed.output_pitch, at, i, packed);
  }
  UNISONO_DEVICE void open_before() const {}
  UNISONO_DEVICE void store_before(const At& at, int b, int s, const u32 (&packed)[kSlice / 4]) const {
    put_slice<false>(fixed.side, geometry.channels, at, b * kSlices + s, packed);
  }

 private:
  UNISONO_DEVICE i64 row_offset(const At& at, int m, i64 pitch) const {
    return (i64(at.image) * geometry.rows + at.rows.pixel(m)) * pitch;
  }
  template <bool kMain>
  UNISONO_DEVICE void put_slice(void* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
    delay_point();
    constexpr bool kRuns = kTogether == 8 && kSlice >= 16;
    static_assert(kRuns || !kMakesMore, "what is made of the main store leaves by runs of channels");
    if constexpr (kRuns)
      put_runs<kMain>(static_cast<u16*>(to), pitch, at, slice, packed);
    else
      put_pairs(static_cast<u16*>(to), pitch, at, slice, packed);
  }
  UNISONO_DEVICE void put_pairs(u16* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
#pragma unroll
    for (int i = 0; i < kSlice / 4; ++i) {
      const int pair = slice * (kSlice / 4) + i, m = Fragment::row(thread, pair),
                channel = at.first_channel + Fragment::channel(thread, pair);
      if (!at.rows.valid(m) || channel >= geometry.channels) continue;
      u16* const first = to + row_offset(at, m, pitch) + channel;
      if constexpr (kTogether > 1) {
        *reinterpret_cast<u32*>(first) = packed[i];
      } else {
        first[0] = u16(packed[i]);
        if (channel + 1 < geometry.channels) first[1] = u16(packed[i] >> 16);
      }
    }
  }
  // The four lanes of a row have two channels of each chunk of eight. They exchange them, so that each has a chunk, or
  // of 16 channels half a chunk, and stores it at once.
  template <bool kMain>
  UNISONO_DEVICE void put_runs(u16* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
    constexpr int kChunks = kSlice >= 32 ? 4 : 2;
    const int lane = thread & 3;
#pragma unroll
    for (int first = 0; first < kSlice / 8; first += kChunks)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 run[kChunks];
#pragma unroll
        for (int c = 0; c < kChunks; c += 2) {  // chunk c of even lanes, c + 1 of odd ones
          const u32 own[2] = {packed[2 * (first + c) + half], packed[2 * (first + c + 1) + half]};
          const u32 other = __shfl_xor_sync(~0u, lane & 1 ? own[0] : own[1], 1);
          run[c] = lane & 1 ? other : own[0], run[c + 1] = lane & 1 ? own[1] : other;
        }
        int channel = 8 * (first + (lane & 1)) + 4 * (lane / 2);
        if constexpr (kChunks == 4) {
          channel = 8 * (first + lane);
#pragma unroll
          for (int i = 0; i < 2; ++i) {  // the lanes two away have the others of both
            const u32 other = __shfl_xor_sync(~0u, lane & 2 ? run[i] : run[2 + i], 2),
                      own = lane & 2 ? run[2 + i] : run[i];
            run[i] = lane & 2 ? other : own, run[2 + i] = lane & 2 ? own : other;
          }
        }
        const int m = Fragment::row(thread, slice * (kSlice / 4) + half);
        channel += at.first_channel + slice % kSlices * kSlice;
        const bool exists = at.rows.valid(m) && channel < geometry.channels;
        if (exists && !(kMain && Resample::kOnly)) put_run(to + row_offset(at, m, pitch) + channel, run);
        if constexpr (kMain && Resample::kUpsampled) {
          if (exists) put_upsampled(at, m, channel, run);
        }
        if constexpr (kMain && Resample::kPooled) put_pooled(at, m, channel, run);
      }
  }
  // A pixel as 2x2 of the image of twice the height and width.
  template <int kWords>
  UNISONO_DEVICE void put_upsampled(const At& at, int m, int channel, const u32 (&run)[kWords]) const {
    const int pixel = at.rows.pixel(m), line = divided(pixel, geometry.by_width),
              column = pixel - line * geometry.width;
    const i64 first = (i64(at.image) * geometry.height + line) * 4 * geometry.width + 2 * column;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      put_run(static_cast<u16*>(fixed.upsampled) +
                  (first + i / 2 * (2 * geometry.width) + i % 2) * fixed.upsampled_pitch + channel,
              run);
  }
  // The largest of a window, whose four rows four lanes have, if it is whole.
  template <int kWords>
  UNISONO_DEVICE void put_pooled(const At& at, int m, int channel, u32 (&run)[kWords]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int bit = 4; bit <= 8; bit *= 2) run[i] = Visitor::Output::max(run[i], __shfl_xor_sync(~0u, run[i], bit));
    const int line = at.rows.line(m) / 2, column = at.rows.column(m) / 2, height = geometry.height / 2,
              width = geometry.width / 2;
    if ((thread & 12) != 0 || line >= height || column >= width || channel >= geometry.channels) return;
    put_run(static_cast<u16*>(fixed.pooled) + ((i64(at.image) * height + line) * width + column) * fixed.pooled_pitch +
                channel,
            run);
  }
  static UNISONO_DEVICE void put_run(u16* to, const u32 (&run)[4]) {
    *reinterpret_cast<uint4*>(to) = {run[0], run[1], run[2], run[3]};
  }
  static UNISONO_DEVICE void put_run(u16* to, const u32 (&run)[2]) { *reinterpret_cast<uint2*>(to) = {run[0], run[1]}; }
};

}  // namespace unisono
