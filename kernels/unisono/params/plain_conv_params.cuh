// The fixed part of the parameter of plain/conv.cuh. Plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/params.cuh"

namespace unisono {

// A contraction as rows (pixels of all images) x channels, each the sum over the taps and the channels of its group.
// Steps count elements, and are 0 along what an operand does not have.
struct PlainConvGeometry {
  int images, rows, channels;  // of the output: rows of an image; channels of all groups
  int width;                   // output pixels of an image row
  int range_rows;              // rows that tiles run through: of all images, or of one where each has its own filters
  int in_height, in_width;
  int depth;                                                     // taps x channels of a group
  int group_channels, group_outputs, groups;                     // input channels of a group, its output channels
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;  // pad: top and left
  int taps_h, taps_w;
  int tiles_m, tiles_n, tiles;  // of a range of rows; across a group, or all channels (Config::kDirect); in all
  i64 image_n, image_h, image_w, image_c;
  i64 filter_n, filter_group, filter_output, filter_tap, filter_channel;
  Divisor by_tiles_across, by_tiles_m, by_tiles_n, by_rows, by_width;  // across: tiles_n of all groups
  Divisor by_group_channels, by_group_outputs, by_taps_w, by_stride_h, by_stride_w;
};

// What the phases of a launch that normalises hand on: the values before the normalisation, rows x channels; mean and
// variance of each result; and the barrier between the phases.
struct PlainNormParams {
  float *values, *statistics;
  u32 *arrived, *phase;
  int group_channels, groups;  // per pixel: one group, of all channels
  int spans_images;            // mean and variance are of all images' rows
  u32 unused;
  Divisor by_group_channels;
};

struct PlainConvParams {
  const void *image, *filter;
  void *main, *side;
  i64 main_pitch;  // elements from row to row
  PlainConvGeometry geometry;
  PlainNormParams norm;
  const void* filter1;  // of a dual product's second; it lies as the first
};

}  // namespace unisono
