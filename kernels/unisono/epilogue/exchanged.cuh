// What the tiles of an image exchange before their elements where that is not the moments of one value: reductions
// over rows and groups of channels, of any values that are known before them. An element adds its share as it becomes
// the value that waits. Resident, that value waits in registers; streamed, as an element of the tile that waits. When
// the reductions are complete, columns are made of them, and results of what waited, columns and operands.
//
// The visitor has `results` (epilogue/visitor.cuh), whose first argument is the value that waits, and besides
//
//   struct Exchanged;                        a list:
//       static constexpr int kFolds; static constexpr Fold fold(int i);
//       static float ahead(float acc, const float* column, const float* tensor, const Uniform&, float* share, float*
//           value);
//                                            in place of `before` and `fold_ahead`: gives the value that waits, what
//                                            the element adds to each of these, and to stored reductions
//       static void columns(const Params&, const Uniform&, int image, int channel, float rows, float width, const
//           float* folded, float* column, int stride);
//                                            those of columns_after that are known with them, `stride` apart; width:
//                                            channels of a group
#pragma once
#include "unisono/epilogue/fold_slice.cuh"
#include "unisono/exchange/reductions.cuh"
#include "unisono/exchange/statistics_exchange.cuh"

namespace unisono {

template <class List>
struct FoldsOfList {
  static constexpr int kCount = List::kFolds;
  static UNISONO_DEVICE float identity(int i) { return nothing_of(List::fold(i)); }
  static UNISONO_DEVICE float join(int i, float x, float y) { return unisono::join(List::fold(i), x, y); }
};

// The statistic that tiles exchange, and what a tile that is kept holds of a value that waits: moments of the value,
// centred by their mean, which a column has;
struct MomentsOfValue {
  template <class Tile>
  static UNISONO_DEVICE float kept(float x, const float* column) {
    return x - column[Tile::kMean];
  }
};
// any reductions, and the value as it is.
struct ReductionsOfValues {
  template <class Tile>
  static UNISONO_DEVICE float kept(float x, const float*) {
    return x;
  }
};
template <class Visitor, class = void>
struct ExchangedOf {
  using Kind = MomentsOfValue;
  static constexpr bool kAny = false;
  static constexpr int kFolds = 0;
  using Statistic = Moments;
};
template <class Visitor>
struct ExchangedOf<Visitor, typename Named<typename Visitor::Exchanged>::Type> {
  using Kind = ReductionsOfValues;
  static constexpr bool kAny = true;
  static constexpr int kFolds = Visitor::Exchanged::kFolds;
  using Statistic = Reductions<FoldsOfList<typename Visitor::Exchanged>>;
};

// What a tile adds, in the order of fragments, a slice of a block of rows at a time. A warp has its rows' part of each
// entry, kWidth neighbouring channels of a piece, in moments(warp): (folds, entries).
template <class Tile>
struct ExchangedShares {
  using Visitor = typename Tile::EpilogueVisitor;
  using List = typename Visitor::Exchanged;
  using Statistic = typename Tile::Statistic;
  using Fragment = typename Tile::Fragment;
  using At = typename Tile::At;
  static constexpr int kN = Tile::kN, kSlice = Tile::kSlice, kFolds = List::kFolds, kUnit = Tile::kUnit;
  static constexpr int kWidth = kUnit % 2 == 0 ? 2 : 1, kEntries = kN / kWidth, kEach = kSlice / 4 / kWidth;
  using Lanes = LaneFold<kEach>;
  static_assert(!Tile::kSwap, "neighbours of a pair are channels of a row");
  static_assert(kFolds * kEntries * 4 <= Tile::kMomentBytes, "a warp's part lies where its moments would");

  const Tile& tile;
  const At& at;
  float folded[kFolds][kEach];
  bool valid[2];

  UNISONO_DEVICE ExchangedShares(const Tile& tile, const At& at) : tile(tile), at(at) {}
  UNISONO_DEVICE int lane() const { return tile.thread & 31; }
  UNISONO_DEVICE float* of(int warp, int i) const {
    return reinterpret_cast<float*>(tile.moments(warp)) + i * kEntries;
  }

  UNISONO_DEVICE void open(int b) {
#pragma unroll
    for (int i = 0; i < kFolds; ++i)
#pragma unroll
      for (int k = 0; k < kEach; ++k) folded[i][k] = nothing_of(List::fold(i));
#pragma unroll
    for (int half = 0; half < 2; ++half) valid[half] = at.rows.valid(Fragment::row_of(tile.thread, 2 * b + half));
  }
  // Sums of pair p of slice s, each with its columns and operands: gives the values that wait.
  template <class Row, class Folds>
  UNISONO_DEVICE float2 add(int s, int p, float x, float y, const float* one, const float* two, const float* t1,
                            const float* t2, const Row&, Folds& folds) {
    const bool counts = valid[p & 1];
    const int k = p / 2 * (2 / kWidth);
    float value[2][kFolds], stored[2][larger(1, PassFolds<Visitor>::kValues)] = {};
    const float2 waits = {List::ahead(x, one, t1, tile.uniform, value[0], stored[0]),
                          List::ahead(y, two, t2, tile.uniform, value[1], stored[1])};
    folds.add_values(s, p, stored[0], stored[1]);
#pragma unroll
    for (int i = 0; i < kFolds; ++i) {
      const Fold kind = List::fold(i);
      if (kWidth == 2) value[0][i] = join(kind, value[0][i], value[1][i]);
#pragma unroll
      for (int e = 0; e < 2 / kWidth; ++e)
        folded[i][k + e] = join(kind, folded[i][k + e], counts ? value[e][i] : nothing_of(kind));
    }
    return waits;
  }
  UNISONO_DEVICE void close(int b, int s) {
#pragma unroll
    for (int i = 0; i < kFolds; ++i) {
      Lanes::run(List::fold(i), folded[i], lane());
#pragma unroll
      for (int k = 0; k < Lanes::kKept; ++k) {
        if (!Lanes::writes(lane())) continue;
        const int channel = s * kSlice + Fragment::channel_of(tile.thread, (Lanes::first_kept(lane()) + k) * kWidth);
        float& to = of(tile.thread / 32, i)[channel / kWidth];
        to = b == 0 ? folded[i][k] : join(List::fold(i), to, folded[i][k]);
      }
    }
  }

  // The four warps' parts of each piece, joined in a fixed order, to this warpgroup's slot. Few units: many lanes each.
  UNISONO_DEVICE Statistic part(int warp, int entry) const {
    Statistic of_part;
#pragma unroll
    for (int i = 0; i < kFolds; ++i) of_part.values[i] = of(warp, i)[entry];
    return of_part;
  }
  UNISONO_DEVICE void publish() const {
    tile.sync();
    if constexpr (Tile::kCut)
      publish_pieces();
    else
      publish_units();
  }
  UNISONO_DEVICE void publish_pieces() const {
    for_pieces<typename Tile::PiecesOf>(tile.norm, tile.thread, at.first_channel, tile.geometry.channels,
                                        [&](int piece, int from, int to, int lane, int lanes) {
                                          Statistic all = Statistic::identity();
                                          for (int i = from / kWidth * 4 + lane; i < to / kWidth * 4; i += lanes)
                                            all.merge(part(i % 4, i / 4));
                                          all = Statistic::over_lanes(all, lanes);
                                          if (from < to && lane == 0) put(piece, all);
                                        });
  }
  UNISONO_DEVICE void publish_units() const {
    constexpr int kUnits = kN / kUnit, kParts = 4 * (kUnit / kWidth), kLanes = kUnits <= 4 ? 32 : kUnits <= 32 ? 4 : 1;
    const int first = tile.thread % kLanes;
    for (int own = tile.thread / kLanes; own / (32 / kLanes) * (32 / kLanes) < kUnits;
         own += 128 / kLanes) {  // whole warps
      const int u = smaller(own, kUnits - 1);
      Statistic all = Statistic::identity();
      for (int i = first; i < kParts; i += kLanes) all.merge(part(i % 4, u * (kParts / 4) + i / 4));
      if (kLanes > 1) all = Statistic::over_lanes(all, kLanes);
      const int channel = at.first_channel + u * kUnit;
      if (own < kUnits && first == 0 && channel < tile.geometry.channels) put(channel / kUnit, all);
    }
  }
  UNISONO_DEVICE void put(int piece, const Statistic& all) const {
    const int pieces = Tile::PiecesOf::before(tile.norm, tile.geometry.channels);
    write_message(
        slots_of<Statistic>(tile.norm) + (size_t(at.image) * tile.norm.slots_per_image + at.slot) * pieces + piece, all,
        tile.epoch);
  }
};

// Waits for the image's reductions, calls gathered(), and puts what is known with them among the tile's columns.
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_exchanged(const Tile& tile, const typename Tile::At& at, const Gathered& gathered) {
  using Statistic = typename Tile::Statistic;
  using List = typename Tile::EpilogueVisitor::Exchanged;
  constexpr int kN = Tile::kN;
  const GroupStatistics<Statistic, WarpgroupCrew<kAtOnce>, Tile::kScratch, typename Tile::PiecesOf> statistics(
      tile.norm, {tile.thread, tile.barrier}, reinterpret_cast<Statistic*>(tile.moments(0)), tile.epoch, at.image,
      at.first_channel, tile.geometry.channels);
  statistics.gather();
  gathered();
  float* const column = tile.columns() + Tile::kBefore * kN;
  statistics.emit(
      false,
      [&](int, int n, const Statistic& all) {
        List::columns(tile.visitor, tile.uniform, at.image, at.first_channel + n, float(tile.geometry.rows),
                      float(tile.norm.group_channels), all.values, column + n, kN);
      },
      [](int, const Statistic&) {});
}

}  // namespace unisono
