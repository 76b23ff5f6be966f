// A general epilogue whose elements read reductions over the rows of an image (or of all) that has more tiles than are
// in flight: Config::kSpills. Registers cannot hold all of them until the results are known; accumulators wait in the
// workspace, as the matrix instruction left them in a thread's registers. Config::kSpillsRows: or reductions over the
// channels of a row that has more tiles.
//
// An image's tiles (a row's, if elements read nothing of several) are passed over once for each level of such
// reductions and once more for the results (a *pass* of a warpgroup over its own tiles, in their order). The first pass
// is that in which they are multiplied. Each later one loads a tile's accumulators, makes its rows' values and columns
// anew, from results that are complete by now, up to the next level, and adds to that. So the values are those of a
// kernel that holds its tiles, bit by bit. What rows' channels were reduced to is not computed again: it waits next to
// the accumulators, or among the entries that tiles of a row have exchanged. Groups of them are, as shared memory has
// one tile's.
//
// Nobody waits for a tile that waits for it: a warpgroup waits for results of a level only when it has published its
// share of that level of all its tiles of the image. In the order of (image, pass, row of tiles) each wait is for what
// others publish at a place before it, or in the same row, all tiles of which are in flight. If they are not
// (kSpillsRows), a pass ends with what is reduced of a row, too, and the next one begins with all of the warpgroup's
// shares of merging it, which wait for the pass before alone.
#pragma once
#include "unisono/epilogue/general_rows.cuh"
#include "unisono/mma/sums.cuh"

namespace unisono {

template <class Config, class = void>
struct Spills {
  static constexpr bool kValue = false;
};
template <class Config>
struct Spills<Config, typename Said<Config::kSpills>::Type> {
  static constexpr bool kValue = Config::kSpills;
};

template <class Config, class = void>
struct SpillsRows {
  static constexpr bool kValue = false;
};
template <class Config>
struct SpillsRows<Config, typename Said<Config::kSpillsRows>::Type> {
  static constexpr bool kValue = Config::kSpillsRows;
};

// The passes of a visitor: each ends with a level whose results elements read again, the last with the elements.
template <class Config, class Visitor>
struct SpilledPasses {
  // Whether a level has reductions over rows; over a row's channels, of tiles that are not in flight together.
  template <int level>
  static UNISONO_DEVICE constexpr bool returns() {
    if constexpr (Returns<Visitor>::kAny && level < Visitor::kLevels)
      return Returns<Visitor>::template List<level>::kDomains > 0;
    else
      return false;
  }
  template <int level>
  static UNISONO_DEVICE constexpr bool reduces_rows() {
    return SpillsRows<Config>::kValue && level >= 0 && level < Visitor::kLevels && Visitor::row_folds(level) > 0;
  }
  // The first level from `level` on with such reductions; kLevels if there is none.
  template <int level>
  static UNISONO_DEVICE constexpr int next() {
    int found = Visitor::kLevels;
    for_indices<level, Visitor::kLevels>([&](auto of) {
      constexpr int kOf = decltype(of)::kValue;
      if (found == Visitor::kLevels && (returns<kOf>() || reduces_rows<kOf>())) found = kOf;
    });
    return found;
  }
  // The last such level before `level`, or -1.
  template <int level>
  static UNISONO_DEVICE constexpr int before() {
    int found = -1;
    for_indices<0, level>([&](auto of) {
      constexpr int kOf = decltype(of)::kValue;
      if (returns<kOf>() || reduces_rows<kOf>()) found = kOf;
    });
    return found;
  }
  // Reductions of a row that later passes read again, those of levels before this one.
  template <int level = Visitor::kLevels>
  static UNISONO_DEVICE constexpr int kept() {
    constexpr int kReturned = before<level>() + 1;
    int count = 0;
    for (int l = 0; l < kReturned; ++l) count += Visitor::row_folds(l);
    return count;
  }
  static UNISONO_DEVICE constexpr bool over_images() {
    bool any = false;
    for_indices<0, Returns<Visitor>::kAny ? Visitor::kLevels : 0>([&](auto i) { any |= over_images<i.kValue>(); });
    return any;
  }
  template <int level>
  static UNISONO_DEVICE constexpr bool over_images() {
    using List = typename Returns<Visitor>::template List<level>;
    for (int d = 0; d < List::kDomains; ++d)
      if (!List::domain(d).per_image) return true;
    return false;
  }
};

// Adds the tile to the reductions of levels `level` to `stop`. Earlier passes have added to, and exchanged, those
// before the level that ended the last pass. `kept`, (reductions, rows): the results of these reductions, for a tile
// that has all channels of its rows.
template <class Tail>
template <int level, int stop>
UNISONO_DEVICE void General<Tail>::fold_rows_until(const At& at, Row (&rows)[kRows], float* kept) {
  if constexpr (level < Visitor::kLevels && level <= stop) {
    using Passes = SpilledPasses<Config, Visitor>;
    constexpr int kFolds = Visitor::row_folds(level), kLastReturned = Passes::template before<Visitor::kLevels>();
    constexpr bool kFirst = level > Passes::template before<stop>(), kLast = level == stop;
    constexpr bool kComputes = kFirst || Groups::folds(level) > 0;
    float folded[kRows][larger(1, kFolds)];
    if constexpr (kComputes) reduce_tile<level>(at, rows, folded);
    if constexpr (kFolds > 0 && Config::kWide) {
      if constexpr (kFirst) publish<level>(at, folded);
      if constexpr (kFirst && !SpillsRows<Config>::kValue) share<level>(at);
      if constexpr (!kLast) collect<level>(at, folded);
    } else if constexpr (kFolds > 0 && level <= kLastReturned) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < kFolds; ++i) {
          float* const at_row = kept + i * Tail::kPixels + row_of(r);
          if (!kComputes)
            folded[r][i] = load_l2(at_row);
          else if (kFirst && (r & 3) == (lane() & 3))
            *at_row = folded[r][i];
        }
    }
    if constexpr (kLast) {
      Returning::template share_level<level>(*this, at, rows);
    } else {
      if constexpr (Passes::template returns<level>()) {
        tail.sync();  // all warps have read the columns so far
        take_level<level>(at);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) conclude<level>(folded[r], rows[r]);
      fold_rows_until<level + 1, stop>(at, rows, kept + kFolds * Tail::kPixels);
    }
  }
}

// What a warpgroup does with its tiles of a row, of an image, or of all images.
template <class Tail, bool = Spills<typename Tail::Configuration>::kValue>
struct SpilledTiles {
  using Config = typename Tail::Configuration;
  using Visitor = typename Tail::EpilogueVisitor;
  using At = typename Tail::At;
  using Row = typename Visitor::Row;
  using Passes = SpilledPasses<Config, Visitor>;
  static constexpr int kBlocks = Tail::kAccBlocks, kQuads = Tail::kAccCount / 4,
                       kConsumers = Config::kTileWarpgroups * Config::kConsumerGroups, kStep = Config::kConsumerGroups;
  static constexpr bool kAllImages = Passes::over_images(), kByRow = !Returns<Visitor>::kAny;
  static_assert(Config::kMeets, "all CTAs are in flight, and each tile is one's own");

  Tail& tail;
  const int consumer;
  int first = 0, count = 0;  // of its tiles: the number of the first, how many wait

  // What waits of a tile: (tiles of a warpgroup, CTAs, consumer warpgroups), then its accumulators (quadruples,
  // threads) and what its rows were reduced to (reductions, rows).
  static constexpr int kSums = kBlocks * kQuads * 128,
                       kKept = Config::kWide ? 0 : Passes::template kept<>() * Tail::kPixels / 4;
  UNISONO_DEVICE float4* memory(int tile) const {
    const size_t of_all = (size_t(tile) * gridDim.x + blockIdx.x) * kConsumers + consumer;
    return static_cast<float4*>(tail.waiting_memory()) + of_all * (kSums + kKept);
  }
  UNISONO_DEVICE float4* place(int tile) const { return memory(tile) + tail.thread; }
  UNISONO_DEVICE float* kept(int tile) const { return reinterpret_cast<float*>(memory(tile) + kSums); }
  template <int stop>
  UNISONO_DEVICE void pass(const At& at, int tile) {
    General<Tail> general{tail};
    Row rows[General<Tail>::kRows];
    general.open_rows(at, rows);
    general.template fold_rows_until<0, stop>(at, rows, kept(tile));
    if constexpr (stop == Visitor::kLevels) general.finish(at, rows);
    tail.sync();  // the columns are about to be overwritten
  }

  // A tile that is multiplied, number i of its CTA's. tile(i): where number i is.
  template <class TileOf>
  UNISONO_DEVICE void add(const At& at, int i, const TileOf& tile) {
    if (count == 0) first = i;
    pass<Passes::template next<0>()>(at, count);
    store_sums<kQuads>(place(count), tail.acc);
    ++count;
    constexpr int kCtas = Config::kClusterM * Config::kClusterN;
    const int next = i + kStep, item = int(blockIdx.x) / kCtas + next * (int(gridDim.x) / kCtas);
    if (item >= tail.geometry.tiles || (!kAllImages && is_other(tile(next), at))) finish(tile);
  }
  static UNISONO_DEVICE bool is_other(const At& next, const At& at) {
    return next.image != at.image || (kByRow && next.slot != at.slot);
  }
  // All that it has of the image are.
  template <int stop = Passes::template next<Passes::template next<0>() + 1>(), class TileOf>
  UNISONO_DEVICE void finish(const TileOf& tile) {
    constexpr int kBefore = Passes::template before<stop>();
    if constexpr (Passes::template reduces_rows<kBefore>()) {
#pragma unroll 1
      for (int i = 0; i < count; ++i) General<Tail>{tail}.template share<kBefore>(tile(first + i * kStep));
    }
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const At at = tile(first + i * kStep);
      typename Tail::Columns columns;
      columns.load(tail, at);
      if constexpr (Tail::kLoaded > 0) columns.put(tail, at), tail.sync();
      load_sums<kQuads>(place(i), tail.acc);
      pass<stop>(at, i);
    }
    if constexpr (stop < Visitor::kLevels)
      finish<Passes::template next<stop + 1>()>(tile);
    else
      count = 0;
  }
};
// Tiles that do not wait.
template <class Tail>
struct SpilledTiles<Tail, false> {
  Tail& tail;
  const int consumer;
  template <class TileOf>
  UNISONO_DEVICE void add(const typename Tail::At& at, int, const TileOf&) {
    General<Tail>{tail}.run(at);
  }
};

}  // namespace unisono
