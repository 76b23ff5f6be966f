// Elementwise functions of visitors, in two forms. math:: is for 16-bit outputs: few instructions, one or two
// special-function operations, and the stated bound on what a function adds to the rounding of its input, from the
// errors of the hardware's approximations (ptx/arithmetic.cuh). math::accurate:: has each within some units in the last
// place of float32. What is in both without an approximation is in math:: alone. NaN gives NaN throughout. The same
// bounds as numbers: src/codegen/bounds.hpp.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono::math {

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// --- exact -----------------------------------------------------------------------------------------------

UNISONO_DEVICE float max(float x, float y) { return max_nan(x, y); }
UNISONO_DEVICE float min(float x, float y) { return min_nan(x, y); }
UNISONO_DEVICE float clamp(float x, float lower, float upper) { return min(max(x, lower), upper); }
UNISONO_DEVICE float abs(float x) { return fabsf(x); }
UNISONO_DEVICE float fma(float x, float y, float z) { return fmaf(x, y, z); }
UNISONO_DEVICE float square(float x) { return x * x; }
UNISONO_DEVICE float relu(float x) { return max(x, 0.f); }
UNISONO_DEVICE float relu6(float x) { return clamp(x, 0.f, 6.f); }
UNISONO_DEVICE float leaky_relu(float x, float slope) { return x > 0.f ? x : slope * x; }
UNISONO_DEVICE float leaky_relu_below_1(float x, float slope) { return max(x, slope * x); }  // 0 < slope <= 1
UNISONO_DEVICE float hardsigmoid(float x, float alpha, float beta) { return clamp(fmaf(x, alpha, beta), 0.f, 1.f); }
UNISONO_DEVICE float hardswish(float x) { return x * __saturatef(fmaf(x, 1.f / 6.f, 0.5f)); }  // NaN by the product

// i32 wraps
UNISONO_DEVICE int add(int x, int y) { return int(u32(x) + u32(y)); }
UNISONO_DEVICE int sub(int x, int y) { return int(u32(x) - u32(y)); }
UNISONO_DEVICE int mul(int x, int y) { return int(u32(x) * u32(y)); }
UNISONO_DEVICE int fma(int x, int y, int z) { return add(mul(x, y), z); }
UNISONO_DEVICE int square(int x) { return mul(x, x); }
UNISONO_DEVICE int neg(int x) { return sub(0, x); }
UNISONO_DEVICE int abs(int x) { return x < 0 ? neg(x) : x; }
UNISONO_DEVICE int max(int x, int y) { return x > y ? x : y; }
UNISONO_DEVICE int min(int x, int y) { return x < y ? x : y; }
UNISONO_DEVICE int relu(int x) { return max(x, 0); }

// Casts. To i32: toward zero, saturating, 0 for NaN.
UNISONO_DEVICE int to_i32(float x) { return __float2int_rz(x); }
UNISONO_DEVICE float round_bf16(float x) { return Bf16::unpack(Bf16::pack(x, 0.f)).x; }
UNISONO_DEVICE float round_f16(float x) { return F16::unpack(F16::pack(x, 0.f)).x; }
UNISONO_DEVICE float round_tf32(float x) { return __uint_as_float(round_to_tf32(x) & 0xffffe000u); }

// --- for 16-bit outputs ----------------------------------------------------------------------------------

UNISONO_DEVICE float reciprocal(float x) { return reciprocal_approx(x); }        // relative 2^-23, |x| <= 2^126
UNISONO_DEVICE float div(float x, float y) { return x * reciprocal_approx(y); }  // relative 2^-22, |y| <= 2^126
UNISONO_DEVICE float sqrt(float x) { return sqrt_approx(x); }                    // relative 2^-23
UNISONO_DEVICE float rsqrt(float x) { return rsqrt_approx(x); }                  // relative 2^-22
// The argument's rounding, |x| 2^-24, is a relative error of the result: 2^-17 in all as far as exp is finite and
// normal.
UNISONO_DEVICE float exp(float x) { return exp2_approx(kLog2E * x); }
UNISONO_DEVICE float log(float x) { return kLn2 * log2_approx(x); }  // absolute 2^-22 + relative 2^-21
UNISONO_DEVICE float tanh(float x) { return tanh_approx(x); }        // relative 2^-11

// To [-pi, pi] in two steps, the first exact, then sin.approx: absolute 2^-20 for |x| <= 2^20.
UNISONO_DEVICE float reduced_angle(float x) {
  const float turns = rintf(0.15915494309189535f * x);
  return fmaf(turns, 1.7484556e-7f, fmaf(turns, -6.2831855f, x));
}
UNISONO_DEVICE float sin(float x) { return __sinf(reduced_angle(x)); }
UNISONO_DEVICE float cos(float x) { return __cosf(reduced_angle(x)); }

// sigmoid x = (1 + tanh(x/2)) / 2: absolute 2^-12. Two arithmetic instructions, one special; from x/2 one less.
UNISONO_DEVICE float sigmoid_of_half(float half) { return fmaf(tanh_approx(half), 0.5f, 0.5f); }
UNISONO_DEVICE float sigmoid(float x) { return sigmoid_of_half(0.5f * x); }

// silu x = x sigmoid x: absolute 2^-12 |x|, which shrinks with x but not with silu x for x << 0.
UNISONO_DEVICE float silu_of_half(float half) { return fmaf(half, tanh_approx(half), half); }
UNISONO_DEVICE float silu(float x) { return silu_of_half(0.5f * x); }

// Absolute 2^-12 |x|; five arithmetic instructions, one special.
UNISONO_DEVICE float gelu_tanh(float x) {
  const float half = 0.5f * x;
  const float inner = x * fmaf(x * x, 0.7978845608028654f * 0.044715f, 0.7978845608028654f);
  return fmaf(half, tanh_approx(inner), half);
}

// q(x) of Phi(x) = (1 + tanh q(x)) / 2, the normal distribution: |Phi| is met within 2^-14, and beyond |x| = 6 tanh
// is 1. Fitted for the least maximum of |x| times the error; the cap keeps the polynomial growing.
UNISONO_DEVICE float normal_argument(float x) {
  const float z = fminf(x * x, 40.f);
  return x * fmaf(fmaf(z, -3.51516955e-4f, 3.70056471e-2f), z, 7.97507883e-1f);
}
// gelu x = x Phi(x): absolute 1.25 * 2^-12 |x|; seven arithmetic instructions, one special.
UNISONO_DEVICE float gelu(float x) {
  const float half = 0.5f * x;
  return fmaf(half, tanh_approx(normal_argument(x)), half);
}
UNISONO_DEVICE float erf(float x) { return tanh_approx(normal_argument(1.4142135623730951f * x)); }  // relative 2^-10

// mish x = x tanh(softplus x) = x - 2x / ((1 + exp x)^2 + 1): absolute 2^-21 |x|. Five arithmetic instructions, two
// special. An exponential that overflows leaves x.
UNISONO_DEVICE float mish(float x) {
  const float s = 1.f + exp2_approx(kLog2E * x);
  return fmaf(-2.f * reciprocal_approx(fmaf(s, s, 1.f)), x, x);
}

// log(1 + exp(-|x|)): absolute 2^-21
UNISONO_DEVICE float softplus_tail(float x) { return log2_approx(1.f + exp2_approx(-kLog2E * fabsf(x))); }
UNISONO_DEVICE float softplus(float x) { return fmaf(softplus_tail(x), kLn2, fmaxf(x, 0.f)); }
UNISONO_DEVICE float logsigmoid(float x) { return fmaf(softplus_tail(x), -kLn2, fminf(x, 0.f)); }
UNISONO_DEVICE float elu(float x, float alpha) {  // absolute 2^-21 |alpha|
  return x > 0.f ? x : fmaf(exp2_approx(kLog2E * x), alpha, -alpha);
}

// --- within some units in the last place -----------------------------------------------------------------

UNISONO_DEVICE float log1p(float x) { return log1pf(x); }
UNISONO_DEVICE float pow(float x, float y) { return powf(x, y); }

// n / d within a unit in the last place, for finite n and 1 <= d <= 2^64. An IEEE division branches to a slow form for
// other operands, and around a branch the assembler computes the elements of a thread one after the other: a second
// pass with a division an element took 130 clocks an element.
UNISONO_DEVICE float quotient(float n, float d) {
  const float r = reciprocal_approx(d), q = n * r;
  return fmaf(fmaf(-d, q, n), r, q);
}

namespace accurate {

// A divisor whose reciprocal would overflow, or be flushed, is scaled ahead, and the quotient likewise. The quotient is
// not corrected where its correction is a NaN (x or y infinite, y 0) or inexact (|x| near 0), and where x is -0, whose
// sign the correction would lose.
UNISONO_DEVICE float div(float x, float y) {
  const float size = fabsf(y), scale = size > 0x1p+96f ? 0x1p-96f : size < 0x1p-96f ? 0x1p+96f : 1.f;
  const float d = y * scale, r = reciprocal_approx(d), q = x * r;
  const float corrected = fmaf(fmaf(-d, q, x), r, q);
  return (fabsf(x) > 0x1p-100f && corrected == corrected ? corrected : q) * scale;
}
UNISONO_DEVICE float reciprocal(float x) { return div(1.f, x); }
UNISONO_DEVICE float sqrt(float x) { return sqrtf(x); }
UNISONO_DEVICE float rsqrt(float x) { return rsqrtf(x); }
UNISONO_DEVICE float exp(float x) { return expf(x); }
UNISONO_DEVICE float log(float x) { return logf(x); }
UNISONO_DEVICE float tanh(float x) { return tanhf(x); }
UNISONO_DEVICE float erf(float x) { return erff(x); }
UNISONO_DEVICE float sin(float x) { return sinf(x); }
UNISONO_DEVICE float cos(float x) { return cosf(x); }
UNISONO_DEVICE float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return quotient(x < 0.f ? e : 1.f, 1.f + e);
}
UNISONO_DEVICE float silu(float x) { return x * sigmoid(x); }
UNISONO_DEVICE float gelu(float x) { return 0.5f * x * (1.f + erff(0.70710678118654752f * x)); }
UNISONO_DEVICE float gelu_tanh(float x) {
  return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
UNISONO_DEVICE float mish(float x) {  // sums of positive terms only; beyond 20 the fraction is 1 in float32
  const float e = expf(fminf(x, 20.f)), n = e * (e + 2.f);
  return x * quotient(n, n + 2.f);
}
UNISONO_DEVICE float softplus(float x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }
UNISONO_DEVICE float logsigmoid(float x) { return fminf(x, 0.f) - log1pf(expf(-fabsf(x))); }
UNISONO_DEVICE float elu(float x, float alpha) { return x > 0.f ? x : alpha * expm1f(x); }

}  // namespace accurate

}  // namespace unisono::math
