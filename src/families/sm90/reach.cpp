#include "families/sm90/reach.hpp"

#include <fmt/format.h>

namespace unisono::families::sm90 {

bool halo_tiles_reach(const Conv2d& c) {
  const std::int64_t rows = 8 + (c.r - 1) * c.dilation[0], pixels = 8 + (c.s - 1) * c.dilation[1];
  return c.stride[0] == 1 && c.stride[1] == 1 && rows <= 256 && pixels <= 256 && 2 * rows * pixels * 128 <= 160 * 1024;
}

bool halo_tiles_reach(const Conv3d& v) {
  return halo_tiles_reach(
      Conv2d{.r = v.r, .s = v.s, .stride = {v.stride.h, v.stride.w}, .dilation = {v.dilation.h, v.dilation.w}});
}

std::optional<plan::Refusal> beyond_im2col(const Conv2d& c, int i) {
  const char* axis = i == 0 ? "height" : "width";
  const std::int64_t span = ((i == 0 ? c.r : c.s) - 1) * c.dilation[i];
  if (c.stride[i] > 8)
    return plan::because(fmt::format("stride {} along the {}; im2col loads reach 8", c.stride[i], axis));
  if (span > 255) return plan::because(fmt::format("taps {} apart along the {}; im2col loads reach 255", span, axis));
  for (const std::int64_t corner : {-c.pad[i], c.pad[2 + i] - span})
    if (corner < -128 || corner > 127)
      return plan::because(fmt::format("a corner at {} along the {}; im2col loads reach -128 to 127", corner, axis));
  return std::nullopt;
}

std::optional<plan::Refusal> beyond_im2col(const Conv3d& v) {
  constexpr const char* axes[] = {"depth", "height", "width"};
  const Triple taps(v.t, v.r, v.s);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t span = (taps[i] - 1) * v.dilation[i];
    if (v.stride[i] > 8)
      return plan::because(fmt::format("stride {} along the {}; im2col loads reach 8", v.stride[i], axes[i]));
    if (span > 31)
      return plan::because(fmt::format("taps {} apart along the {}; im2col loads of volumes reach 31", span, axes[i]));
    for (const std::int64_t corner : {-v.before[i], v.after[i] - span})
      if (corner < -16 || corner > 15)
        return plan::because(
            fmt::format("a corner at {} along the {}; im2col loads of volumes reach -16 to 15", corner, axes[i]));
  }
  return std::nullopt;
}

std::optional<plan::Refusal> beyond_tiles(const Conv2d& c) {
  if (halo_tiles_reach(c)) return std::nullopt;
  for (int i = 0; i < 2; ++i)
    if (auto refusal = beyond_im2col(c, i)) return refusal;
  return std::nullopt;
}

}  // namespace unisono::families::sm90
