// Activations for 16-bit outputs: few instructions, one or two special-function operations, and a stated bound.
// The hardware's relative errors (PTX ISA): tanh.approx 2^-11, ex2.approx and rcp.approx 2^-22 or better, so
// every form below is exact to float32 rounding apart from the terms named. u(y) = 2^-9 |y| is half a bf16 step.
#pragma once
#include "types.cuh"

namespace coda::math {

CODA_DEVICE float tanh_approx(float x) {  // |error| <= 2^-11 |tanh x|
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
CODA_DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
CODA_DEVICE float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

CODA_DEVICE float relu(float x) { return fmaxf(x, 0.f); }
CODA_DEVICE float leaky_relu(float x, float slope) { return x > 0.f ? x : x * slope; }
CODA_DEVICE float hard_sigmoid(float x) { return __saturatef(fmaf(x, 1.f / 6.f, 0.5f)); }
CODA_DEVICE float hard_swish(float x) { return x * hard_sigmoid(x); }

// sigmoid x = (1 + tanh(x/2)) / 2: |error| <= 2^-12. Two arithmetic instructions, one special.
CODA_DEVICE float sigmoid(float x) { return fmaf(tanh_approx(0.5f * x), 0.5f, 0.5f); }
// Relative error below 2^-20 for x > -87. Two special operations.
CODA_DEVICE float sigmoid_accurate(float x) {
    return reciprocal_approx(1.f + exp2_approx(-1.4426950408889634f * x));
}

// silu x = x sigmoid x: |error| <= 2^-12 |x|, an absolute bound that shrinks with x but not with silu x for x << 0.
CODA_DEVICE float silu(float x) {
    const float half = 0.5f * x;
    return fmaf(half, tanh_approx(half), half);
}
CODA_DEVICE float silu_accurate(float x) { return x * sigmoid_accurate(x); }

// gelu by tanh: |error| <= 2^-12 |x|; six arithmetic instructions, one special.
CODA_DEVICE float gelu_tanh(float x) {
    const float half = 0.5f * x;
    const float inner = x * fmaf(x * x, 0.7978845608028654f * 0.044715f, 0.7978845608028654f);
    return fmaf(half, tanh_approx(inner), half);
}

// mish x = x tanh(softplus x) = x n / (n + 2), n = e^2 + 2e, e = exp x: sums of positive terms only, so the relative
// error stays below 2^-20. x is capped at 40 inside the exponential, where the fraction is 1 in float32. Two special operations.
CODA_DEVICE float mish(float x) {
    const float e = exp2_approx(1.4426950408889634f * fminf(x, 40.f));
    const float n = fmaf(e, e, 2.f * e);
    return x * n * reciprocal_approx(n + 2.f);
}

// softplus x = max(x, 0) + log1p(exp(-|x|)); |error| <= 2^-21.
CODA_DEVICE float softplus(float x) {
    float l;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(l) : "f"(1.f + exp2_approx(-1.4426950408889634f * fabsf(x))));
    return fmaf(l, 0.6931471805599453f, fmaxf(x, 0.f));
}

}  // namespace coda::math
