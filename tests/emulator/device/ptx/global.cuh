// kernels/unisono/ptx/global.cuh for the emulator, where every access is whole and in order.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

inline void store_whole(Entry* address, uint4 value) { std::memcpy(static_cast<void*>(address), &value, sizeof value); }
inline uint4 load_whole(const Entry* address) {
  uint4 value;
  std::memcpy(&value, static_cast<const void*>(address), sizeof value);
  return value;
}
inline void store_evict_first(void* address, uint4 value) { std::memcpy(address, &value, sizeof value); }
inline void store_sixteen(void* address, uint4 value) { std::memcpy(address, &value, sizeof value); }
inline float4 load_l2(const float4* address) { return *address; }
inline void prefetch_line(const void*) {}
inline float load_l2(const float* address) { return *address; }
inline u32 load_relaxed(const u32* address) { return *address; }
inline u32 load_acquire(const u32* address) { return *address; }
inline void store_release(u32* address, u32 value) { *address = value; }
inline void fence_gpu() {}
inline void count_wrapping(u32* address, u32 last) { *address = *address >= last ? 0 : *address + 1; }
inline u32 increment_wrapping(u32* address, u32 last) {
  return std::exchange(*address, *address >= last ? 0 : *address + 1);
}

}  // namespace unisono
