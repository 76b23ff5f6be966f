// How matrix instructions find an operand in shared memory: 64-bit descriptors. Only the address field varies within a
// kernel.
//   K-major   a row (of M or N) has its k side by side: rows of 128 or 64 bytes of TMA, 8 of them a group.
//   MN-major  a k has its rows side by side: boxes of 64 rows of M or N, 128 bytes, by as many k as a stage is deep.
// Both are swizzled as TMA writes them: by the address, not by the row.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// K-major, rows of kRowBytes: groups of 8 rows follow one another at kGroupBytes. A group may start at any row, with
// the base-offset field zero (measured).
template <int kRowBytes, int kGroupBytes = 8 * kRowBytes>
UNISONO_DEVICE u64 operand_descriptor(u32 address) {
  constexpr u64 kSwizzle = kRowBytes == 128 ? 1 : 2;
  return kSwizzle << 62 | u64(kGroupBytes >> 4) << 32 | u64(1) << 16 | u64((address & 0x3ffff) >> 4);
}

// MN-major: 8 k after 8 k at kGroupBytes, the stride; 64 rows after 64 rows at kBoxBytes, the leading dimension. An
// instruction is two groups of k deep, 2048 bytes on from the one before (measured).
template <int kBoxBytes, int kGroupBytes = 1024>
UNISONO_DEVICE u64 columns_descriptor(u32 address) {
  return u64(1) << 62 | u64(kGroupBytes >> 4) << 32 | u64(kBoxBytes >> 4) << 16 | u64((address & 0x3ffff) >> 4);
}

}  // namespace unisono
