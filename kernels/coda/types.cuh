// Integer names, element types and their conversions. No standard header: generated code that
// includes this builds under NVRTC in well under a second.
#pragma once
#include "params.cuh"

#define CODA_DEVICE __device__ __forceinline__

namespace coda {

// Element types are tags; a pair of elements travels as one 32-bit register, the first in the low half.
struct Bf16 {
    static CODA_DEVICE u32 pack(float first, float second) {
        u32 pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
        return pair;
    }
    static CODA_DEVICE float2 unpack(u32 pair) {
        return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
    }
};

struct F16 {
    static CODA_DEVICE u32 pack(float first, float second) {
        u32 pair;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
        return pair;
    }
    static CODA_DEVICE float2 unpack(u32 pair) {
        float2 values;
        asm("{.reg .f16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}"
            : "=f"(values.x), "=f"(values.y) : "r"(pair));
        return values;
    }
};

CODA_DEVICE constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
CODA_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }
CODA_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }

}  // namespace coda
