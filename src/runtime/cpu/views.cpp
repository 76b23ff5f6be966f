#include "runtime/cpu/views.hpp"

namespace unisono::cpu {

bool PixelStrides::uniform(const Extents& e, std::int64_t pitch) const {
  return (e.width == 1 || pixel == pitch) && (e.height == 1 || row == e.width * pitch) &&
         (e.images == 1 || image == e.rows_per_image() * pitch);
}

PixelStrides pixel_strides(const std::vector<std::int64_t>& s, Layout layout) {
  return layout == Layout::nhwc ? PixelStrides{s[0], s[1], s[2], s[3]} : PixelStrides{s[0], s[2], s[3], s[1]};
}

PixelStrides matrix_strides(const std::vector<std::int64_t>& s) { return {s[0], s[1], s[1], s[2]}; }

}  // namespace unisono::cpu
