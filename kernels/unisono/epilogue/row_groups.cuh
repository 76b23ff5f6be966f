// Reductions over each of several groups of a row's channels, in a general epilogue: values with axes [m,g]. A group's
// channels are all in one tile, so nothing is exchanged. A warpgroup has the results in shared memory, a line for each
// of its rows, which only the four lanes of the row touch; a reduction has as many places there as groups of its width
// begin in a tile.
//
// The visitor says whether it has any, and supplies them then:
//   static constexpr bool kGroups;
//   static constexpr int kGroupStores;                          results [m,g]
//   static constexpr int group_folds(int level);
//   static constexpr Fold group_fold(int level, int i);         they follow the row's folds in what `contribute`
//                                                               gives
//   static constexpr bool group_mean(int level, int i);
//   static constexpr int group_width(int level, int i);         channels of a group
//   template <class Groups> static void read_groups(Row&, const float* line, int n);   what channel n of the tile
//       finds
//   static constexpr int group_store_width(int i);
//   template <int i> static void close_group(const Params&, const Uniform&, const Where&, const Row&, int groups, int
//       group);
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/params/sm90_shared_layout.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

template <class Config, class Visitor, bool = Visitor::kGroups>
struct RowGroups {
  static constexpr bool kAny = false;
  static constexpr int kBytes = 0, kStores = 0;
  UNISONO_DEVICE RowGroups(float*, int) {}
  static UNISONO_DEVICE constexpr int folds(int) { return 0; }
  template <int level, class RowOf, int kRows>
  UNISONO_DEVICE void open_all(const RowOf&, Index<kRows>) const {}
  template <int level>
  UNISONO_DEVICE void add(int, int, const float*, const float*, bool, bool) const {}
  template <int level, class RowOf, int kRows>
  UNISONO_DEVICE void close_all(const RowOf&, Index<kRows>) const {}
  template <class Row>
  UNISONO_DEVICE const Row& row_with(const Row& row, int, int) const {
    return row;
  }
};
template <class Config, class Visitor>
struct GroupPlaces {
  static UNISONO_DEVICE constexpr int folds(int level) { return Visitor::group_folds(level); }
  static UNISONO_DEVICE constexpr int places(int level, int i) {
    return divide_up(Config::kTileN, Visitor::group_width(level, i));
  }
  // A reduction's first place in a line.
  static UNISONO_DEVICE constexpr int first(int level, int i) {
    int place = 0;
    for (int l = 0; l <= level; ++l)
      for (int j = 0; j < (l < level ? folds(l) : i); ++j) place += places(l, j);
    return place;
  }
};
template <class Config, class Visitor>
struct RowGroups<Config, Visitor, true> : GroupPlaces<Config, Visitor> {
  using Places = GroupPlaces<Config, Visitor>;
  using Places::first, Places::folds, Places::places;
  static constexpr bool kAny = true;
  static constexpr int kStores = Visitor::kGroupStores;
  static constexpr int kPlaces = Places::first(Visitor::kLevels, 0), kLine = shared_layout::group_line(kPlaces);
  static constexpr int kBytes = int(shared_layout::group_bytes(kPlaces, Config::kWarpgroupRows));

  float* const memory;
  const int lane;
  UNISONO_DEVICE RowGroups(float* memory, int lane) : memory(memory), lane(lane) {}

  UNISONO_DEVICE float* line(int row) const { return memory + row * kLine; }

  template <int level>
  UNISONO_DEVICE void open(int row) const {
#pragma unroll
    for (int i = 0; i < folds(level); ++i)
      for (int g = lane & 3; g < places(level, i); g += 4)
        line(row)[first(level, i) + g] = nothing_of(Visitor::group_fold(level, i));
  }

  // What this lane's two of the eight channels from `chunk` of the tile add, and the other lanes' of the row.
  template <int level>
  UNISONO_DEVICE void add(int row, int chunk, const float* x, const float* y, bool exists, bool next) const {
    const int n = chunk + 2 * (lane & 3);
#pragma unroll
    for (int i = 0; i < folds(level); ++i) {
      const Fold kind = Visitor::group_fold(level, i);
      const int width = Visitor::group_width(level, i);
      for (int g = chunk / width; g <= (chunk + 7) / width; ++g) {
        float sum = join(kind, exists && n / width == g ? x[i] : nothing_of(kind),
                         next && (n + 1) / width == g ? y[i] : nothing_of(kind));
        sum = join(kind, sum, __shfl_xor_sync(~0u, sum, 1));
        sum = join(kind, sum, __shfl_xor_sync(~0u, sum, 2));
        float& place = line(row)[first(level, i) + g];
        if ((lane & 3) == 0) place = join(kind, place, sum);
      }
    }
  }

  // Before a level's pass and after it, for all rows of a thread, row_of(r).
  template <int level, class RowOf, int kRows>
  UNISONO_DEVICE void open_all(const RowOf& row_of, Index<kRows>) const {
    if (folds(level) == 0) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) open<level>(row_of(r));
    __syncwarp();
  }
  template <int level, class RowOf, int kRows>
  UNISONO_DEVICE void close_all(const RowOf& row_of, Index<kRows>) const {
    if (folds(level) == 0) return;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r) close<level>(row_of(r));
    __syncwarp();
  }
  // A row as channel n of the tile finds it: with its group's results.
  template <class Row>
  UNISONO_DEVICE Row row_with(const Row& row, int m, int n) const {
    Row own = row;
    Visitor::template read_groups<RowGroups>(own, line(m), n);
    return own;
  }

  template <int level>
  UNISONO_DEVICE void close(int row) const {
#pragma unroll
    for (int i = 0; i < folds(level); ++i)
      if (Visitor::group_mean(level, i))
        for (int g = lane & 3; g < places(level, i); g += 4)
          line(row)[first(level, i) + g] /= float(Visitor::group_width(level, i));
  }
};

}  // namespace unisono
