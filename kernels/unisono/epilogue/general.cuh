// Epilogues beyond a value for each element: values of rows, coordinates, reductions over the channels of a row that
// elements read, functions called for their effect, results [m,n] of any type, none at all, and reductions that are
// stored (epilogue/folds.cuh). Pixels first only.
//
// The visitor computes, of a row and of an element, from the accumulators as they are; each level of reductions over a
// row's channels is a pass over the tile. What it supplies besides the members that epilogue/visitor.cuh names
// (kTensorsBefore and kColumnsBefore are 0):
//
//   static constexpr int kTiled;             results [m,n] that TMA stores: 0, 1 (Output) or 2 (Output, Side)
//   static constexpr bool kElements;         whether `element` does anything, kRowEnds: whether `close_row` does
//   static constexpr int kLevels;            of reductions over a row's channels
//   static constexpr int row_folds(int level); static constexpr Fold row_fold(int level, int i);
//   struct Row;                              values with axes [m]
//   static Row row(const Params&, const Uniform&, const Where&);               those that need no reduction
//   template <int level> static void contribute(float acc, const float* column, const float* tensor, const Uniform&,
//       const Row&,
//                                               int channel, float* value);    what an element adds to the level's
//                                                   reductions
//   template <int level> static void conclude(const Uniform&, float channels, const float* folded, Row&);  values [m]
//       from their results
//   struct Result;                           an element's results [m,n]
//   static Result element(float acc, const float* column, const float* tensor, const Uniform&, const Row&, const
//       Where&, int channel,
//                         bool exists, float* value);                          and what it adds to channel folds,
//                             moments, tile folds
//   static float tiled(const Result&, int i);
//   static void put(const Params&, u64 offset, const Result& x, const Result& y);  stores the other results of two
//       neighbours; one: without y
//   static void close_row(const Params&, const Uniform&, const Where&, const Row&, float* tile_value);  once a row:
//       stores [m]
//   static constexpr int kChannelFolds, kMoments, kTileFolds;
//   static constexpr Fold channel_fold(int i), tile_fold(int i);
//   static constexpr int kDomains; static constexpr FoldDomain domain(int i);
//   template <int domain> static void finish(const Params&, const Uniform&, int image, int group, float rows, float
//       columns,
//                                            const float* folded, const Moments*);   stores what follows from a
//                                                domain's results
//
// Groups of a row's channels: epilogue/row_groups.cuh. Reductions over rows that elements read again:
// epilogue/returned.cuh.
//
// Config::kWide: several tiles across the channels. What they have of their rows meets in the workspace. If only
// close_row reads it (one level), the last of them concludes the rows. Config::kMeets: all of them read it and exchange
// it (exchange/row_exchange.cuh).
//
// Functions with vector forms: epilogue/vectors.cuh. Elements by way of shared memory: epilogue/general_shared.cuh.
#pragma once
#include "unisono/epilogue/fold_columns.cuh"
#include "unisono/epilogue/fold_slice.cuh"
#include "unisono/epilogue/general_needs.cuh"
#include "unisono/epilogue/returned.cuh"
#include "unisono/epilogue/row_groups.cuh"
#include "unisono/exchange/row_exchange.cuh"

namespace unisono {

// What the results of channel + e and its neighbour do besides: stores that the kernel does not know. Of a pair that
// exists together,
template <bool kTogether>
struct PairEffects {
  template <class Tail, class Result>
  static UNISONO_DEVICE void put(const Tail& tail, const typename Tail::At&, int, const Where& place, int channel,
                                 int e, bool exists, bool, const Result& left, const Result& right) {
    if (!exists) return;
    Tail::EpilogueVisitor::put(tail.visitor, u64(place.m) * tail.geometry.channels + channel + e, left, right);
  }
};
// or one by one.
template <>
struct PairEffects<false> {
  template <class Tail, class Result>
  static UNISONO_DEVICE void put(const Tail& tail, const typename Tail::At& at, int m, const Where&, int channel, int e,
                                 bool exists, bool next, const Result& left, const Result& right) {
    using Visitor = typename Tail::EpilogueVisitor;
    if (exists) Visitor::put(tail.visitor, tail.offset_of(at, m, channel + e), left);
    if (next) Visitor::put(tail.visitor, tail.offset_of(at, m, channel + e + 1), right);
  }
};

template <class Tail>
struct General {
  using EpilogueTail = Tail;
  using Config = typename Tail::Configuration;
  using Visitor = typename Tail::EpilogueVisitor;
  using Fragment = typename Tail::Fragment;
  using At = typename Tail::At;
  using Row = typename Visitor::Row;
  using Columns = FoldColumns<Tail>;
  using Groups = RowGroups<Config, Visitor>;
  using Ring = typename Tail::template Ring<0, Visitor::kTensors>;
  using ElementRing = typename Tail::template Ring<0, Visitor::kTensors, Tail::kFetch>;  // of the last pass
  using Returning = Returns<Visitor>;
  static constexpr int kSlice = Tail::kSlice, kSlices = Tail::kSlices, kBlocks = Tail::kBlocks,
                       kRows = Fragment::kThreadRows, kEach = kSlice / 4;
  static constexpr int kTiled = Visitor::kTiled, kTensors = Visitor::kTensors;
  static constexpr int kChannelFolds = Visitor::kChannelFolds, kMoments = Visitor::kMoments,
                       kTileFolds = Visitor::kTileFolds;
  static constexpr int kValues = kChannelFolds + kMoments + kTileFolds;
  static constexpr bool kChannels = kChannelFolds + kMoments > 0, kInOrder = !kChannels || kBlocks == 1;
  static constexpr bool kPairs = Tail::kTogether > 1;  // of neighbouring channels both exist or none
  using Effects = PairEffects<kPairs>;
  static constexpr bool kFetches = Tail::kFetch > 0;
  static_assert(!kFetches || (Visitor::kLevels == 0 && kInOrder),
                "what is fetched is read once, in the order of slices");
  static_assert(!Tail::kSwap, "rows of a tile are a thread's, or four threads'");

  Tail& tail;

  static UNISONO_DEVICE constexpr bool reduces_rows() {
    for (int level = 0; level < Visitor::kLevels; ++level)
      if (Visitor::row_folds(level) > 0) return true;
    return false;
  }
  UNISONO_DEVICE int lane() const { return tail.thread & 31; }
  UNISONO_DEVICE int row_of(int r) const { return Fragment::row_of(tail.thread, r); }
  // Rows that do not exist read the image's first.
  UNISONO_DEVICE Where where(const At& at, int m) const {
    return {at.image, at.image * tail.geometry.rows + (at.rows.valid(m) ? at.rows.pixel(m) : 0)};
  }
  UNISONO_DEVICE bool leads() const { return (lane() & 3) == 0; }
  UNISONO_DEVICE Groups groups() const {
    return {reinterpret_cast<float*>(tail.memory + Tail::kFoldOffset + Tail::Needs::kFoldOnly), lane()};
  }
  // A row as channel n of the tile finds it: with its group's results.
  UNISONO_DEVICE decltype(auto) row_at(const Row& row, int r, int n) const {
    return groups().row_with(row, row_of(r), n);
  }

  UNISONO_DEVICE void run(const At& at) {
    Row rows[kRows];
    open_rows(at, rows);
    fold_rows<0>(at, rows);
    finish(at, rows);
  }
  UNISONO_DEVICE void open_rows(const At& at, Row (&rows)[kRows]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) rows[r] = Visitor::row(tail.visitor, tail.uniform, where(at, row_of(r)));
  }
  // Once rows have all of their values.
  UNISONO_DEVICE void finish(const At& at, Row (&rows)[kRows]) {
    float whole[larger(1, kTileFolds)];
#pragma unroll
    for (int i = 0; i < kTileFolds; ++i) whole[i] = nothing_of(Visitor::tile_fold(i));
    constexpr bool kConcluded = !Config::kWide || Config::kMeets || Visitor::kLevels == 0;  // rows are, by every tile
    if (Visitor::kRowEnds && kConcluded && at.first_channel == 0 && leads()) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (at.rows.valid(row_of(r))) close_row(where(at, row_of(r)), rows[r], whole);
    }
    for_indices<0, Groups::kStores>([&](auto store) { this->close_groups<store.kValue>(at, rows); });
    last_pass(LastPass(), at, rows, whole);
    if (kValues == 0) return;
    const Columns columns{tail};
    columns.add_whole(whole);
    columns.publish(at);
  }

  UNISONO_DEVICE void close_row(const Where& at, const Row& row, float* whole) const {
    float value[larger(1, kTileFolds)];
#pragma unroll
    for (int i = 0; i < kTileFolds; ++i) value[i] = nothing_of(Visitor::tile_fold(i));
    Visitor::close_row(tail.visitor, tail.uniform, at, row, value);
#pragma unroll
    for (int i = 0; i < kTileFolds; ++i) whole[i] = join(Visitor::tile_fold(i), whole[i], value[i]);
  }

  // Results of groups of a row's channels, by the row's four lanes.
  template <int store>
  UNISONO_DEVICE void close_groups(const At& at, const Row (&rows)[kRows]) const;

  // The reductions of this and later levels: over the rows' channels, over rows.
  template <int level>
  UNISONO_DEVICE void fold_rows(const At& at, Row (&rows)[kRows]);

  // A level's reductions over the channels that this tile has of its rows; groups' go to shared memory.
  template <int level, int kCount>
  UNISONO_DEVICE void reduce_tile(const At& at, const Row (&rows)[kRows], float (&folded)[kRows][kCount]);

  template <int level, int kCount>
  UNISONO_DEVICE void conclude(const float (&folded)[kCount], Row& row) const;

  template <int level, int kCount>
  UNISONO_DEVICE void pass(const At& at, const Row (&rows)[kRows], float (&folded)[kRows][kCount]);

  // What elements read again of reductions over rows: published, awaited, and put among the tile's columns.
  template <int level>
  UNISONO_DEVICE void share_level(const At& at, const Row (&rows)[kRows]);
  template <int level>
  UNISONO_DEVICE void take_level(const At& at);

  // Tiles that wait in memory: epilogue/general_spilled.cuh.
  template <int level, int stop>
  UNISONO_DEVICE void fold_rows_until(const At& at, Row (&rows)[kRows], float* kept);

  // The four lanes of a row.
  template <int level, int kFolds>
  UNISONO_DEVICE void join_lanes(float (&folded)[kRows][kFolds]) const;

  // What tiles across have of a level's reductions, joined: an exchange for each three of them.
  static UNISONO_DEVICE constexpr int entries(int levels) {
    int count = 0;
    for (int level = 0; level < levels; ++level) count += divide_up(Visitor::row_folds(level), 3);
    return count;
  }
  template <int level, int first>
  UNISONO_DEVICE auto exchange_of(const At& at) const;
  template <int level, int kFolds>
  UNISONO_DEVICE void publish(const At& at, const float (&folded)[kRows][kFolds]) const;
  template <int level>
  UNISONO_DEVICE void share(const At& at) const;
  template <int level, int kFolds>
  UNISONO_DEVICE void collect(const At& at, float (&folded)[kRows][kFolds]) const;

  // Several tiles across: what this one has of its rows goes to the workspace; the last of them concludes the rows.
  template <int kFolds>
  UNISONO_DEVICE void meet(const At& at, const float (&folded)[kRows][kFolds]);

  // What a slice adds to a list's channel folds and moments, over the blocks so far.
  template <class List>
  using Slice = FoldSlice<List, kEach>;
  // Moments: 1 over the rows so far, and how many there are.
  struct Shares {
    float inverse[kRows], seen = 0.f;
    UNISONO_DEVICE Shares(const General& of, const At& at) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const bool valid = at.rows.valid(of.row_of(r));
        seen += valid ? 1.f : 0.f;
        inverse[r] = valid ? __fdividef(1.f, seen) : 0.f;
      }
    }
  };

  // The last pass: results, effects, and what the tile adds to reductions over rows. Where channels are reduced, all
  // blocks of a slice come before the next slice; else the order is that of the operands' ring, which then runs through
  // the tile.
  struct NoElements {};
  struct InRegisters {};
  struct InShared {};
  using LastPass =
      Either<!Visitor::kElements, NoElements, Either<ElementsInShared<Config>::kValue, InShared, InRegisters>>;
  UNISONO_DEVICE void last_pass(NoElements, const At&, const Row (&)[kRows], float*) {}
  UNISONO_DEVICE void last_pass(InRegisters, const At& at, const Row (&rows)[kRows], float* whole);

  UNISONO_DEVICE void elements_of(const At& at, const Row (&rows)[kRows], int b, int s, ElementRing& ring, int end,
                                  const Shares& shares, Slice<Visitor>& slice, float* whole);

  // The same where lanes have eight channels each: epilogue/general_shared.cuh.
  UNISONO_DEVICE void last_pass(InShared, const At& at, const Row (&)[kRows], float*);
  UNISONO_DEVICE void write_sums(float* sums, int b, int s) const;
};

}  // namespace unisono
