// kernels/unisono/mma/fragments.cuh for the emulator.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

template <class A, class B>
struct Same {
  static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
  static constexpr bool value = true;
};

template <class Element>
void multiply_fragments(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  unisono_emulator::multiply_fragments(d, a, b,
                                       Same<Element, Bf16>::value  ? unisono_emulator::MatrixElement::bf16
                                       : Same<Element, F16>::value ? unisono_emulator::MatrixElement::f16
                                                                   : unisono_emulator::MatrixElement::tf32);
}

}  // namespace unisono
