// Contractions that the kernels of the tensor cores do not serve, one output a thread.
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
  for (u64 i = first_index(); i < count; i += index_step()) {
    const Pixel at(i, p.outputs, p.out_width, p.out_height);
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
        for (u32 c = 0; c < p.group_channels; ++c)
          sum = fmaf(Element::unpack(__ldg(pixel + c * p.from_channel)).x,
                     Element::unpack(__ldg(tap + c * p.filter_channel)).x, sum);
      }
    }
    static_cast<float*>(const_cast<void*>(p.to.memory))[at.row(p.out_width, p.out_height) * p.to.pitch + output] = sum;
  }
}

}  // namespace unisono::plain
