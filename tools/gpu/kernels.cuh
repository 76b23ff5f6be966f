// Kernels of the tests: references in float64, without any cleverness and without a line of kernels/unisono.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Shape {
  int n, h, w, c, k, r, s, p, q, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int type;  // element type: 0 bf16, 1 f16, 2 f32
};

__device__ float widen(u32 bits, int half) {
  if (!half) return __uint_as_float(bits << 16);
#ifdef UNISONO_EMULATED  // by tests/emulator
  return static_cast<float>(unisono_emulator::bits_as<_Float16>(u16(bits)));
#else
  float value;
  asm("{.reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "h"(u16(bits)));
  return value;
#endif
}
__device__ float element_at(const void* memory, u64 i, int type) {
  return type == 2 ? static_cast<const float*>(memory)[i] : widen(static_cast<const u16*>(memory)[i], type);
}
__device__ u16 narrow(float value, int half) {
#ifdef UNISONO_EMULATED
  return half ? unisono_emulator::bits_as<u16>(static_cast<_Float16>(value))
              : u16((__float_as_uint(value) + 0x7fff + (__float_as_uint(value) >> 16 & 1)) >> 16);
#else
  u16 bits;
  if (half)
    asm("{.reg .f16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h;}" : "=h"(bits) : "f"(value));
  else
    asm("{.reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b16 %0, h;}" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
__device__ float element(const uint4& words, int i, int half) {
  const u32 word = i < 2 ? words.x : i < 4 ? words.y : i < 6 ? words.z : words.w;
  return widen(i % 2 ? word >> 16 : word & 0xffff, half);
}

// sum and sum of absolute values (pixels, k) of the convolution; a thread computes eight channels of one pixel.
extern "C" __global__ void unisono_reference(Shape z, const u16* x, const u16* w, double* sum, double* absolute) {
  const u64 item = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  const int parts = z.k / 8;
  if (item >= u64(z.n) * z.p * z.q * parts) return;
  const int k0 = int(item % parts) * 8;
  const u64 pixel = item / parts;
  const int column = int(pixel % z.q), line = int(pixel / z.q % z.p), image = int(pixel / z.q / z.p);
  double total[8] = {}, size[8] = {};
  for (int r = 0; r < z.r; ++r)
    for (int s = 0; s < z.s; ++s) {
      const int i = line * z.stride_h - z.pad_h + r * z.dilation_h,
                j = column * z.stride_w - z.pad_w + s * z.dilation_w;
      if (i < 0 || i >= z.h || j < 0 || j >= z.w) continue;
      const uint4* at = reinterpret_cast<const uint4*>(x + ((u64(image) * z.h + i) * z.w + j) * z.c);
      for (int c = 0; c < z.c / 8; ++c) {
        const uint4 pixels = at[c];
        for (int k = 0; k < 8; ++k) {
          const uint4 weights = *reinterpret_cast<const uint4*>(w + ((u64(k0 + k) * z.r + r) * z.s + s) * z.c + 8 * c);
          for (int e = 0; e < 8; ++e) {
            const double product = double(element(pixels, e, z.type)) * double(element(weights, e, z.type));
            total[k] += product;
            size[k] += fabs(product);
          }
        }
      }
    }
  for (int k = 0; k < 8; ++k) sum[pixel * z.k + k0 + k] = total[k], absolute[pixel * z.k + k0 + k] = size[k];
}

// The same of products: a (batch, m, k) or (batch, k, m), b (batch, n, k) or (batch, k, n); a thread computes one
// element.
struct Product {
  int batch, m, n, k, transpose_a, transpose_b;
  int type;
};
extern "C" __global__ void unisono_reference_product(Product z, const void* a, const void* b, double* sum,
                                                     double* absolute) {
  const u64 item = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (item >= u64(z.batch) * z.m * z.n) return;
  const int column = int(item % z.n), row = int(item / z.n % z.m), image = int(item / z.n / z.m);
  double total = 0, size = 0;
  for (int i = 0; i < z.k; ++i) {
    const u64 at_a = z.transpose_a ? (u64(image) * z.k + i) * z.m + row : (u64(image) * z.m + row) * z.k + i;
    const u64 at_b = z.transpose_b ? (u64(image) * z.n + column) * z.k + i : (u64(image) * z.k + i) * z.n + column;
    const double product = double(element_at(a, at_a, z.type)) * double(element_at(b, at_b, z.type));
    total += product, size += fabs(product);
  }
  sum[item] = total, absolute[item] = size;
}

// The same of convolutions of any channels, groups and layout, and of transposed ones, as unisono/contraction.hpp
// defines them: a thread computes one element. `shape.c` and `shape.k` count all groups.
struct General {
  Shape shape;
  int groups, nchw, transposed;
};
extern "C" __global__ void unisono_reference_general(General g, const void* x, const void* w, double* sum,
                                                     double* absolute) {
  const Shape& z = g.shape;
  const u64 item = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (item >= u64(z.n) * z.p * z.q * z.k) return;
  const int k = int(item % z.k), channels = z.c / g.groups, filters = z.k / g.groups, group = k / filters;
  const u64 pixel = item / z.k;
  const int column = int(pixel % z.q), line = int(pixel / z.q % z.p), image = int(pixel / z.q / z.p);
  double total = 0, size = 0;
  for (int r = 0; r < z.r; ++r)
    for (int s = 0; s < z.s; ++s) {
      int i, j;
      if (g.transposed) {  // input (i, j) reaches output i * stride + r * dilation - pad
        const int down = line + z.pad_h - r * z.dilation_h, right = column + z.pad_w - s * z.dilation_w;
        if (down < 0 || right < 0 || down % z.stride_h || right % z.stride_w) continue;
        i = down / z.stride_h, j = right / z.stride_w;
      } else {
        i = line * z.stride_h - z.pad_h + r * z.dilation_h, j = column * z.stride_w - z.pad_w + s * z.dilation_w;
      }
      if (i < 0 || i >= z.h || j < 0 || j >= z.w) continue;
      for (int c = 0; c < channels; ++c) {
        const int from = group * channels + c;
        const u64 at_x =
            g.nchw ? ((u64(image) * z.c + from) * z.h + i) * z.w + j : ((u64(image) * z.h + i) * z.w + j) * z.c + from;
        u64 at_w;
        if (g.transposed)
          at_w = g.nchw ? ((u64(from) * filters + k % filters) * z.r + r) * z.s + s
                        : ((u64(from) * z.r + r) * z.s + s) * filters + k % filters;
        else
          at_w = g.nchw ? ((u64(k) * channels + c) * z.r + r) * z.s + s : ((u64(k) * z.r + r) * z.s + s) * channels + c;
        const double product = double(element_at(x, at_x, z.type)) * double(element_at(w, at_w, z.type));
        total += product, size += fabs(product);
      }
    }
  sum[item] = total, absolute[item] = size;
}

// statistics (n, groups): mean and 1/sqrt(variance + eps) of acc + bias; a CTA computes one group.
extern "C" __global__ void unisono_statistics(Shape z, int groups, double eps, const double* acc, const float* bias,
                                              double2* statistics) {
  __shared__ double shared[256];
  const int width = z.k / groups, image = blockIdx.x / groups, group = blockIdx.x % groups;
  const u64 count = u64(z.p) * z.q * width;
  const double* base = acc + u64(image) * z.p * z.q * z.k + group * width;
  double mean = 0, variance = 0;
  for (int pass = 0; pass < 2; ++pass) {
    double sum = 0;
    for (u64 i = threadIdx.x; i < count; i += 256) {
      const double v = base[i / width * z.k + i % width] + bias[group * width + i % width];
      sum += pass == 0 ? v : (v - mean) * (v - mean);
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
      __syncthreads();
    }
    (pass == 0 ? mean : variance) = shared[0] / double(count);
    __syncthreads();
  }
  if (threadIdx.x == 0) statistics[blockIdx.x] = {mean, 1.0 / sqrt(variance + eps)};
}

// range (n, k): largest minus smallest acc + bias of a channel's unit of channels in an image; a thread computes one.
extern "C" __global__ void unisono_range(Shape z, int unit, const double* acc, const float* bias, double* range) {
  const int item = blockIdx.x * blockDim.x + threadIdx.x;
  if (item >= z.n * z.k) return;
  const int first = item % z.k / unit * unit;
  const double* base = acc + u64(item / z.k) * z.p * z.q * z.k;
  double low = base[first] + bias[first], high = low;
  for (int i = 0; i < z.p * z.q; ++i)
    for (int k = first; k < first + unit; ++k) {
      const double v = base[u64(i) * z.k + k] + bias[k];
      low = fmin(low, v), high = fmax(high, v);
    }
  range[item] = high - low;
}

struct BlockCheck {
  int groups;
  double accumulate;                 // error of the accumulator, relative to the sum of absolute values
  double half_step;                  // half a step of the output type, relative
  double kept;                       // half a step of the type in which values wait for the statistics; 0: in float32
  double fast_slope, fast_constant;  // error of silu at v: |v| * slope + constant
};
struct Verdict {
  u64 wrong, poisoned;
  float worst;  // error over tolerance
  u32 worst_index;
};

// y = silu((acc + bias - mean) * rstd * gamma + beta) against float64 at every element.
extern "C" __global__ void unisono_check_block(Shape z, BlockCheck t, const double* acc, const double* absolute,
                                               const double2* statistics, const double* range, const float* bias,
                                               const float* gamma, const float* beta, const u16* y, Verdict* verdict) {
  const u64 pixels = u64(z.p) * z.q, count = pixels * z.n * z.k;
  const double u = 1.0 / 16777216;  // float32
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x) {
    const int k = int(i % z.k), image = int(i / z.k / pixels);
    const double2 s = statistics[image * t.groups + k / (z.k / t.groups)];
    const double v = acc[i] + bias[k], centred = v - s.x, scale = s.y * gamma[k];
    const double n = centred * scale + beta[k], expected = n / (1.0 + exp(-n));
    // The value's error; the mean's and the deviation's are averages of such; float32 at each step; what is kept
    const double value = t.accumulate * absolute[i] + 2 * u * (fabs(v) + fabs(s.x));
    const double before =
        fabs(scale) * (3 * value + t.kept * range[image * z.k + k]) + 8 * u * (fabs(centred * scale) + fabs(beta[k]));
    const double after = 1.1 * before + fabs(n) * t.fast_slope + t.fast_constant;  // silu is 1.1-Lipschitz
    const double tolerance = after + t.half_step * (fabs(expected) + after);
    const double error = fabs(double(widen(y[i], z.type)) - expected);
    if (y[i] == 0xffff) atomicAdd(&verdict->poisoned, 1ull);
    if (!(error <= tolerance)) {
      if (atomicAdd(&verdict->wrong, 1ull) == 0) verdict->worst_index = u32(i);
    }
    atomicMax(reinterpret_cast<int*>(&verdict->worst), __float_as_int(float(fmin(error / tolerance, 1e30))));
  }
}

__device__ float uniform(u64 seed, u64 index) {  // (-1, 1), splitmix64
  u64 z = seed * 0x9e3779b97f4a7c15ull + index * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return float((long long)(z) >> 39) * (1.f / 16777216.f);
}
extern "C" __global__ void unisono_fill16(u16* out, u64 count, float scale, float offset, u64 seed, int half) {
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
    out[i] = narrow(offset + scale * uniform(seed, i), half);
}
extern "C" __global__ void unisono_fill32(float* out, u64 count, float scale, float offset, u64 seed) {
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
    out[i] = offset + scale * uniform(seed, i);
}
__device__ float normal(u64 seed, u64 index) {  // deviation 1, by Box and Muller
  const float radius = 0.5f + 0.5f * uniform(seed, 2 * index), turn = uniform(seed, 2 * index + 1);
  return sqrtf(-2.f * logf(fmaxf(radius, 1e-7f))) * cosf(3.14159265f * turn);
}
extern "C" __global__ void unisono_normal16(u16* out, u64 count, float deviation, float mean, u64 seed, int half) {
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
    out[i] = narrow(mean + deviation * normal(seed, i), half);
}
extern "C" __global__ void unisono_normal32(float* out, u64 count, float deviation, float mean, u64 seed) {
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
    out[i] = mean + deviation * normal(seed, i);
}

// Counts words in which the two differ.
extern "C" __global__ void unisono_differences(const u32* a, const u32* b, u64 count, u64* result) {
  u64 mine = 0;
  for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
    mine += a[i] != b[i];
  if (mine) atomicAdd(result, mine);
}

// Keeps its CTAs' SMs at work for a while.
extern "C" __global__ void unisono_busy(long long clocks, float* out) {
  const long long start = clock64();
  float x = threadIdx.x;
  while (clock64() - start < clocks)
    for (int i = 0; i < 64; ++i) x = x * 1.0001f + 0.5f;
  if (x == 12345.f) out[0] = x;
}
