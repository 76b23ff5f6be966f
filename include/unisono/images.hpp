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

/// What a network reads for a byte: (byte·scale + offset − mean)/deviation, computed in double and rounded once.
struct PixelScale {
  double scale = 1.0 / 255, offset = 0;
  std::vector<double> mean = {};       ///< one, one a channel, or none: 0
  std::vector<double> deviation = {};  ///< one, one a channel, or none: 1
};

/// Writes images to a network's input, channels outermost. `pixels` has dtype u8 and the shape (height, width,
/// channels) or (batch, height, width, channels), `tensor` (channels, height, width) or (batch, channels, height,
/// width), and dtype f32, f16, bf16 or f64. Both may be strided: rows with padding, every other row, a tensor whose
/// channels are innermost in memory; they must not overlap. Throws UserError for other dtypes, shapes that do not fit,
/// negative strides, and means or deviations that are not one or one a channel, not finite, or 0 to divide by.
void read_pixels(const ConstTensorView& pixels, const PixelScale& scale, const TensorView& tensor);

}  // namespace unisono
