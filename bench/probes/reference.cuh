// References in float64, one thread an output value or group: slow, independent of the kernels, obviously right.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "probe.h"

__device__ inline double widen(uint16_t bits, Type type) {
  return type == Type::kBf16 ? double(__bfloat162float(__ushort_as_bfloat16(bits)))
                             : double(__half2float(__ushort_as_half(bits)));
}
__device__ inline uint16_t narrow(float value, Type type) {
  return type == Type::kBf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                             : __half_as_ushort(__float2half_rn(value));
}

__device__ inline float uniform(uint64_t seed, uint64_t index) {  // (-1, 1), splitmix64
  uint64_t z = seed * 0x9e3779b97f4a7c15ull + index * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return float(int64_t(z) >> 39) * (1.f / 16777216.f);
}
__global__ void fill16(uint16_t* out, size_t count, float scale, float offset, uint64_t seed, Type type) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    out[i] = narrow(offset + scale * uniform(seed, i), type);
}
__global__ void fill32(float* out, size_t count, float scale, float offset, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    out[i] = offset + scale * uniform(seed, i);
}

// out (pixels, k) = conv + bias, in double; a thread computes eight channels of one pixel.
__global__ void reference_conv(ConvShape p, Operands o, double* out, bool bias, Type type) {
  const size_t item = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const int parts = p.k / 8;
  if (item >= size_t(p.n) * p.p() * p.q() * parts) return;
  const int k0 = int(item % parts) * 8;
  const size_t pixel = item / parts;
  const int q = int(pixel % p.q()), pp = int(pixel / p.q() % p.p()), n = int(pixel / p.q() / p.p());
  double sum[8] = {};
  for (int r = 0; r < p.r; ++r)
    for (int s = 0; s < p.s; ++s) {
      const int h = pp * p.stride - p.pad + r * p.dilation, w = q * p.stride - p.pad + s * p.dilation;
      if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
      const uint16_t* x = o.x + ((size_t(n) * p.h + h) * p.w + w) * p.c;
      for (int c = 0; c < p.c; ++c) {
        const double a = widen(x[c], type);
        for (int i = 0; i < 8; ++i) sum[i] += a * widen(o.w[((size_t(k0 + i) * p.r + r) * p.s + s) * p.c + c], type);
      }
    }
  for (int i = 0; i < 8; ++i) out[pixel * p.k + k0 + i] = sum[i] + (bias ? double(o.bias[k0 + i]) : 0.0);
}

// stats (n, groups) = mean and 1/sqrt(variance + eps); a CTA computes one group.
__global__ void reference_stats(ConvShape p, const double* conv, double2* stats) {
  __shared__ double shared[256];
  const int width = p.k / p.groups, image = blockIdx.x / p.groups, group = blockIdx.x % p.groups;
  const size_t pixels = size_t(p.p()) * p.q(), count = pixels * width;
  const double* base = conv + size_t(image) * pixels * p.k + group * width;
  auto total = [&](auto f) {
    double sum = 0;
    for (size_t i = threadIdx.x; i < count; i += 256) sum += f(base[i / width * p.k + i % width]);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
      __syncthreads();
    }
    sum = shared[0];
    __syncthreads();
    return sum;
  };
  const double mean = total([](double v) { return v; }) / count;
  const double variance = total([mean](double v) { return (v - mean) * (v - mean); }) / count;
  if (threadIdx.x == 0) stats[blockIdx.x] = {mean, 1.0 / sqrt(variance + 1e-5)};
}

struct Comparison {
  unsigned long long wrong, poisoned;
  float worst;  // error over tolerance
  float largest_error;
};

// Tolerance: half a step of the output type (u |y|), the activation's bound (2^-12 |v|), the float32 accumulation
// (1e-4 of unit-variance values), float32 values of a large mean, and in streamed mode half a step of the stored
// centred value.
__global__ void compare(ConvShape p, Operands o, const double* conv, const double2* stats, Work work, Type type,
                        bool streamed, double offset, Comparison* result) {
  const double u = type == Type::kBf16 ? 1.0 / 256 : 1.0 / 2048;  // half a step, relative
  const size_t pixels = size_t(p.p()) * p.q();
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < p.output(); i += size_t(gridDim.x) * blockDim.x) {
    const int k = int(i % p.k), image = int(i / p.k / pixels);
    double v = conv[i], stored = 0, rounding = 0;
    if (work == Work::kBlock || work == Work::kBlockResidual) {
      const double2 s = stats[image * p.groups + k / (p.k / p.groups)];
      const double deviation = (v - s.x) * s.y * o.gamma[k];
      stored = fabs(deviation) + 1.5 * s.y * fabs(o.gamma[k]);  // centred by the channel's mean instead of the group's
      v = deviation + o.beta[k];
      rounding = offset * 1.8e-7 * s.y * fabs(o.gamma[k]);  // of the float32 value, its sums and its mean
    }
    double y = work == Work::kBare || work == Work::kBias ? v : v / (1.0 + exp(-v));
    const bool act = y != v;
    if (work == Work::kBlockResidual) y += widen(o.residual[i], type);
    const double tolerance =
        u * 1.02 * fabs(y) + (act ? fabs(v) / 4000 : 0.0) + 1e-4 + (streamed ? 1.1 * u * stored : 0.0) + 1.1 * rounding;
    const double got = widen(o.y[i], type);
    const double error = fabs(got - y);
    if (o.y[i] == 0xffff) atomicAdd(&result->poisoned, 1ull);
    if (!(error <= tolerance)) atomicAdd(&result->wrong, 1ull);
    atomicMax(reinterpret_cast<int*>(&result->worst), __float_as_int(float(fmin(error / tolerance, 1e30))));
    atomicMax(reinterpret_cast<int*>(&result->largest_error), __float_as_int(float(fmin(error, 1e30))));
  }
}

__global__ void count_differences(const uint16_t* a, const uint16_t* b, size_t count, unsigned long long* result) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    if (a[i] != b[i]) atomicAdd(result, 1ull);
}
