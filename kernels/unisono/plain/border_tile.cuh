// The border of the network, turned round in shared memory: any order of memory and any float type outside.
#pragma once
#include "unisono/plain/octet.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

UNISONO_DEVICE float load_caller(const CallerTensor& t, i64 offset) {
  if (t.type == ElementCode::f32) return __ldg(static_cast<const float*>(t.memory) + offset);
  const u16 bits = __ldg(static_cast<const u16*>(t.memory) + offset);
  return t.type == ElementCode::bf16 ? Bf16::unpack(bits).x : F16::unpack(bits).x;
}
UNISONO_DEVICE void store_caller(const CallerTensor& t, i64 offset, float x) {
  if (t.type == ElementCode::f32)
    static_cast<float*>(t.memory)[offset] = x;
  else
    static_cast<u16*>(t.memory)[offset] = u16(t.type == ElementCode::bf16 ? Bf16::pack(x, 0.f) : F16::pack(x, 0.f));
}

// The offset of what is padding outside. Strides may be negative, and so may any other offset.
constexpr i64 kNowhere = i64(u64(1) << 63);

// Where channel `channel` of the network's tensor lies outside: columns to the right, and elements from the pixel
// there.
struct BorderChannel {
  i64 offset;
  int column;
  UNISONO_DEVICE BorderChannel(const BorderParams& p, const CallerTensor& t, u32 channel) {
    const u32 tap = p.taps == 1 ? 0 : channel / p.channels;
    offset = i64(channel - tap * p.channels) * t.strides[3], column = int(tap) * p.dilation - p.pad;
  }
};
struct BorderPixel {
  i64 offset;  // of its line outside
  int column;  // there, of the first tap without padding
  UNISONO_DEVICE BorderPixel(const BorderParams& p, const CallerTensor& t, u32 row) {
    const u32 line = row / p.width, image = line / p.height;
    offset = image * t.strides[0] + (line - image * p.height) * t.strides[1],
    column = int(row - line * p.width) * p.stride;
  }
};

// A CTA's part of the border at a time: that many channels of that many pixels, turned round in shared memory. Outside,
// neighbouring threads have what lies together there, pixels or channels; in the arena, octets of a pixel and then
// pixels.
constexpr u32 kBorderThreads = 256, kBorderElements = 4096;
struct BorderTile {
  float* elements;  // [channel][pixel], a channel pixels + 1 apart
  u32 channels_shift, pixels_shift;
  UNISONO_DEVICE u32 channels() const { return 1u << channels_shift; }
  UNISONO_DEVICE u32 pixels() const { return 1u << pixels_shift; }
  UNISONO_DEVICE float& at(u32 channel, u32 pixel) const { return elements[channel * (pixels() + 1) + pixel]; }
};

UNISONO_DEVICE Octet load_caller_octet(const CallerTensor& t, i64 offset) {
  const PlainTensor at{static_cast<const char*>(t.memory) + offset * (t.type == ElementCode::f32 ? 4 : 2), 0};
  if (t.type == ElementCode::f32) return load_octet<float>(at, 0, 0);
  return t.type == ElementCode::bf16 ? load_octet<Bf16>(at, 0, 0) : load_octet<F16>(at, 0, 0);
}
UNISONO_DEVICE void store_caller_octet(const CallerTensor& t, i64 offset, const Octet& x) {
  const PlainTensor at{static_cast<const char*>(t.memory) + offset * (t.type == ElementCode::f32 ? 4 : 2), 0};
  if (t.type == ElementCode::bf16) return store_octet<Bf16>(at, 0, 0, x);
  if (t.type == ElementCode::f16) return store_octet<F16>(at, 0, 0, x);
  float4* const to = static_cast<float4*>(const_cast<void*>(at.memory));
  to[0] = {x.of[0], x.of[1], x.of[2], x.of[3]}, to[1] = {x.of[4], x.of[5], x.of[6], x.of[7]};
}

// Whether all elements lie together outside, channels first and then pixels, from an address that octets are read and
// written at.
UNISONO_DEVICE bool is_packed(const BorderParams& p, const CallerTensor& t) {
  const i64 line = i64(p.columns) * p.channels;
  return p.taps == 1 && t.strides[3] == 1 && t.strides[2] == p.channels && t.strides[1] == line &&
         t.strides[0] == line * p.height && reinterpret_cast<size_t>(t.memory) % 32 == 0;
}

// Shared memory of a CTA: a tile's elements.
constexpr u32 kBorderFloats = kBorderElements + 64;

// Calls outside(offset or kNowhere, element) for each element of a tile, and inside(row, first channel, pixel, channel
// in the tile, tile) for each octet of the arena. Entering: outside first.
template <bool kEnter, class Outside, class Inside>
UNISONO_DEVICE void transpose_border(const BorderParams& p, const CallerTensor& t, float* elements,
                                     const Outside& outside, const Inside& inside) {
  __shared__ i64 lines[kBorderElements / 8], offsets[64];
  __shared__ int columns[kBorderElements / 8], shifts[64];
  const u32 all = p.channels * p.taps;
  BorderTile tile{elements, 3, 9};
  while (tile.channels_shift < 6 && tile.channels() < all) ++tile.channels_shift, --tile.pixels_shift;
  const u32 rows = p.images * p.height * p.width, across = (all - 1) / tile.channels() + 1;
  const u32 tiles = ((rows - 1) / tile.pixels() + 1) * across;
  const bool by_channel = t.strides[3] == 1;
  for (u32 i = blockIdx.x; i < tiles; i += gridDim.x) {
    const u32 row = i / across * tile.pixels(), channel = i % across * tile.channels();
    const u32 pixels = rows - row < tile.pixels() ? rows - row : tile.pixels();
    const u32 channels = all - channel < tile.channels() ? all - channel : tile.channels();
    for (u32 j = threadIdx.x; j < pixels; j += kBorderThreads) {
      const BorderPixel pixel(p, t, row + j);
      lines[j] = pixel.offset, columns[j] = pixel.column;
    }
    if (threadIdx.x < channels) {
      const BorderChannel c(p, t, channel + threadIdx.x);
      offsets[threadIdx.x] = c.offset, shifts[threadIdx.x] = c.column;
    }
    __syncthreads();
    auto without = [&] {
#pragma unroll 4
      for (u32 j = threadIdx.x; j < kBorderElements; j += kBorderThreads) {
        const u32 x = by_channel ? j >> tile.channels_shift : j & (tile.pixels() - 1);
        const u32 c = by_channel ? j & (tile.channels() - 1) : j >> tile.pixels_shift;
        if (x >= pixels || c >= channels) continue;
        const int w = columns[x] + shifts[c];
        outside(u32(w) < p.columns ? lines[x] + w * t.strides[2] + offsets[c] : kNowhere, tile.at(c, x));
      }
    };
    auto within = [&] {
#pragma unroll 2
      for (u32 j = threadIdx.x; j < kBorderElements / 8; j += kBorderThreads) {
        const u32 x = j >> (tile.channels_shift - 3), c = 8 * (j & (tile.channels() / 8 - 1));
        if (x < pixels && c < channels) inside(row + x, channel, x, c, tile);
      }
    };
    if (kEnter)
      without();
    else
      within();
    __syncthreads();
    if (kEnter)
      within();
    else
      without();
    __syncthreads();
  }
}

}  // namespace unisono::plain
