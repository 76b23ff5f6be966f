#pragma once
/// The one check of an image's extents that all readers share.

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "media/file.hpp"
#include "unisono/error.hpp"

namespace unisono::media {

/// Throws UserError unless 1 ≤ width, 1 ≤ height and width·height ≤ limits.pixels (no product overflows).
inline void check_size(std::string_view name, std::int64_t width, std::int64_t height, const Limits& limits) {
  if (width < 1 || height < 1)
    throw UserError(fmt::format("{} has {} x {} pixels: at least 1 x 1 is needed", name, width, height));
  if (width > limits.pixels / height) {
    throw UserError(fmt::format("{} has {} x {} pixels: the limit is {} pixels in all; scale it down first", name,
                                width, height, limits.pixels));
  }
}

}  // namespace unisono::media
