// stmatrix, and ldmatrix, its mirror: a warp stores 8x8 matrices of 16-bit elements to shared memory. Matrix i goes to
// the rows whose addresses lanes 8 i to 8 i + 7 give; in registers lane l holds the elements 2 (l % 4) + {0, 1} of row
// l / 4, transposed of column l / 4.
#pragma once
#include "unisono/ptx/types.cuh"

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
UNISONO_DEVICE void load_matrices(u32 row, u32* four) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
               : "r"(row)
               : "memory");
}
UNISONO_DEVICE void load_matrices_transposed(u32 row, u32* four) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
               : "r"(row)
               : "memory");
}
UNISONO_DEVICE void load_two_matrices(u32 row, u32* two) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(two[0]), "=r"(two[1])
               : "r"(row)
               : "memory");
}

}  // namespace unisono
