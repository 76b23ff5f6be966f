// kernels/unisono/mma/sm90_wgmma.cuh for the emulator.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/mma/sm90_descriptor.cuh"

namespace unisono {

inline void wgmma_fence() { unisono_emulator::sync_warp(); }
inline void wgmma_commit() { unisono_emulator::multiply_commit(); }
template <int kPending>
void wgmma_wait() {
  unisono_emulator::multiply_wait(kPending);
}
template <int kCount>
void wgmma_hold(float (&)[kCount]) {}

template <class Element, int kN, bool kColumnsA = false, bool kColumnsB = false>
void wgmma(float (&d)[kN / 2], u64 a, u64 b, u32 accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "a matrix instruction is 8 to 256 columns wide");
  const auto element = Same<Element, Tf32>::value   ? unisono_emulator::MatrixElement::tf32
                       : Same<Element, Bf16>::value ? unisono_emulator::MatrixElement::bf16
                                                    : unisono_emulator::MatrixElement::f16;
  unisono_emulator::multiply(d, {a, kColumnsA}, {b, kColumnsB}, kN, element, accumulate != 0);
}

}  // namespace unisono
