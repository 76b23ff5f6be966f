#pragma once
/// 8-bit images as inputs of a network.
///
///     std::vector<float> input(3 * 224 * 224);
///     unisono::read_pixels(unisono::view(bytes, {224, 224, 3}),
///                          {.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}},
///                          unisono::view(input, {3, 224, 224}));

#include <vector>

#include "unisono/tensor.hpp"

namespace unisono {

/// Conversion of a byte: (byte·scale + offset − mean)/deviation, computed in double and rounded once.
struct PixelScale {
  double scale = 1.0 / 255, offset = 0;
  std::vector<double> mean = {};       ///< one, or one per channel; empty: 0
  std::vector<double> deviation = {};  ///< one, or one per channel; empty: 1
};

/// Converts images to a network's input. `pixels` is u8 of shape (height, width, channels) or (batch, height, width,
/// channels). `tensor` is f32, f16, bf16 or f64 of shape (channels, height, width) or (batch, channels, height, width).
/// Both may be strided, such as rows with padding or a channels-last tensor. They must not overlap. Throws UserError
/// for other dtypes, shapes that do not fit, negative strides, and means or deviations of a wrong number, not finite,
/// or 0 as a divisor.
void read_pixels(const ConstTensorView& pixels, const PixelScale& scale, const TensorView& tensor);

}  // namespace unisono
