#pragma once
/// Scaling of images and planes.

#include <cstdint>
#include <span>
#include <vector>

#include "media/image.hpp"

namespace unisono::figure {

enum class Filter : std::uint8_t {
  nearest,  ///< shows pixels as squares
  smooth,   ///< bilinear where it upsamples, and a triangle as wide as what a pixel covers where it shrinks
};

/// Scales `channels` interleaved planes of width × height floats. Pixel centres lie at half-integer coordinates; edges
/// are continued. All extents must be at least 1.
std::vector<float> resample(std::span<const float> pixels, std::int64_t width, std::int64_t height, int channels,
                            std::int64_t new_width, std::int64_t new_height, Filter filter);

media::Image resample(const media::Image& image, std::int64_t new_width, std::int64_t new_height, Filter filter);

}  // namespace unisono::figure
