// What the tuner checks plans with: operands of random numbers, and accumulators in float64 by plain loops, a thread
// each.
#pragma once
#include "unisono/params/check_params.cuh"
#include "unisono/ptx/arithmetic.cuh"
#include "unisono/ptx/grid.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::check {

// In (-1, 1), by splitmix64
UNISONO_DEVICE float uniform(u64 seed, u64 index) {
  u64 z = seed * 0x9e3779b97f4a7c15ull + index * 0xd1342543de82ef95ull + 0x632be59bd9b4e019ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return float((long long)(z) >> 39) * (1.f / 16777216.f);
}

UNISONO_DEVICE void fill(const FillParams& p) {
  for (u64 i = first_index(); i < p.count; i += index_step()) {
    const float x = p.offset + p.scale * uniform(p.seed, i);
    switch (p.type) {
      case ElementCode::f32: static_cast<float*>(p.to)[i] = x; break;
      case ElementCode::bf16: static_cast<u16*>(p.to)[i] = u16(Bf16::pack(x, 0.f)); break;
      case ElementCode::f16: static_cast<u16*>(p.to)[i] = u16(F16::pack(x, 0.f)); break;
      default: static_cast<u16*>(p.to)[i] = 0xffff;
    }
  }
}

UNISONO_DEVICE double element(const void* memory, u64 i, ElementCode type) {
  if (type == ElementCode::f32) return static_cast<const float*>(memory)[i];
  const u16 bits = static_cast<const u16*>(memory)[i];
  return type == ElementCode::f16 ? F16::unpack(bits).x : Bf16::unpack(bits).x;
}

struct Sum {
  double total = 0, size = 0;
  UNISONO_DEVICE void add(double x, double y) { total += x * y, size += x * y < 0 ? -(x * y) : x * y; }
};

UNISONO_DEVICE Sum product_at(const SumsParams& p, u64 image, int row, int column) {
  Sum sum;
  for (int i = 0; i < p.channels; ++i) {
    const u64 at_a =
        p.columns_a ? (image * p.channels + i) * p.out_height + row : (image * p.out_height + row) * p.channels + i;
    const u64 at_b =
        p.columns_b ? (image * p.channels + i) * p.outputs + column : (image * p.outputs + column) * p.channels + i;
    sum.add(element(p.a, at_a, p.type), element(p.b, at_b, p.type));
  }
  return sum;
}

// The input's line (or column) that a tap meets; false if there is none.
UNISONO_DEVICE bool meets(int out, int tap, int extent, int stride, int pad, int dilation, int transposed, int& in) {
  in = transposed ? out + pad - tap * dilation : out * stride - pad + tap * dilation;
  if (transposed) {
    if (in < 0 || in % stride != 0) return false;
    in /= stride;
  }
  return in >= 0 && in < extent;
}

UNISONO_DEVICE Sum convolution_at(const SumsParams& p, u64 image, int line, int column, int k) {
  const int channels = p.channels / p.groups, filters = p.outputs / p.groups, group = k / filters;
  const int plane = line / p.plane_height, plane_line = line - plane * p.plane_height;
  Sum sum;
  for (int t = 0; t < p.taps_d; ++t)
    for (int r = 0; r < p.taps_h; ++r)
      for (int s = 0; s < p.taps_w; ++s) {
        int d, i, j;
        if (!meets(plane, t, p.depth, p.stride_d, p.pad_d, p.dilation_d, false, d)) continue;
        if (!meets(plane_line, r, p.height, p.stride_h, p.pad_h, p.dilation_h, p.transposed, i)) continue;
        if (!meets(column, s, p.width, p.stride_w, p.pad_w, p.dilation_w, p.transposed, j)) continue;
        for (int c = 0; c < channels; ++c) {
          const u64 from = u64(group) * channels + c;
          const u64 at_x = p.planes ? ((image * p.channels + from) * p.height + i) * p.width + j
                                    : (((image * p.depth + d) * p.height + i) * p.width + j) * p.channels + from;
          const u64 outer = p.transposed ? from : u64(k), inner = p.transposed ? u64(k % filters) : u64(c);
          const u64 width = p.transposed ? filters : channels;
          const u64 at_w = p.planes ? ((outer * width + inner) * p.taps_h + r) * p.taps_w + s
                                    : (((outer * p.taps_d + t) * p.taps_h + r) * p.taps_w + s) * width + inner;
          sum.add(element(p.a, at_x, p.type), element(p.b, at_w, p.type));
        }
      }
  return sum;
}

UNISONO_DEVICE void sums(const SumsParams& p) {
  const u64 pixels = u64(p.out_height) * p.out_width;
  for (u64 i = first_index(); i < p.rows * p.outputs; i += index_step()) {
    const u64 row = p.first_row + i / p.outputs, pixel = row % pixels;
    const int k = int(i % p.outputs);
    const Sum sum = p.product ? product_at(p, row / pixels, int(pixel), k)
                              : convolution_at(p, row / pixels, int(pixel / p.out_width), int(pixel % p.out_width), k);
    p.sum[i] = sum.total, p.absolute[i] = sum.size;
  }
}

}  // namespace unisono::check
