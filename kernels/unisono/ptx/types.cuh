// Element types and small helpers. No standard header: generated code that includes this builds under NVRTC in well
// under a second.
#pragma once
#include "unisono/ptx/arithmetic.cuh"

namespace unisono {

// Element types are tags; a pair of elements travels as one 32-bit register, the first in the low half.
struct Bf16 {
  using Word = u16;  // of an element in memory
  static UNISONO_DEVICE u32 pack(float first, float second) { return pack_bf16(first, second); }
  static UNISONO_DEVICE float2 unpack(u32 pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
  static UNISONO_DEVICE u32 max(u32 one, u32 two) { return max_bf16(one, two); }
};

struct F16 {
  using Word = u16;
  static UNISONO_DEVICE u32 pack(float first, float second) { return pack_f16(first, second); }
  static UNISONO_DEVICE float2 unpack(u32 pair) { return unpack_f16(pair); }
  static UNISONO_DEVICE u32 max(u32 one, u32 two) { return max_f16(one, two); }
};

// A type of operands only: float32 in memory, of which matrix instructions use the upper 19 bits.
struct Tf32 {
  using Word = u32;
};

UNISONO_DEVICE float widened(Bf16, u16 word) { return Bf16::unpack(word).x; }
UNISONO_DEVICE float widened(F16, u16 word) { return F16::unpack(word).x; }
UNISONO_DEVICE float widened(Tf32, u32 word) { return __uint_as_float(word); }

// Over that many neighbouring lanes, such as the four that hold a row of an accumulator's fragment: in the same order
// in each of them.
template <int kLanes>
UNISONO_DEVICE float sum_over(float x) {
#pragma unroll
  for (int bit = 1; bit < kLanes; bit *= 2) x += __shfl_xor_sync(~0u, x, bit);
  return x;
}

UNISONO_DEVICE int divided(int x, const Divisor& by) { return int(u64(u32(x)) * by.factor >> by.shift); }  // of x >= 0

UNISONO_DEVICE constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
UNISONO_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }
UNISONO_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }

// Calls f(Index<i>{}) for each i of [kBegin, kEnd), in order.
template <int i>
struct Index {
  static constexpr int kValue = i;
};
template <int kBegin, int kEnd, class F>
UNISONO_DEVICE constexpr void for_indices(F&& f) {
  if constexpr (kBegin < kEnd) f(Index<kBegin>{}), for_indices<kBegin + 1, kEnd>(f);
}

// One of two types.
template <bool kFirst, class First, class Second>
struct EitherOf {
  using Type = First;
};
template <class First, class Second>
struct EitherOf<false, First, Second> {
  using Type = Second;
};
template <bool kFirst, class First, class Second>
using Either = typename EitherOf<kFirst, First, Second>::Type;

// For members that a type may leave out: a specialisation for types that have `value`, or the type T.
template <auto value>
struct Said {
  using Type = void;
};
template <class T>
struct Named {
  using Type = void;
};

}  // namespace unisono
