// Global memory that other SMs write.
#pragma once
#include "unisono/params/params.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono {

// Sixteen bytes written and read as one: a value and its tag, w, arrive together, so no fence is needed between them.
// In memory the tag is mixed with the other words, so that a reader of the tag needs all of them. If only
// some words of a load are used, ptxas splits it, relaxed or not, and then a value may be older than its tag.
UNISONO_DEVICE u32 mixed_tag(uint4 value) { return value.w ^ value.x ^ value.y ^ value.z; }
UNISONO_DEVICE void store_whole(Entry* address, uint4 value) {
  asm volatile(
      "{.reg .b64 lo, hi; .reg .b128 both; mov.b64 lo, {%1, %2}; mov.b64 hi, {%3, %4}; mov.b128 both, {lo, hi};"
      " st.relaxed.gpu.global.b128 [%0], both;}" ::"l"(address),
      "r"(value.x), "r"(value.y), "r"(value.z), "r"(mixed_tag(value))
      : "memory");
}
UNISONO_DEVICE uint4 load_whole(const Entry* address) {
  uint4 value;
  asm volatile(
      "{.reg .b64 lo, hi; .reg .b128 both; ld.relaxed.gpu.global.b128 both, [%4]; mov.b128 {lo, hi}, both;"
      " mov.b64 {%0, %1}, lo; mov.b64 {%2, %3}, hi;}"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(address)
      : "memory");
  value.w = mixed_tag(value);
  return value;
}

// Sixteen bytes that L2 need not keep.
UNISONO_DEVICE void store_evict_first(void* address, uint4 value) {
  asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(address), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w), "l"(u64{0x12f0000000000000})
               : "memory");
}

// Sixteen bytes by one instruction, even if the compiler knows their neighbours.
UNISONO_DEVICE void store_sixteen(void* address, uint4 value) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}

// Past L1.
UNISONO_DEVICE float4 load_l2(const float4* address) {
  float4 value;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(address)
               : "memory");
  return value;
}

// A line of 128 bytes, from memory into L2.
UNISONO_DEVICE void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

UNISONO_DEVICE float load_l2(const float* address) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}

UNISONO_DEVICE u32 load_relaxed(const u32* address) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
UNISONO_DEVICE u32 load_acquire(const u32* address) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
UNISONO_DEVICE void store_release(u32* address, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
// What is read from here on is no older than what was written before the stores whose values were read before.
UNISONO_DEVICE void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// Adds one, or goes back to 0 from `last`.
UNISONO_DEVICE void count_wrapping(u32* address, u32 last) {
  asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(address), "r"(last) : "memory");
}

// Adds one, or goes back to 0 from `last`; gives the value before. Acquires and releases.
UNISONO_DEVICE u32 increment_wrapping(u32* address, u32 last) {
  u32 before;
  asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(last) : "memory");
  return before;
}

}  // namespace unisono
