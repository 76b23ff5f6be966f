// How tensors of the caller, of any type and strides, enter the memory of a network and leave it. The plain kernels of
// plain/border.cuh do so faster where floats become elements of 16 bits.
#pragma once
#include "unisono/plain/border_tile.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// Calls visit(place of the caller's element, place of the network's).
template <class Visit>
UNISONO_DEVICE void for_caller(const CallerParams& p, const CallerTensor& t, const Visit& visit) {
  for (u64 i = first_index(); i < p.space.count; i += index_step()) {
    const auto at = offsets_of(p.space, u32(i), t.strides, p.own.strides);
    visit(at.of[0], at.of[1]);
  }
}

// Words of a dtype that both have.
template <class Word>
UNISONO_DEVICE void enter(const CallerParams& p) {
  const CallerTensor& t = *p.caller;
  for_caller(p, t,
             [&](i64 from, i64 to) { words<Word>(p.own)[to] = __ldg(static_cast<const Word*>(t.memory) + from); });
}
template <class Word>
UNISONO_DEVICE void leave(const CallerParams& p) {
  const CallerTensor& t = *p.caller;
  for_caller(p, t,
             [&](i64 to, i64 from) { static_cast<Word*>(t.memory)[to] = __ldg(words<const Word>(p.own) + from); });
}

// What is f32 in the network: of any float type of at most 32 bits outside, in memory as `Element`.
template <class Element>
UNISONO_DEVICE void enter_float(const CallerParams& p) {
  const CallerTensor& t = *p.caller;
  for_caller(p, t, [&](i64 from, i64 to) { store<Element>(p.own.memory, to, plain::load_caller(t, from)); });
}
template <class Element>
UNISONO_DEVICE void leave_float(const CallerParams& p) {
  const CallerTensor& t = *p.caller;
  for_caller(p, t, [&](i64 to, i64 from) { plain::store_caller(t, to, load<Element>(p.own.memory, from)); });
}

}  // namespace unisono::tensor
