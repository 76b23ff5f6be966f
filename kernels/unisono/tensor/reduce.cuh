// Reductions of tensors over any axes: a team of threads a result, or a part of one. Everything is in a fixed order.
#pragma once
#include "unisono/tensor/folds.cuh"
#include "unisono/tensor/space.cuh"
#include "unisono/tensor/team.cuh"

namespace unisono::tensor {

// From, To: types in memory. Neighbouring teams have neighbouring results, of one part each.
template <class From, class To, class Fold, int kThreads>
UNISONO_DEVICE void reduce(const ReduceParams& p) {
  using Group = Team<kThreads>;
  const u64 works = u64(p.results.count) * p.parts;
  for (u64 work = Group::first(); work < works; work += Group::step()) {
    const u32 part = u32(work / p.results.count), result = u32(work - u64(part) * p.results.count);
    const auto at = offsets_of(p.results, result, p.from.strides, p.to.strides);
    const u64 first = u64(part) * p.part_length, end = first + p.part_length;
    const u64 last = end < p.elements.count ? end : p.elements.count;
    typename Fold::State state = Fold::start();
    for (u64 i = first + Group::lane(); i < last; i += kThreads)
      Fold::add(state, load<From>(p.from.memory, at.of[0] + offset_of(p.elements, u32(i), p.element_strides)), u32(i));
    join_team<kThreads, Fold>(state);
    if (Group::lane() != 0) continue;
    if (p.parts > 1)
      static_cast<typename Fold::State*>(p.partials)[u64(result) * p.parts + part] = state;
    else
      store<To>(p.to.memory, at.of[1], NumberOf<To>(Fold::finish(state, p.count)));
  }
}

// The parts of each result, a warp a result.
template <class To, class Fold>
UNISONO_DEVICE void join_parts(const ReduceParams& p) {
  using Group = Team<32>;
  for (u64 result = Group::first(); result < p.results.count; result += Group::step()) {
    const auto* parts = static_cast<const typename Fold::State*>(p.partials) + result * p.parts;
    typename Fold::State state = Fold::start();
    for (u32 part = Group::lane(); part < p.parts; part += 32) Fold::join(state, parts[part]);
    join_team<32, Fold>(state);
    if (Group::lane() == 0)
      store<To>(p.to.memory, offset_of(p.results, u32(result), p.to.strides),
                NumberOf<To>(Fold::finish(state, p.count)));
  }
}

}  // namespace unisono::tensor
