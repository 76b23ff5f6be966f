// kernels/unisono/ptx/sm90_stmatrix.cuh for the emulator.
#pragma once
#include "unisono/ptx/shared.cuh"

namespace unisono {

inline void store_matrices(u32 row, const u32* four) { unisono_emulator::store_matrices(row, four, 4, false); }
inline void store_matrices_transposed(u32 row, const u32* four) {
  unisono_emulator::store_matrices(row, four, 4, true);
}
inline void store_two_matrices(u32 row, const u32* two) { unisono_emulator::store_matrices(row, two, 2, false); }

}  // namespace unisono
