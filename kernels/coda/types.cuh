// Element types and small helpers. No standard header: generated code that includes this builds under NVRTC in well under a second.
#pragma once
#include "arithmetic.cuh"

namespace coda {

// Element types are tags; a pair of elements travels as one 32-bit register, the first in the low half.
struct Bf16 {
    static CODA_DEVICE u32 pack(float first, float second) { return pack_bf16(first, second); }
    static CODA_DEVICE float2 unpack(u32 pair) {
        return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
    }
    static CODA_DEVICE u32 max(u32 one, u32 two) { return max_bf16(one, two); }
};

struct F16 {
    static CODA_DEVICE u32 pack(float first, float second) { return pack_f16(first, second); }
    static CODA_DEVICE float2 unpack(u32 pair) { return unpack_f16(pair); }
    static CODA_DEVICE u32 max(u32 one, u32 two) { return max_f16(one, two); }
};

CODA_DEVICE constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
CODA_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }
CODA_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }

}  // namespace coda
