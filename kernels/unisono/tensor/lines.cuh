// Running sums, and the places of the most extreme elements, along lines of tensors.
#pragma once
#include "unisono/tensor/folds.cuh"
#include "unisono/tensor/space.cuh"
#include "unisono/tensor/team.cuh"

namespace unisono::tensor {

// The sums of the first one, two, … of the values of a team's threads, and before them `ahead`; 0 of nothing.
template <int kThreads, class Wide>
struct RunningSums {
  Wide before, with;  // without the thread's own value, and with it
  Wide all;

  UNISONO_DEVICE RunningSums(Wide ahead, Wide own) {
    if constexpr (kThreads == 1) {
      before = ahead, with = all = ahead + own;
    } else {
      __shared__ Wide sums[kTeamThreads];
      const u32 lane = Team<kThreads>::lane(), at = threadIdx.x;
      sums[at] = own;
      Team<kThreads>::sync();
      for (u32 distance = 1; distance < kThreads; distance *= 2) {
        const Wide lower = lane >= distance ? sums[at - distance] : Wide(0);
        Team<kThreads>::sync();
        sums[at] = own += lower;
        Team<kThreads>::sync();
      }
      before = lane == 0 ? ahead : ahead + sums[at - 1];
      with = ahead + own, all = ahead + sums[at - lane + kThreads - 1];
      Team<kThreads>::sync();
    }
  }
};

// T: in memory, on both sides.
template <class T, int kThreads>
UNISONO_DEVICE void running_sums(const ScanParams& p) {
  using Group = Team<kThreads>;
  using Wide = WideNumber<NumberOf<T>>;
  for (u64 line = Group::first(); line < p.lines.count; line += Group::step()) {
    const auto at = offsets_of(p.lines, u32(line), p.from.strides, p.to.strides);
    Wide ahead = 0;
    for (u64 first = 0; first < p.length; first += kThreads) {
      const u64 k = first + Group::lane();
      const i64 place = p.reverse ? i64(p.length) - 1 - i64(k) : i64(k);
      const Wide x = k < p.length ? Wide(load<T>(p.from.memory, at.of[0] + place * p.from_step)) : Wide(0);
      const RunningSums<kThreads, Wide> sums(ahead, x);
      if (k < p.length)
        store<T>(p.to.memory, at.of[1] + place * p.to_step, NumberOf<T>(p.exclusive ? sums.before : sums.with));
      ahead = sums.all;
    }
  }
}

// Whether x comes before y: the larger, or the smaller. A NaN is larger than every number.
template <class T>
UNISONO_DEVICE bool is_ahead(T x, T y, bool smallest) {
  const T large = smallest ? y : x, small = smallest ? x : y;
  return large != large ? small == small : large > small;
}

// A thread an element: its rank is how many of its line come before it, of equal ones those before it.
template <class T>
UNISONO_DEVICE void top(const TopParams& p) {
  const u64 works = u64(p.lines.count) * p.length;
  for (u64 i = first_index(); i < works; i += index_step()) {
    const u32 line = u32(i / p.length), place = u32(i - u64(line) * p.length);
    const auto at = offsets_of(p.lines, line, p.from.strides, p.to.strides);
    const auto x = load<T>(p.from.memory, at.of[0] + place * p.from_step);
    u32 rank = 0;
    for (u32 k = 0; k < p.length; ++k) {
      const auto y = load<T>(p.from.memory, at.of[0] + k * p.from_step);
      rank += is_ahead(y, x, p.smallest) || (k < place && !is_ahead(x, y, p.smallest)) ? 1 : 0;
    }
    if (rank < p.kept) words<i64>(p.to)[at.of[1] + rank * p.to_step] = place;
  }
}

}  // namespace unisono::tensor
