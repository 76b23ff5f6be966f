// What elements add to reductions over rows, in a thread's registers, until its part of a slice is complete.
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono {

// A list's channel folds and moments, of kEach channels of a thread.
template <class List, int kEach>
struct FoldSlice {
  static constexpr int kFolds = List::kChannelFolds, kMeans = List::kMoments;
  float folded[larger(1, kFolds)][kEach], mean[larger(1, kMeans)][kEach], m2[larger(1, kMeans)][kEach];
  UNISONO_DEVICE FoldSlice() {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
#pragma unroll
      for (int i = 0; i < kFolds; ++i) folded[i][k] = nothing_of(List::channel_fold(i));
#pragma unroll
      for (int i = 0; i < kMeans; ++i) mean[i][k] = m2[i][k] = 0.f;
    }
  }
  // An element's values; inverse: of the rows so far.
  UNISONO_DEVICE void add(int k, const float* value, bool counts, float inverse) {
#pragma unroll
    for (int i = 0; i < kFolds; ++i)
      folded[i][k] = join(List::channel_fold(i), folded[i][k], counts ? value[i] : nothing_of(List::channel_fold(i)));
#pragma unroll
    for (int i = 0; i < kMeans; ++i) {
      float& centre = mean[i][k];
      const float of = counts ? value[kFolds + i] : centre, delta = of - centre;
      centre = fmaf(delta, inverse, centre);
      m2[i][k] = fmaf(delta, of - centre, m2[i][k]);
    }
  }
};

// Which of a list's reductions a pass over the tile adds to: all of them, unless a visitor of two passes says that some
// are of values before its normalisation (epilogue/visitor.cuh). Counted as they lie in `value`: channel folds,
// moments, tile folds.
struct EveryFold {
  static UNISONO_DEVICE constexpr bool has(int) { return true; }
};
template <class Visitor, bool kAhead>
struct FoldsOfPass {
  static UNISONO_DEVICE constexpr bool has(int i) { return Visitor::ahead(i) == kAhead; }
};

// The reductions that a visitor of a second pass stores, if it has any: Visitor::kFoldValues.
template <class Visitor, class = void>
struct PassFolds {
  static constexpr int kValues = 0;
  static constexpr bool kAhead = false, kBehind = false;
  static UNISONO_DEVICE constexpr int bytes(int) { return 0; }
};
template <class Visitor>
struct PassFolds<Visitor, typename Said<Visitor::kFoldValues>::Type> {
  static constexpr int kValues = Visitor::kFoldValues;
  static UNISONO_DEVICE constexpr bool any(bool ahead) {
    for (int i = 0; i < kValues; ++i)
      if (Visitor::ahead(i) == ahead) return true;
    return false;
  }
  static constexpr bool kAhead = any(true), kBehind = any(false);
  static UNISONO_DEVICE constexpr int bytes(int tile_n) {
    return int(shared_layout::fold_bytes(Visitor::kChannelFolds + 2 * Visitor::kMoments, tile_n, Visitor::kTileFolds));
  }
};

// Visitor::results, which takes where an element's shares of stored reductions go, if there are any.
template <class Visitor, bool = (PassFolds<Visitor>::kValues > 0)>
struct ResultsAndShares {
  template <class Row>
  static UNISONO_DEVICE void of(float y, const float* column, const float* tensor, const Row& row,
                                const typename Visitor::Uniform& u, bool exists, float* result, float* share) {
    Visitor::results(y, column, tensor, row, u, exists, result, share);
  }
};
template <class Visitor>
struct ResultsAndShares<Visitor, false> {
  template <class Row>
  static UNISONO_DEVICE void of(float y, const float* column, const float* tensor, const Row& row,
                                const typename Visitor::Uniform& u, bool exists, float* result, float*) {
    Visitor::results(y, column, tensor, row, u, exists, result);
  }
};
// The first of a pair's results as the main store packs it, unless that has 32 bits and leaves from registers.
template <class Visitor, bool kWide>
struct MainOfResults {
  static constexpr int kFirstDirect = 1;
  static UNISONO_DEVICE u32 pack(const float* x, const float* y) { return Visitor::Output::pack(x[0], y[0]); }
};
template <class Visitor>
struct MainOfResults<Visitor, true> {
  static constexpr int kFirstDirect = 0;
  static UNISONO_DEVICE u32 pack(const float*, const float*) { return 0; }
};

}  // namespace unisono
