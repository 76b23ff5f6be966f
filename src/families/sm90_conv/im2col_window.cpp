#include "families/sm90_conv/im2col_window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "support/dtypes.hpp"
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono::families::sm90_conv {
namespace {

/// From 64 channels on im2col and halo tiles waste nothing, from 32 on a halo tile's pixels of 128 bytes are half full.
constexpr std::int64_t most_im2col_channels = 32;
constexpr std::int64_t largest_box = 256;  // elements of an extent, of TMA
constexpr int chunk_bytes = 16;

int padded_to(std::int64_t x, int to) { return static_cast<int>((x + to - 1) / to * to); }

/// Elements of an image row ahead of the first that 8 neighbouring pixels see: these begin `pad` pixels left of a
/// multiple of 8.
int shift_of(const Conv2d& c) { return static_cast<int>(((-c.pad[1] * c.c) % 8 + 8) % 8); }

/// Elements of a window's image row: what 8 neighbouring pixels see, and what is read with it.
std::int64_t elements_of_8(const Conv2d& c) {
  const std::int64_t seen = (7 * c.stride[1] + c.s) * c.c;
  return c.c % 8 == 0 ? seen : shift_of(c) + seen + (c.c * c.stride[1] % 2 != 0 || shift_of(c) % 2 != 0 ? 1 : 0);
}

/// Passes over shared memory that a warp's load of one chunk's first bytes takes: lanes are pixels, 8 an image row. A
/// load of 4, 8 or 16 bytes is served for 32, 16 or 8 lanes at a time.
int bank_passes(const Im2colWindow& u) {
  const int pixel = u.stride_w * u.channels, even = pixel | u.shift, bytes = even % 8 == 0 ? 16 : even % 4 == 0 ? 8 : 4;
  std::array<std::set<int>, 32> banks;  // words of each
  for (int lane = 0; lane < 128 / bytes; ++lane) {
    const int element = u.shift + lane % 8 * pixel, at = lane / 8 * u.stride_h * u.pitch + 2 * (element - element % 2);
    for (int word = at / 4; word < (at + bytes) / 4; ++word) banks[word % 32].insert(word);
  }
  std::size_t most = 0;
  for (const auto& bank : banks) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

}  // namespace

int Im2colWindow::window_lines(int tile_m) const {
  return shared_layout::window_lines(tile_m, stride_h, lines, dilation_h);
}

std::size_t Im2colWindow::window_bytes(int tile_m) const {
  return static_cast<std::size_t>(shared_layout::window_bytes(window_lines(tile_m), pitch));
}

std::optional<plan::Refusal> beyond_explicit_im2col(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  if (t.transposed) return plan::because("a transposed convolution");
  if (t.volume) return plan::because("a convolution of volumes");
  if (t.columns_a || t.columns_b || t.batched) return plan::because("a product");
  if (c.layout == Layout::nchw) return plan::because("channels first");
  if (c.groups != 1) return plan::because(fmt::format("{} groups of channels", c.groups));
  if (!support::is_short_float(c.dtype_x))
    return plan::because(fmt::format("{}; im2col in shared memory takes 16-bit elements", to_string(c.dtype_x)));
  if (c.r * c.s == 1) return plan::because("a filter of one tap, which needs no im2col");
  if (c.c > most_im2col_channels)
    return plan::because(fmt::format("{} input channels; at most {}: with more, loads by the tap waste little", c.c,
                                     most_im2col_channels));
  if (c.dilation[1] != 1 && c.s > 1)
    return plan::because(
        fmt::format("taps {} apart along the width; those of an image row are neighbours", c.dilation[1]));
  if (c.c % 8 != 0 && c.w * c.c % 8 != 0)
    return plan::because(fmt::format(
        "image rows of {} x {} elements, not a multiple of 8; TMA needs strides of multiples of 16 bytes", c.w, c.c));
  if (const std::int64_t extent = c.c % 8 == 0 ? elements_of_8(c) / c.c : elements_of_8(c); extent > largest_box)
    return plan::because(fmt::format("{} {} of an image row under 8 pixels; a TMA box has {}", extent,
                                     c.c % 8 == 0 ? "pixels" : "elements", largest_box));
  if (c.r * c.dilation[0] > largest_box || c.stride[0] > largest_box)
    return plan::because(fmt::format("{} image rows under a pixel, {} from one to the next; a TMA box has {}",
                                     c.r * c.dilation[0], c.stride[0], largest_box));
  return {};
}

Im2colWindow im2col_window_of(const Conv2d& c) {
  Im2colWindow u{.lines = static_cast<int>(c.r),
                 .taps = static_cast<int>(c.s),
                 .channels = static_cast<int>(c.c),
                 .stride_h = static_cast<int>(c.stride[0]),
                 .stride_w = static_cast<int>(c.stride[1]),
                 .dilation_h = static_cast<int>(c.dilation[0]),
                 .pitch = padded_to(2 * elements_of_8(c), chunk_bytes),
                 .shift = shift_of(c)};
  if (u.by_pixels()) return u;
  // A few elements more, so that image rows lie in other banks
  Im2colWindow best = u;
  for (int more = 1; more < 8; ++more) {
    u.pitch += chunk_bytes;
    if (u.pitch <= 2 * largest_box && bank_passes(u) < bank_passes(best)) best = u;
  }
  return best;
}

}  // namespace unisono::families::sm90_conv
