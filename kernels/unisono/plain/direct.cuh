// Contractions that the kernels of the tensor cores do not serve, one output a thread, or a few threads with every so
// many of its channels each.
#pragma once
#include "unisono/plain/octet.cuh"
#include "unisono/ptx/grid.cuh"

namespace unisono::plain {

// The input line that tap r of output line y reads; below 0 if none, as far as it is not beyond the image's end.
UNISONO_DEVICE int source_line(const DirectParams& p, int y, int r, int stride, int pad, int dilation) {
  if (!p.transposed) return y * stride - pad + r * dilation;
  const int line = y + pad - r * dilation;
  return line >= 0 && line % stride == 0 ? line / stride : -1;
}

template <class Element>
UNISONO_DEVICE void direct(const DirectParams& p) {
  const u64 count = u64(p.images) * p.out_height * p.out_width * p.outputs;
  const u32 lane = threadIdx.x % p.lanes;
  for (u64 thread = first_index(); thread < (count * p.lanes + 31) / 32 * 32; thread += index_step()) {
    const u64 i = thread / p.lanes;
    const Pixel at(i < count ? i : 0, p.outputs, p.out_width, p.out_height);
    const u32 output = at.octet;  // one channel here
    const u16* from = static_cast<const u16*>(p.from) + output / p.group_outputs * p.group_channels * p.from_channel;
    const u16* filter = static_cast<const u16*>(p.filter) + output * p.filter_output;
    float sum = 0.f;
    for (int r = 0; r < p.taps_h; ++r) {
      const int h = source_line(p, int(at.h), r, p.stride_h, p.pad_h, p.dilation_h);
      if (h < 0 || h >= int(p.height)) continue;
      for (int s = 0; s < p.taps_w; ++s) {
        const int w = source_line(p, int(at.w), s, p.stride_w, p.pad_w, p.dilation_w);
        if (w < 0 || w >= int(p.width)) continue;
        const u16* pixel = from + ((i64(at.n) * p.height + h) * p.width + w) * p.from_pixel;
        const u16* tap = filter + (r * p.taps_w + s) * p.filter_tap;
        for (u32 c = lane; c < p.group_channels; c += p.lanes)
          sum = fmaf(Element::unpack(__ldg(pixel + c * p.from_channel)).x,
                     Element::unpack(__ldg(tap + c * p.filter_channel)).x, sum);
      }
    }
    for (u32 apart = p.lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, int(apart));
    if (i < count && lane == 0)
      static_cast<float*>(const_cast<void*>(p.to.memory))[at.row(p.out_width, p.out_height) * p.to.pitch + output] =
          sum;
  }
}

}  // namespace unisono::plain
