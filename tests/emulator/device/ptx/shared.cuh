// kernels/unisono/ptx/shared.cuh for the emulator.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

inline u32 shared_address(const void* pointer) { return unisono_emulator::shared_address(pointer); }

inline void load_matrices(u32 row, u32* four) { unisono_emulator::load_matrices(row, four, 4, false); }
inline void load_matrices_transposed(u32 row, u32* four) { unisono_emulator::load_matrices(row, four, 4, true); }
inline void load_two_matrices(u32 row, u32* two) { unisono_emulator::load_matrices(row, two, 2, false); }

inline void copy_async(u32 to, const void* from, u32 bytes) { unisono_emulator::async_copy(to, from, bytes, 16); }
template <int kBytes>
void copy_async_few(u32 to, const void* from, u32 bytes) {
  unisono_emulator::async_copy(to, from, bytes, kBytes);
}
inline void copy_async_commit() { unisono_emulator::async_commit(); }
template <int kPending>
void copy_async_wait() {
  unisono_emulator::async_wait(kPending);
}

}  // namespace unisono
