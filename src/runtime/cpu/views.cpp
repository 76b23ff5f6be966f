#include "runtime/cpu/views.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::cpu {

bool PixelStrides::uniform(const Extents& e, std::int64_t pitch) const {
  return (e.width == 1 || pixel == pitch) && (e.height == 1 || row == e.width * pitch) &&
         (e.images == 1 || image == e.rows_per_image() * pitch);
}

PixelStrides pixel_strides(const std::vector<std::int64_t>& s, Layout layout) {
  return layout == Layout::nhwc ? PixelStrides{s[0], s[1], s[2], s[3]} : PixelStrides{s[0], s[2], s[3], s[1]};
}

PlaneStrides plane_strides(const std::vector<std::int64_t>& s, Layout layout) {
  if (s.size() == 5) return {{s[0], s[2], s[3], s[4]}, s[1]};
  return {pixel_strides(s, layout), 0};
}

PixelStrides volume_strides(const std::vector<std::int64_t>& s, const std::vector<std::int64_t>& shape) {
  const std::int64_t planes = shape[1], rows = shape[2];
  if (planes > 1 && rows > 1 && s[1] != rows * s[2])
    throw UserError(
        fmt::format("a tensor of shape {} was given strides {}; expected planes that follow one another as rows do, {} "
                    "apart: pass a copy without gaps",
                    shape_string(shape), shape_string(s), rows * s[2]));
  return {s[0], rows > 1 ? s[2] : s[1], s[3], s[4]};
}

PixelStrides matrix_strides(const std::vector<std::int64_t>& s) { return {s[0], s[1], s[1], s[2]}; }

}  // namespace unisono::cpu
