// Parameters of product/filter_gradient.cuh: plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/words.cuh"

namespace unisono {

// The gradient of a convolution's filter as products of two computed matrices, one a group of channels:
//
//   sums (filters, columns) = g (pixels, filters)^T * x (pixels, columns)
//
// A row is a filter of the group. A column is a tap and a channel; a tap has `tap_columns` columns, and the
// first `channels` of them exist. Pixels are those of all images of g, one after another; they are shared out in parts.
// Steps count elements.
struct FilterGradientParams {
  const void* x;   // (images, height, width, channels), neighbouring channels side by side
  const void* g;   // (pixels, filters)
  void* partials;  // f32: (parts, groups, filters, columns); with one part unused
  void* result;    // (groups, filters, taps, channels)
  i64 x_pixel, g_pixel;
  i64 result_filter, result_tap;
  int height, width;                                    // of x
  int out_height, out_width, pixels;                    // of g; in all its images
  int filters, columns, tap_columns, channels, taps_w;  // of a group
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int row_tiles, column_tiles, groups;
  int parts, part_pixels;
};

}  // namespace unisono
