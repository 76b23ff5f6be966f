// Parameters of the kernels of plain/plain.cuh and of those that are generated with them. Plain structs, the same to
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
