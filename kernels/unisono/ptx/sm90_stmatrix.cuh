// stmatrix: a warp stores 8x8 matrices of 16-bit elements to shared memory, as ldmatrix (ptx/shared.cuh) loads them.
#pragma once
#include "unisono/ptx/shared.cuh"

namespace unisono {

UNISONO_DEVICE void store_matrices(u32 row, const u32* four) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(four[0]),
               "r"(four[1]), "r"(four[2]), "r"(four[3])
               : "memory");
}
UNISONO_DEVICE void store_matrices_transposed(u32 row, const u32* four) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(four[0]),
               "r"(four[1]), "r"(four[2]), "r"(four[3])
               : "memory");
}
UNISONO_DEVICE void store_two_matrices(u32 row, const u32* two) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(two[0]), "r"(two[1])
               : "memory");
}

}  // namespace unisono
