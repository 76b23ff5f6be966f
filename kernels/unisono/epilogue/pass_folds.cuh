// Where tiles wait for statistics: what a tile adds to reductions over rows that are stored (epilogue/folds.cuh), of
// values before the statistics from its accumulators, of values after them when its results are computed. Both write
// to the same place of the warpgroup; it counts itself in when the results are done, or before them if nothing is
// reduced after them.
#pragma once
#include "unisono/epilogue/fold_columns.cuh"
#include "unisono/epilogue/fold_slice.cuh"
#include "unisono/epilogue/tile.cuh"

namespace unisono {

// The reductions of one pass: their values over the whole tile, a lane's.
template <class Tail, bool kIsAhead>
struct FoldsOfTile {
  using Visitor = typename Tail::EpilogueVisitor;
  using At = typename Tail::At;
  using List = StoredFolds<Visitor>;
  using Columns = FoldColumns<Tail>;
  using Pass = FoldsOfPass<Visitor, kIsAhead>;
  static constexpr int kValues = Visitor::kFoldValues, kFolds = List::kChannelFolds, kMeans = List::kMoments,
                       kWhole = List::kTileFolds;

  const Columns columns;
  const At& at;
  float whole[larger(1, kWhole)];

  UNISONO_DEVICE FoldsOfTile(const Tail& tail, const At& at) : columns{tail}, at(at) {
#pragma unroll
    for (int i = 0; i < kWhole; ++i) whole[i] = nothing_of(List::tile_fold(i));
  }
  UNISONO_DEVICE void add_whole(const float* value, bool counts) {
#pragma unroll
    for (int i = 0; i < kWhole; ++i)
      if (Pass::has(kFolds + kMeans + i))
        whole[i] =
            join(List::tile_fold(i), whole[i], counts ? value[kFolds + kMeans + i] : nothing_of(List::tile_fold(i)));
  }
  // The tile is done.
  UNISONO_DEVICE void put() {
    if constexpr (kWhole > 0) columns.add_whole(whole);
    columns.template put<Pass>(at);
    if constexpr (!kIsAhead || !PassFolds<Visitor>::kBehind) columns.count_in(at);
  }
};

// In the order of fragments, a slice of a block of rows at a time.
template <class Tail, bool kIsAhead>
struct FoldsOfPairs : FoldsOfTile<Tail, kIsAhead> {
  using Base = FoldsOfTile<Tail, kIsAhead>;
  using At = typename Base::At;
  static_assert(!Tail::kSwap, "neighbours of a pair are channels of a row");
  FoldSlice<typename Base::List, Base::Columns::kEach> slice;
  float inverse[2], seen;
  bool valid[2];

  UNISONO_DEVICE FoldsOfPairs(const Tail& tail, const At& at) : Base(tail, at) {}
  UNISONO_DEVICE const Tail& tail() const { return this->columns.tail; }
  UNISONO_DEVICE void open(int b) {
    slice = {};
    seen = 0.f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      valid[half] = this->at.rows.valid(64 * b + tail().thread / 32 * 16 + (tail().thread & 31) / 4 + 8 * half);
      seen += valid[half] ? 1.f : 0.f;
      inverse[half] = valid[half] ? __fdividef(1.f, seen) : 0.f;
    }
  }
  // What both elements of pair `pair` of slice s add. The caller counts pairs: a count among these members would keep
  // the compiler from unrolling loops over slices, and accumulators from staying in registers.
  UNISONO_DEVICE void add_values(int s, int pair, const float* of_x, const float* of_y) {
    const int half = pair & 1, k = 2 * (pair / 2), n = s * Tail::kSlice + 8 * (pair / 2) + 2 * (tail().thread & 3);
    slice.add(k, of_x, valid[half], inverse[half]);
    slice.add(k + 1, of_y, valid[half], inverse[half]);
    const bool counts = valid[half] && this->at.first_channel + n < tail().geometry.channels;
    this->add_whole(of_x, counts);
    this->add_whole(of_y, counts);
  }
  UNISONO_DEVICE void close(int b, int s) {
    this->columns.template join_slice<typename Base::Pass>(this->at, b, s, slice, seen);
  }
};

// Ahead, from the sums.
template <class Tail, bool = PassFolds<typename Tail::EpilogueVisitor>::kAhead>
struct AheadFolds {
  UNISONO_DEVICE AheadFolds(const Tail&, const typename Tail::At&) {}
  UNISONO_DEVICE void open(int) {}
  UNISONO_DEVICE void add(int, int, float, float, const float*, const float*, const float*, const float*) {}
  UNISONO_DEVICE void add_values(int, int, const float*, const float*) {}
  UNISONO_DEVICE void close(int, int) {}
  UNISONO_DEVICE void put() {}
};
template <class Tail>
struct AheadFolds<Tail, true> : FoldsOfPairs<Tail, true> {
  using Base = FoldsOfPairs<Tail, true>;
  using Visitor = typename Tail::EpilogueVisitor;
  UNISONO_DEVICE AheadFolds(const Tail& tail, const typename Tail::At& at) : Base(tail, at) {}
  UNISONO_DEVICE void add(int s, int pair, float x, float y, const float* one, const float* two, const float* t1,
                          const float* t2) {
    float of_x[Base::kValues] = {}, of_y[Base::kValues] = {};
    Visitor::fold_ahead(x, one, t1, this->tail().uniform, of_x);
    Visitor::fold_ahead(y, two, t2, this->tail().uniform, of_y);
    this->add_values(s, pair, of_x, of_y);
  }
};

// After the statistics, of tiles that wait in registers: with their results.
template <class Tail, bool = PassFolds<typename Tail::EpilogueVisitor>::kBehind>
struct ResultFolds {
  UNISONO_DEVICE ResultFolds(const Tail&, const typename Tail::At&) {}
  UNISONO_DEVICE void open(int) {}
  UNISONO_DEVICE void add_values(int, int, const float*, const float*) {}
  UNISONO_DEVICE void close(int, int) {}
  UNISONO_DEVICE void put() {}
};
template <class Tail>
struct ResultFolds<Tail, true> : FoldsOfPairs<Tail, false> {
  UNISONO_DEVICE ResultFolds(const Tail& tail, const typename Tail::At& at) : FoldsOfPairs<Tail, false>(tail, at) {}
};

// After: 16 rows x kSlice channels of a warp at a time, eight channels a lane, kLanesPerRow lanes a row.
template <class Tail, int kLanesPerRow, bool = PassFolds<typename Tail::EpilogueVisitor>::kBehind>
struct BehindFolds {
  UNISONO_DEVICE BehindFolds(const Tail&, const typename Tail::At&) {}
  UNISONO_DEVICE void open() {}
  UNISONO_DEVICE void begin_row(bool) {}
  UNISONO_DEVICE void add(int, const float*, bool) {}
  UNISONO_DEVICE void close(int, int) {}
  UNISONO_DEVICE void put() {}
};
template <class Tail, int kLanesPerRow>
struct BehindFolds<Tail, kLanesPerRow, true> : FoldsOfTile<Tail, false> {
  using Base = FoldsOfTile<Tail, false>;
  using At = typename Base::At;
  using List = typename Base::List;
  FoldSlice<List, 8> slice;
  float inverse, seen;
  bool valid;

  UNISONO_DEVICE BehindFolds(const Tail& tail, const At& at) : Base(tail, at) {}
  UNISONO_DEVICE void open() { slice = {}, seen = 0.f; }
  UNISONO_DEVICE void begin_row(bool is_valid) {
    valid = is_valid;
    seen += valid ? 1.f : 0.f;
    inverse = valid ? __fdividef(1.f, seen) : 0.f;
  }
  UNISONO_DEVICE void add(int k, const float* value, bool exists) {
    slice.add(k, value, valid, inverse);
    this->add_whole(value, exists);
  }
  // Joins the lanes that have the same channels, from channel `first` of the tile on, to what earlier blocks have.
  UNISONO_DEVICE void close(int b, int first) {
    const int lane = this->columns.lane(), channel = first + 8 * (lane % kLanesPerRow);
    const bool writes = lane < kLanesPerRow;
#pragma unroll
    for (int i = 0; i < Base::kFolds; ++i) {
      if (!Base::Pass::has(i)) continue;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        float value = slice.folded[i][k];
#pragma unroll
        for (int distance = kLanesPerRow; distance < 32; distance *= 2)
          value = join(List::channel_fold(i), value, __shfl_xor_sync(~0u, value, distance));
        if (writes) this->columns.join_fold(i, channel + k, b, value);
      }
    }
#pragma unroll
    for (int i = 0; i < Base::kMeans; ++i) {
      if (!Base::Pass::has(Base::kFolds + i)) continue;
      Moments all[8];
#pragma unroll
      for (int k = 0; k < 8; ++k) all[k] = {seen, slice.mean[i][k], slice.m2[i][k]};
#pragma unroll
      for (int distance = kLanesPerRow; distance < 32; distance *= 2) {
        const float rows = __shfl_xor_sync(~0u, all[0].count, distance);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const float mean = __shfl_xor_sync(~0u, all[k].mean, distance),
                      m2 = __shfl_xor_sync(~0u, all[k].m2, distance);
          merge(all[k], rows, mean, m2);
        }
      }
      if (writes)
#pragma unroll
        for (int k = 0; k < 8; ++k) this->columns.join_moments(this->at, i, channel + k, b, all[k].mean, all[k].m2);
    }
  }
};

}  // namespace unisono
