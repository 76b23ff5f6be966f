// Parameters of the kernels for gradients of normalisations. Plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/element_codes.cuh"
#include "unisono/params/words.cuh"

namespace unisono {

constexpr u32 kNormThreads = 256, kNormGroupChannels = 2048;  // most channels of a group
constexpr u32 kNormVectors = 3;                               // scale, shift, input

// Tensors are channels last; a CTA has a part of an image's pixels, and `wide` octets of their channels.
struct NormGradientParams {
  const void *x, *g, *scale;  // scale: null, or (C)
  void* y;
  void* partials;  // four floats each: [image][part][channel]
  void* factors;   // four floats each: [image][channel]
  float* vectors;  // [kNormVectors][image][channel]: what an image adds to their gradients, and its sums of y
  float* results[kNormVectors];  // sums of these over images; null: made elsewhere, or not wanted
  i64 x_pitch, g_pitch, y_pitch;
  u32 images, pixels, channels, octets, groups;
  u32 parts, part_pixels, wide, chunks;
  float eps;
  ElementCode scale_type;
  u32 unused;
};

// The gradient of a scale or shift, or the sum of y: what all images add, in their order.
struct NormVectorParams {
  const float* from;  // [image][channel]
  void* y;
  u32 images, channels, pitch, unused;
};

}  // namespace unisono
