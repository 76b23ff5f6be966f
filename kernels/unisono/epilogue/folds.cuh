// Reductions of elements whose results are stored: sums, extremes and moments over the rows of all images or of each,
// for every channel, for groups of channels or for all of them; and reductions over the channels of a row that span
// several tiles.
//
// Each warpgroup writes what its tile adds up to, to its own place in the workspace, and counts itself in. The one that
// comes last to a segment of neighbouring places merges these, in their order, into the first of them; the one that
// comes last to a column of tiles (an image's tiles of the same channels) merges the segments; the one that finishes
// the last column merges the columns, and the last of the same channels those of all images. So the order of every sum
// is fixed, no matter which warpgroup performs it: the same bits each run. Nobody waits: no CTA has to be resident, and
// a counter that is full is back at zero for the next launch.
#pragma once
#include "unisono/epilogue/visitor.cuh"
#include "unisono/exchange/moments.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/tile/layout.cuh"

namespace unisono {

enum class Fold { kSum, kMax, kMin };

UNISONO_DEVICE float nothing_of(Fold kind) {
  return kind == Fold::kSum ? 0.f : __uint_as_float(kind == Fold::kMax ? 0xff800000u : 0x7f800000u);
}
UNISONO_DEVICE float join(Fold kind, float x, float y) {
  return kind == Fold::kSum ? x + y : kind == Fold::kMax ? max_nan(x, y) : min_nan(x, y);
}

// Results that share what they run over. `groups`: 0, one for each channel; 1, all channels together; else that many
// groups of channels. Their folds are [first_fold, first_fold + folds) of the visitor's list of channel folds, or if
// groups is 1 of its tile folds; their moments that many of its list of moments.
struct FoldDomain {
  bool per_image;
  int groups, first_fold, folds, first_moment, moments;
  UNISONO_DEVICE constexpr bool by_tile() const { return groups == 1; }
};

template <int i, class First, class... Others>
struct Nth {
  using Type = typename Nth<i - 1, Others...>::Type;
};
template <class First, class... Others>
struct Nth<0, First, Others...> {
  using Type = First;
};

// What a visitor has of reductions over rows that elements read again (epilogue/returned.cuh).
template <class Visitor, bool = Visitor::kReturns>
struct Returns {
  static constexpr bool kAny = false;
  static UNISONO_DEVICE constexpr int words() { return 0; }
  template <int level, class General, class At, class Rows>
  static UNISONO_DEVICE void share_level(General&, const At&, const Rows&) {}
  template <int level, class General, class At>
  static UNISONO_DEVICE void take_level(General&, const At&) {}
  // A row's values that follow from a level's reductions.
  template <int level, class Tail, class Row>
  static UNISONO_DEVICE void conclude(const Tail& tail, const float* folded, Row& row) {
    Visitor::template conclude<level>(tail.uniform, float(tail.geometry.channels), folded, row);
  }
};
template <class Visitor>
struct Returns<Visitor, true> {
  static constexpr bool kAny = true;
  template <int level, class General, class At, class Rows>
  static UNISONO_DEVICE void share_level(General& of, const At& at, const Rows& rows) {
    of.template share_level<level>(at, rows);
  }
  template <int level, class General, class At>
  static UNISONO_DEVICE void take_level(General& of, const At& at) {
    of.template take_level<level>(at);
  }
  template <int level, class Tail, class Row>
  static UNISONO_DEVICE void conclude(const Tail& tail, const float* folded, Row& row) {
    float column[larger(1, Tail::kColumns)];
#pragma unroll
    for (int c = 0; c < Tail::kColumns; ++c) column[c] = tail.columns()[c * Tail::kN];
    Visitor::template conclude<level>(tail.uniform, float(tail.geometry.channels), folded, column, row);
  }
  template <int level>
  using List = typename Visitor::template Returned<level>;
  // Words of a channel in shared memory: the most of a level.
  static UNISONO_DEVICE constexpr int words() {
    int most = 0;
    for_indices<0, Visitor::kLevels>([&](auto level) {
      using Of = List<decltype(level)::kValue>;
      most = larger(most, Of::kChannelFolds + 2 * Of::kMoments);
    });
    return most;
  }
  // Before a level: planes of partial results; entries of a result, of three values each.
  template <int level>
  static UNISONO_DEVICE constexpr int planes() {
    int count = 0;
    for_indices<0, level>([&](auto before) {
      using Of = List<decltype(before)::kValue>;
      count += Of::kChannelFolds + 3 * Of::kMoments;
    });
    return count;
  }
  template <int level>
  static UNISONO_DEVICE constexpr int entries() {
    int count = 0;
    for_indices<0, level>([&](auto before) {
      constexpr int kBefore = decltype(before)::kValue;
      count += entries_to<kBefore>(List<kBefore>::kDomains);
    });
    return count;
  }
  template <int level>
  static UNISONO_DEVICE constexpr int entries_to(int domain) {
    int count = 0;
    for (int d = 0; d < domain; ++d) count += divide_up(List<level>::values(d), 3);
    return count;
  }
};

// Levels of them; only a general epilogue's visitor says whether there are any.
template <class Visitor, bool kGeneral>
UNISONO_DEVICE constexpr int returned_levels() {
  if constexpr (kGeneral)
    return Returns<Visitor>::kAny ? Visitor::kLevels : 0;
  else
    return 0;
}

// Joins each of kCount values over the eight lanes that differ in bits 2 to 4, halving what a lane keeps as long as
// there is more than one: a lane ends with kKept of them, from first_kept(lane) on.
template <int kCount>
struct LaneFold {
  static constexpr int kHalvings = kCount >= 8 ? 3 : kCount >= 4 ? 2 : kCount >= 2 ? 1 : 0;
  static constexpr int kKept = kCount >> kHalvings;
  static UNISONO_DEVICE int first_kept(int lane) {
    int first = 0;
#pragma unroll
    for (int step = 0; step < kHalvings; ++step) first += lane & (16 >> step) ? kCount >> (step + 1) : 0;
    return first;
  }
  // Whether this lane is the first of those that hold the same values.
  static UNISONO_DEVICE bool writes(int lane) {
    return kHalvings == 3 || (lane & (kHalvings == 2 ? 4 : kHalvings == 1 ? 12 : 28)) == 0;
  }

  static UNISONO_DEVICE void run(Fold kind, float (&value)[kCount], int lane) {
#pragma unroll
    for (int step = 0; step < 3; ++step) {
      const int bit = 16 >> step, half = step < kHalvings ? kCount >> (step + 1) : 0;
      const bool upper = lane & bit;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (k >= (half ? half : kKept)) continue;
        const float kept = half && upper ? value[k + half] : value[k],
                    sent = half && !upper ? value[k + half] : value[k];
        value[k] = join(kind, kept, __shfl_xor_sync(~0u, sent, bit));
      }
    }
  }
  // The same of moments, whose counts are a lane's.
  static UNISONO_DEVICE void run(float (&mean)[kCount], float (&m2)[kCount], float count, int lane) {
#pragma unroll
    for (int step = 0; step < 3; ++step) {
      const int bit = 16 >> step, half = step < kHalvings ? kCount >> (step + 1) : 0;
      const bool upper = lane & bit;
      const float other = __shfl_xor_sync(~0u, count, bit),
                  share = count + other > 0.f ? __fdividef(other, count + other) : 0.f;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (k >= (half ? half : kKept)) continue;
        const float kept_mean = half && upper ? mean[k + half] : mean[k],
                    sent_mean = half && !upper ? mean[k + half] : mean[k];
        const float kept_m2 = half && upper ? m2[k + half] : m2[k], sent_m2 = half && !upper ? m2[k + half] : m2[k];
        const float delta = __shfl_xor_sync(~0u, sent_mean, bit) - kept_mean;
        m2[k] = fmaf(delta * delta, count * share, kept_m2 + __shfl_xor_sync(~0u, sent_m2, bit));
        mean[k] = fmaf(delta, share, kept_mean);
      }
      count += other;
    }
  }
};

// What is merged in order, each once: `count` values that lie `stride` apart. kBatch loads are in flight.
UNISONO_DEVICE float fold_in_order(Fold kind, const float* from, size_t stride, int count) {
  constexpr int kBatch = 8;
  float total = nothing_of(kind);
  for (int base = 0; base < count; base += kBatch) {
    float values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      values[i] = base + i < count ? load_l2(from + (base + i) * stride) : nothing_of(kind);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) total = join(kind, total, values[i]);
  }
  return total;
}

// The same of kCount reductions whose values lie `plane` apart, of kinds kind(i), which are loaded together.
template <int kCount, class Kind>
UNISONO_DEVICE void folds_in_order(const Kind& kind, const float* from, size_t plane, size_t stride, int count,
                                   float* total) {
  constexpr int kBatch = kCount > 4 ? 4 : 8;
#pragma unroll
  for (int i = 0; i < kCount; ++i) total[i] = nothing_of(kind(i));
#pragma unroll 1
  for (int base = 0; base < count; base += kBatch) {
    float values[larger(1, kCount)][kBatch];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
        values[i][j] = base + j < count ? load_l2(from + i * plane + (base + j) * stride) : nothing_of(kind(i));
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int j = 0; j < kBatch; ++j) total[i] = join(kind(i), total[i], values[i][j]);
  }
}

// Moments lie as three planes, count, mean and M2.
UNISONO_DEVICE Moments moments_in_order(const float* from, size_t plane, size_t stride, int count) {
  constexpr int kBatch = 4;
  MomentMerger merger;
  for (int base = 0; base < count; base += kBatch) {
    float values[kBatch][3];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
#pragma unroll
      for (int k = 0; k < 3; ++k)
        values[i][k] = base + i < count ? load_l2(from + k * plane + (base + i) * stride) : 0.f;
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (base + i < count) merger.add(values[i][0], values[i][1], values[i][2]);
  }
  return merger.total();
}

}  // namespace unisono
