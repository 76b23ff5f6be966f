// Shared memory: its addresses, ldmatrix, and copies from global memory that run during other work. From
// sm_80 on.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

UNISONO_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// ldmatrix: a warp loads 8x8 matrices of 16-bit elements. Matrix i is in the rows whose addresses lanes 8 i to 8 i + 7
// give; in registers lane l holds the elements 2 (l % 4) + {0, 1} of row l / 4, transposed of column l / 4.
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

// Sixteen bytes: the first `bytes` are read, the others are zeros. Both addresses are multiples of 16.
UNISONO_DEVICE void copy_async(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// The same of 4 or 8 bytes, by way of L1.
template <int kBytes>
UNISONO_DEVICE void copy_async_few(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(bytes)
               : "memory");
}
UNISONO_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending of this thread's groups are under way.
template <int kPending>
UNISONO_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace unisono
