// Parameters of product/sm90_filter_gradient.cuh: plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

// The gradient of a convolution's filter, as in filter_gradient_params.cuh. Its tiles are of filters by slabs, which
// are a tap's next 64 channels. The first `whole` tiles are summed by a CTA each, of the others each of the `parts` is.
struct Sm90FilterGradientParams {
  TensorMap image, gradient;             // x and g
  float* partials;                       // (tiles after the whole ones, parts, filters of a tile, slabs of a tile, 64)
  void* result;                          // (groups, filters, taps, channels)
  i64 result_filter, result_tap;         // elements
  int filters, channels;                 // of a group
  int slabs, channel_slabs;              // of a group; of a tap
  int filter_tiles, column_tiles;        // of a group
  int tiles, whole, parts, units;        // units: what CTAs do one after another
  int steps, part_steps;                 // of 64 pixels of g; of all, of a part
  int across, down;                      // 8x8 tiles of an image, or its pixels
  int stride_h, stride_w, pad_h, pad_w;  // of the convolution, as its dilation
  int dilation_h, dilation_w, taps_w;
  int teams;  // threads that add the parts of the same sums
};

}  // namespace unisono
