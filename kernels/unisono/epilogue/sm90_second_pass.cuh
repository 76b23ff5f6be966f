// The second pass of a normalisation, or of results after other statistics (epilogue/exchanged.cuh), whose tiles do
// not wait in registers, by the consumers between their tiles. A tile, before a normalisation centred by its pieces'
// means, waits in its warpgroup's staging buffers until the consumer group's next tile is multiplied and its statistics
// are published. If that one is of another image, the first one's image is complete or about to be: the tile is
// normalised where it lies, and stored. If not, it is spilled: stored as it is where its result will be, and loaded
// back when the consumer group is done with the image. Either way the same values are normalised. A warp works on 16
// rows x kSlice channels at a time. A spare warp of the CTA waits for the image's statistics and computes the columns
// from them.
#pragma once
#include "unisono/epilogue/octets.cuh"
#include "unisono/epilogue/pass_folds.cuh"
#include "unisono/epilogue/sm90_waiting_tiles.cuh"

namespace unisono {

// What a second pass does with values that wait for the moments of a normalisation: a spare warp makes columns mean,
// factor and shift of these, and a lane's values become
//   y = stored * factor + offset, with offset = (what the unit was centred by - mean) * factor + shift
template <class Visitor, bool kNormalises>
struct WaitingValues {
  float2 factor[4], offset[4];  // of a lane's eight channels
  template <class Pass>
  UNISONO_DEVICE void read(const Pass& pass, int n) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      factor[w] = *reinterpret_cast<const float2*>(pass.column(1) + n + 2 * w);
      offset[w] = *reinterpret_cast<const float2*>(pass.offsets() + n + 2 * w);
    }
  }
  UNISONO_DEVICE float2 of(float2 stored, int w) const {
    return {fmaf(stored.x, factor[w].x, offset[w].x), fmaf(stored.y, factor[w].y, offset[w].y)};
  }
  // Before the visitor's columns, and after them.
  template <class Preparer, class Statistics, class LateOf>
  static UNISONO_DEVICE void begin_columns(const Preparer& of, const Statistics& statistics, bool recorder,
                                           float* columns, const LateOf& late_of) {
    constexpr int kN = Preparer::kChannels;
    statistics.emit(
        recorder,
        [&](int i, int n, const MeanAndVariance& all) {
          const float2 affine = Visitor::affine(late_of(i, n), of.uniform, all.mean, all.variance);
          columns[n] = all.mean, columns[kN + n] = affine.x, columns[2 * kN + n] = affine.y;
        },
        [&](int group, const MeanAndVariance& all) {
          Visitor::statistics(of.visitor, of.uniform, of.image, group, all.mean, all.variance);
        });
  }
  template <class Preparer, class Statistics>
  static UNISONO_DEVICE void end_columns(const Preparer&, const Statistics&, float*) {}
  // What the tile in the staging buffers is centred by, by the whole warpgroup; what its values are shifted by.
  template <class Pass>
  static UNISONO_DEVICE void keep_centres(const Pass& pass) {
    pass.first.sync();  // every warp has read the centres of the tile before
    for (int n = pass.first.thread; n < Pass::kN; n += 128)
      pass.centres()[n] = pass.first.columns()[Pass::First::kMean * Pass::kN + n];
  }
  template <class Pass>
  static UNISONO_DEVICE void load_offsets(const Pass& pass, const typename Pass::At& at, bool spilled, int lane) {
    pass.load_offsets(at, spilled, lane);
  }
};
// Or for other reductions, after which results are of the values that waited.
template <class Visitor>
struct WaitingValues<Visitor, false> {
  template <class Pass>
  UNISONO_DEVICE void read(const Pass&, int) {}
  UNISONO_DEVICE float2 of(float2 stored, int) const { return stored; }
  template <class Preparer, class Statistics, class LateOf>
  static UNISONO_DEVICE void begin_columns(const Preparer&, const Statistics&, bool, float*, const LateOf&) {}
  template <class Preparer, class Statistics>
  static UNISONO_DEVICE void end_columns(const Preparer& of, const Statistics& statistics, float* columns) {
    using Statistic = typename ExchangedOf<Visitor>::Statistic;
    statistics.emit(  // a lane's channels are those whose columns it has just put
        false,
        [&](int, int n, const Statistic& all) {
          Visitor::Exchanged::columns(of.visitor, of.uniform, of.image, of.first_channel + n,
                                      float(of.fixed.geometry.rows), float(of.fixed.norm.group_channels), all.values,
                                      columns + n, Preparer::kChannels);
        },
        [](int, const Statistic&) {});
  }
  template <class Pass>
  static UNISONO_DEVICE void keep_centres(const Pass&) {}
  template <class Pass>
  static UNISONO_DEVICE void load_offsets(const Pass&, const typename Pass::At&, bool, int) {}
};

template <class Config, class Visitor>
struct SecondPass {
  using First = Epilogue<Config, Visitor>;
  using At = typename First::At;
  using Statistic = typename First::Statistic;
  using Held = typename First::Held;
  using Tiles = WaitingTiles<Config, Visitor>;
  using Results = ResultsOf<Visitor>;
  static constexpr int kPlanes = Tiles::kPlanes, kSteps = Tiles::kSteps;
  static constexpr bool kWideMain = Tiles::kWideMain, kHints = Tiles::kHints;
  static constexpr int kN = First::kN, kSlice = First::kSlice, kSlices = First::kSlices;
  static constexpr int kLanesPerRow = kSlice / 8;  // 16 bytes a lane
  static constexpr int kRowsAtOnce = smaller(16, 32 / kLanesPerRow);
  static constexpr int kPieces = 16 / kRowsAtOnce;  // of a subtile, a lane
  // Next to a tile's accumulators few registers are left for results of 32 bits, or for many.
  static constexpr int kPiecesAtOnce = Results::kResults > 0 ? larger(1, kPieces / (2 * kPlanes)) : kPieces;
  static constexpr int kStepsUnrolled = Results::kResults > 0 ? 1 : 2;
  static constexpr int kCentres = divide_up(kN, 32);  // channels a lane
  // Shared memory of a consumer group: columns (mean, factor, shift, the visitor's), scratch of the warp that computes
  // them.
  static constexpr bool kNormalises = !ExchangedOf<Visitor>::kAny;  // else results are of the value that waits
  using Values = WaitingValues<Visitor, kNormalises>;
  static constexpr int kFirstColumn = shared_layout::second_pass_first(kNormalises);
  static constexpr int kColumns = shared_layout::second_pass_columns(Visitor::kColumnsAfter, kNormalises),
                       kScratch = shared_layout::second_pass_scratch(kN);
  static constexpr int kConsumerGroupBytes =
      int(shared_layout::second_pass_group(Visitor::kColumnsAfter, kNormalises, kN, int(sizeof(Statistic))));
  // A warpgroup's bytes: four warps' offsets, the smem-resident tile's centres, barriers of the staging buffers.
  static constexpr int kOwnBytes = int(shared_layout::second_pass_own(kN, Tiles::kBuffers));
  static constexpr int kFirstTensor = Visitor::kTensorsBefore, kTensors = Visitor::kTensors - kFirstTensor;
  using Folds = BehindFolds<First, kLanesPerRow>;
  static_assert(!First::kInPlanes || (Results::kResults == 0 && PassFolds<Visitor>::kValues == 0),
                "in planes, one or two results of 16 bits");

  // Columns of one image and tile of channels pass from the spare warp to a consumer group and back.
  struct Handover {
    u32 full, empty;  // mbarriers; every thread arrives for what it wrote or read
  };

  const First& first;
  u8* const group_memory;
  u8* const own;
  const Handover handover;
  int image = -1, first_channel = -1;  // what the columns hold
  u32 parity = 0;
  Tiles tiles{first, own};

  UNISONO_DEVICE float* column(int i) const { return reinterpret_cast<float*>(group_memory) + i * kN; }
  UNISONO_DEVICE float* offsets() const { return reinterpret_cast<float*>(own) + first.thread / 32 * kN; }
  UNISONO_DEVICE float* centres() const { return reinterpret_cast<float*>(own) + 4 * kN; }
  // By one thread of the CTA, before a fence and a barrier of the CTA.
  static UNISONO_DEVICE void init_barriers(u8* own) { Tiles::init_barriers(own); }

  // By a spare warp, for each of a consumer group's tiles in their order: the columns that the tile needs, unless the
  // tile before needed the same.
  struct Preparer {
    static constexpr int kChannels = kN;
    const ConvParams& fixed;
    const typename Visitor::Params& visitor;
    const typename Visitor::Uniform& uniform;
    u8* const group_memory;
    const Handover handover;
    const u32 epoch;
    const int lane;
    int image = -1, first_channel = -1;
    u32 parity = 1;  // of the first wait: passes

    UNISONO_DEVICE void prepare(const At& at) {
      if (at.image == image && at.first_channel == first_channel) return;
      image = at.image, first_channel = at.first_channel;
      const int channels = fixed.geometry.channels;
      float* columns = reinterpret_cast<float*>(group_memory);
      constexpr int kEach = divide_up(kN, 32);  // channels a lane
      constexpr bool kAhead =
          kEach * int(sizeof(typename Visitor::Late)) <= 32;  // their operands are on their way while it waits
      typename Visitor::Late late[kAhead ? kEach : 1];
      auto late_of = [&](int n) {
        return Visitor::late(visitor, uniform, image, smaller(first_channel + n, channels - 1));
      };
#pragma unroll
      for (int i = 0; i < (kAhead ? kEach : 0); ++i) late[i] = late_of(lane + 32 * i);
      const GroupStatistics<Statistic, WarpCrew, kScratch, typename First::PiecesOf> statistics(
          fixed.norm, {lane}, reinterpret_cast<Statistic*>(columns + kColumns * kN), epoch, image, first_channel,
          channels);
      statistics.gather();
      mbarrier_wait(handover.empty, parity);
      parity ^= 1;
      Values::begin_columns(*this, statistics, at.slot == 0, columns,
                            [&](int i, int n) { return kAhead ? late[kAhead ? i : 0] : late_of(n); });
      put_columns(columns);
      Values::end_columns(*this, statistics, columns);
      mbarrier_arrive(handover.full);
    }
    // The visitor's that elements after the statistics read.
    UNISONO_DEVICE void put_columns(float* columns) const {
      if constexpr (Visitor::kColumnsAfter > 0) {
#pragma unroll 1
        for (int n = lane; n < kN && first_channel + n < fixed.geometry.channels; n += 32) {
          float values[Visitor::kColumnsAfter];
          Visitor::columns_after(visitor, uniform, image, first_channel + n, values);
#pragma unroll
          for (int c = 0; c < Visitor::kColumnsAfter; ++c) columns[(kFirstColumn + c) * kN + n] = values[c];
        }
      }
    }
  };

  // The columns are not needed any more: the spare warp may write the next.
  UNISONO_DEVICE void release() {
    if (image < 0) return;
    mbarrier_arrive(handover.empty);
    image = -1;
  }

  // Waits until the columns are those of this tile; tiles come in their order, or in any order among those of one image
  // and tile of channels.
  UNISONO_DEVICE void await(const At& at) {
    if (at.image == image && at.first_channel == first_channel) return;
    release();
    mbarrier_wait(handover.full, parity);
    parity ^= 1;
    image = at.image, first_channel = at.first_channel;
  }

  // Puts the tile's values into the staging buffers; by the whole warpgroup, before a barrier.
  UNISONO_DEVICE void keep(const At& at) const {
    first.keep_centred(at);
    Values::keep_centres(*this);
  }

  // What the eight channels of this lane need: read once a tile where each lane keeps its channels, else once a
  // subtile.
  struct Chunk {
    static constexpr bool kOnce = kSlices == 1 && Visitor::kColumnsAfter <= 1 && !First::kInPlanes;
    Values values;
    float columns[8][larger(1, Visitor::kColumnsAfter)];
    UNISONO_DEVICE Chunk(const SecondPass& pass, int lane) {
      if (kOnce) read(pass, 8 * (lane % kLanesPerRow));
    }
    UNISONO_DEVICE void read(const SecondPass& pass, int n) {
      values.read(pass, n);
#pragma unroll
      for (int c = 0; c < Visitor::kColumnsAfter; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i) columns[i][c] = pass.column(kFirstColumn + c)[n + i];
    }
  };

  UNISONO_DEVICE void spill(const At& at) const { tiles.spill(at); }

  // Normalises and stores a tile, whose columns are ready: that in the staging buffers, or one that was spilled.
  // `later`: this warp has committed a bulk group since. kBeside a main loop all subtiles are stored after one fence,
  // which waits for shared memory; else each at once.
  template <bool kBeside>
  UNISONO_DEVICE void finish(const At& at, bool spilled, bool later);

  UNISONO_DEVICE void load_offsets(const At& at, bool spilled, int lane) const;

  // 16 rows from m of the tile, kSlice channels from `slice` of the tile, in place unless kWideMain. Rows and channels
  // outside the output are computed too, from zeros; the store drops them.
  UNISONO_DEVICE void normalise(InRows, const At& at, Chunk columns, int step, int lane, Folds& folds) const;
  // The same of a quarter of a slice in planes: epilogue/sm90_plane_slices.cuh.
  UNISONO_DEVICE void normalise(InPlanes, const At& at, const Chunk&, int step, int lane, Folds& folds) const;

  // The results of two neighbours: gives those that TMA stores, packed, and puts the others into `direct`; and what
  // they add to reductions. None are named: one or two of 16 bits.
  using OneOrTwo = Index<0>;
  using Named = Index<1>;
  template <class Row, class Direct>
  UNISONO_DEVICE u32 pair_of(OneOrTwo, float2 y, const float* of_x, const float* of_y, const float* tensor_x,
                             const float* tensor_y, const Row& row, bool exists, int w, Direct& direct,
                             Folds& folds) const;
  template <class Row, class Direct>
  UNISONO_DEVICE u32 pair_of(Named, float2 y, const float* of_x, const float* of_y, const float* tensor_x,
                             const float* tensor_y, const Row& row, bool exists, int w, Direct& direct,
                             Folds& folds) const;
  static UNISONO_DEVICE float2 stored_pair(const uint4 (&raw)[kPlanes], int w) {
    u32 planes[kPlanes];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) planes[plane] = word_of(raw[plane], w);
    return Held::join(planes);
  }
  static UNISONO_DEVICE u32 word_of(const uint4& v, int w) { return w == 0 ? v.x : w == 1 ? v.y : w == 2 ? v.z : v.w; }
};

}  // namespace unisono
