// kernels/unisono/mma/sm90_wgmma_of_fragments.cuh for the emulator.
#pragma once
#include "unisono/mma/sm90_wgmma.cuh"

namespace unisono {

template <class Element, int kN, bool kColumnsB = false>
void wgmma_of_fragments(float (&d)[kN / 2], const u32 (&a)[4], u64 b, u32 accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "a matrix instruction is 8 to 256 columns wide");
  unisono_emulator::multiply_of_fragments(
      d, a, {b, kColumnsB}, kN,
      Same<Element, Bf16>::value ? unisono_emulator::MatrixElement::bf16 : unisono_emulator::MatrixElement::f16,
      accumulate != 0);
}

}  // namespace unisono
