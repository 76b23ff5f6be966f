// Images of few channels on their way into a network, the filter taps of an image row as channels or not, by whole
// image rows: a CTA has some rows of all channels in shared memory, 16 bits an element, with the padding next to them.
// Warps read along the rows, and write octets of neighbouring pixels.
#pragma once
#include "unisono/plain/border_tile.cuh"

namespace unisono::plain {

struct BorderRows {
  static constexpr u32 kElements = 2 * kBorderElements, kMostRows = 4, kMostChannels = 64;
  static constexpr u32 kShortest = 32;  // pixels, with a lane each
  const BorderParams& p;
  const CallerTensor& t;
  const u32 all, length;  // channels of the network's tensor; columns of a row outside, and the padding

  UNISONO_DEVICE BorderRows(const BorderParams& p, const CallerTensor& t)
      : p(p), t(t), all(p.channels * p.taps), length((p.width - 1) * p.stride + (p.taps - 1) * p.dilation + 1) {}
  UNISONO_DEVICE bool serve() const {
    return all <= kMostChannels && p.columns >= kShortest && u64(p.channels) * length <= kElements;
  }

  template <class Element>
  UNISONO_DEVICE void enter(u16* elements) const {
    __shared__ u32 places[kMostChannels];  // of a channel of the network's tensor, from where its pixel begins
    if (threadIdx.x < all) {
      const u32 tap = threadIdx.x / p.channels;
      places[threadIdx.x] = (threadIdx.x - tap * p.channels) * length + tap * p.dilation;
    }
    const u32 rows = p.images * p.height, fit = kElements / (p.channels * length),
              together = fit < kMostRows ? fit : kMostRows;
    for (u64 first = u64(blockIdx.x) * together; first < rows; first += u64(gridDim.x) * together) {
      const u32 here = rows - u32(first) < together ? rows - u32(first) : together;
      __syncthreads();  // the table is written, and the rows before are read
      for (u32 i = threadIdx.x / 32; i < here * p.channels; i += kBorderThreads / 32)
        read_row<Element>(u32(first) + i / p.channels, i % p.channels, elements + i * length);
      __syncthreads();
      write_rows<Element>(u32(first), here, elements, places);
    }
  }

 private:
  // One channel of an image row, by a warp.
  template <class Element>
  UNISONO_DEVICE void read_row(u32 row, u32 channel, u16* to) const {
    const u32 image = row / p.height;
    const i64 from = image * t.strides[0] + i64(row - image * p.height) * t.strides[1] + channel * t.strides[3];
#pragma unroll 4
    for (u32 x = threadIdx.x % 32; x < length; x += 32) {
      const int w = int(x) - p.pad;
      to[x] = u16(Element::pack(u32(w) < p.columns ? load_caller(t, from + w * t.strides[2]) : 0.f, 0.f));
    }
  }
  // Channels beyond the last are written as zero.
  template <class Element>
  UNISONO_DEVICE void write_rows(u32 first, u32 here, const u16* elements, const u32* places) const {
    const u32 octets = (all - 1) / 8 + 1, pixels = here * p.width;
#pragma unroll 2
    for (u32 i = threadIdx.x; i < pixels * octets; i += kBorderThreads) {
      const u32 pixel = i / octets, channel = 8 * (i - pixel * octets), row = pixel / p.width;
      const u16* at = elements + row * p.channels * length + (pixel - row * p.width) * p.stride;
      u32 words[4];
#pragma unroll
      for (u32 w = 0; w < 4; ++w) {
        const u32 one = channel + 2 * w, two = one + 1;
        words[w] = (one < all ? at[places[one]] : 0u) | (two < all ? u32(at[places[two]]) << 16 : 0u);
      }
      u16* const to = static_cast<u16*>(const_cast<void*>(p.arena.memory)) +
                      (u64(first) * p.width + pixel) * p.arena.pitch + channel;
      *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    }
  }
};

}  // namespace unisono::plain
