// Parameters of the kernels of plain/plain.cuh and of those that are generated beside them. Plain structs, the same to
// the host's compiler.
#pragma once
#include "unisono/params/caller_tensor.cuh"
#include "unisono/params/params.cuh"

namespace unisono {

// A tensor (images, height, width, channels) as rows of pixels: the elements of a row lie together, rows `pitch`
// elements apart. Pitch and memory are multiples of 16 bytes, and a row may be read and written in octets up to its end
// rounded up to eight.
struct PlainTensor {
  const void* memory;
  i64 pitch;
};

// The change between a tensor of the caller's and one of the network's. With `taps` > 1, which only goes inwards,
// neighbouring pixels become channels: channel s * channels + c of column q is channel c of column q * stride - pad + s
// * dilation, or zero.
struct BorderParams {
  const CallerTensor* caller;
  PlainTensor arena;
  u32 images, height, width;  // of the network's tensor
  u32 columns, channels;      // of the caller's
  u32 taps;
  int stride, pad, dilation;
};

struct PoolParams {
  PlainTensor from, to;
  u32 images, height, width, octets, out_height, out_width;
  int kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w;
  int average, count_pad;
};

// The mean over all pixels of an image. `width` neighbouring threads have neighbouring octets: a power of two up to 64.
struct PoolImagesParams {
  PlainTensor from, to;
  u32 images, pixels, octets, width;
};

// The mean over all pixels of an image, and two layers of it: filters (hidden, channels) and (outputs, hidden). With
// one pixel there is nothing to be summed.
constexpr int kLayerOperands = 16;
struct SmallLayersParams {
  PlainTensor from, to, filters[2];
  float *sums, *values;  // (images, CTAs of an image, channels) and (images, hidden), in octets: between CTAs
  u32 pixels, channels, hidden, outputs;
  const float* operands[kLayerOperands];
};

// Output (p, q) = (1 - w) x[low] + w x[high] along either axis; without weights x[low].
struct ResizeParams {
  PlainTensor from, to;
  const int *row_low, *row_high, *column_low, *column_high;
  const float *row_weight, *column_weight;  // null: nearest
  u32 images, height, width, octets, out_height, out_width;
};

// to[i] = from[i - before] if that lies inside, else `value`. An element is 16 bits, or eight of them.
constexpr int kCopyRank = 5;
struct CopyParams {
  const void* from;
  void* to;
  i64 from_strides[kCopyRank], to_strides[kCopyRank];  // in units of what is copied
  u32 extents[kCopyRank], source[kCopyRank];           // of `to`, of `from`
  int before[kCopyRank];
  u32 count, value;  // elements of `to`; the bits of one
};

// The same elements, counted row-major in two shapes.
struct ReshapeParams {
  const void* from;
  void* to;
  i64 from_strides[kCopyRank], to_strides[kCopyRank];
  u32 from_extents[kCopyRank], to_extents[kCopyRank];
  u32 count;
};

// A convolution, its transpose or a product, float sums: an output has `lanes` threads, a power of two up to 32. With
// groups a filter's channels are those of its group.
struct DirectParams {
  const void* from;
  i64 from_pixel, from_channel;  // strides, elements
  const void* filter;
  i64 filter_output, filter_tap, filter_channel;
  PlainTensor to;
  u32 images, height, width, group_channels, group_outputs;
  u32 out_height, out_width, outputs;
  int taps_h, taps_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int transposed;
  u32 lanes;
};

// Moments that the kernel which made a tensor's part has stored (exchange/moment_store.cuh), and where the part lies in
// the tensor's channels.
struct MomentSource {
  const Entry* entries;  // (images, slots, channels / unit)
  u32 first, channels;
  u32 unit, slots;
  float weight;  // how many times the tensor has each of the part's pixels
};

// Mean and variance of every `width` neighbouring channels of a tensor, of each image or of all: f32, (images or 1,
// results), from its parts' moments. A part begins and ends at units, but groups may straddle parts. Of null memory
// nothing is written.
constexpr u32 kMomentSources = 16;
struct JoinMomentsParams {
  u32 images, results, width, per_image, sources;
  MomentSource source[kMomentSources];
  PlainTensor mean, variance;
};

// Parameters of the kernels generated from an epilogue graph: its extents, and its tensors in the order of
// codegen::GraphKernel::tensors.
constexpr int kGraphTensors = 48;
struct GraphParams {
  u32 images, pixels, columns;  // pixels: rows of an image
  u32 strips;                   // parts of an image's rows, a CTA each
  PlainTensor tensors[kGraphTensors];
};

}  // namespace unisono
