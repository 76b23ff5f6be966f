#include "families/sm90/gathering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "families/sm90/phases.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::sm90 {
namespace {

std::int64_t unit_of(const plan::ConvTask& t) { return support::elements_of_a_vector(t.conv.dtype_x); }

bool is_tf32(const plan::ConvTask& t) { return support::is_multiplied_as_tf32(t.conv.dtype_x); }

std::int64_t depth_of(const plan::ConvTask& t) { return t.conv.r * t.conv.s * t.conv.c / t.conv.groups; }

/// B (k, n) of a product, or the filters (C, R, S, K) of a transposed convolution: neighbours are columns.
bool columns_first(const plan::ConvTask& t) { return t.columns_b || (t.transposed && t.conv.layout == Layout::nhwc); }

/// K filters of R·S·C side by side, or boxes of 64 columns: what TMA can load beside gathered pixels.
bool filters_have_a_map(const plan::ConvTask& t) {
  if (t.transposed) return false;
  if (t.columns_b) return t.conv.k % 8 == 0 && !is_tf32(t);
  return depth_of(t) % unit_of(t) == 0 && (t.conv.layout == Layout::nhwc || t.conv.r * t.conv.s == 1);
}

constexpr std::int64_t group_step = 64;  // channels of the one k-step of a tile of several groups

/// A TMA box has 256 image rows and pixels; two stages of the smallest halo tile leave room for filters.
bool halo_tiles_reach(const Conv2d& c) {
  const std::int64_t rows = 8 + (c.r - 1) * c.dilation[0], pixels = 8 + (c.s - 1) * c.dilation[1];
  return c.stride[0] == 1 && c.stride[1] == 1 && rows <= 256 && pixels <= 256 && 2 * rows * pixels * 128 <= 160 * 1024;
}

}  // namespace

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

std::optional<plan::Refusal> beyond_volumes(const plan::ConvTask& t) {
  using plan::because;
  const Conv3d& v = *t.volume;
  if (v.groups != 1) return because(fmt::format("{} groups of channels; kernels of volumes know one", v.groups));
  if (v.c % unit_of(t) != 0)
    return because(fmt::format("{} input channels, not a multiple of {}; TMA needs strides of multiples of 16 bytes",
                               v.c, unit_of(t)));
  return beyond_im2col(v);
}

bool loads_planes(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  return !beyond_conversion(t) && c.r == 1 && c.s == 1 && c.stride == Pair(1) && c.pad == Margins(0) && c.c % 8 == 0 &&
         c.h * c.w % 8 == 0;
}

std::optional<plan::Refusal> beyond_conversion(const plan::ConvTask& t) {
  using plan::because;
  const Conv2d& c = t.conv;
  if (c.layout != Layout::nchw) return because("channels last");
  if (is_tf32(t)) return because("channels first, of f32: 16-bit types are converted to channels last by the launch");
  if (t.transposed) return because("channels first, of a transposed convolution");
  if (c.groups != 1)
    return because(fmt::format(
        "channels first, in {} groups of channels: one group is converted to channels last by the launch", c.groups));
  if (!halo_tiles_reach(c))
    for (int i = 0; i < 2; ++i)
      if (auto refusal = beyond_im2col(c, i)) return because("channels first, with " + refusal->first());
  return std::nullopt;
}

std::int64_t converted_channels(const Conv2d& c) { return (c.c + 7) / 8 * 8; }

std::optional<plan::Refusal> why_gathered(const plan::ConvTask& t) {
  using plan::because;
  const Conv2d& c = t.conv;
  if (t.phases || t.volume) return std::nullopt;  // nothing gathers volumes: beyond_volumes()
  if (t.transposed) {
    const auto refusal = beyond_phases(*t.transposed);
    return because(refusal ? "a transposed convolution, not by parity phases: " + refusal->first()
                           : "a transposed convolution");
  }
  if (c.layout == Layout::nchw) return beyond_conversion(t);
  if (c.groups != 1) return because(fmt::format("{} groups of channels", c.groups));
  const std::int64_t unit = unit_of(t);
  const auto odd = [&](const char* what, std::int64_t count) {
    return because(
        fmt::format("{} {}, not a multiple of {}; TMA needs strides of multiples of 16 bytes", count, what, unit));
  };
  if (is_tf32(t) && (t.columns_a || t.columns_b))
    return because(fmt::format("{} of f32, which is transposed as it is loaded: tf32 is multiplied with k side by side",
                               !t.columns_b   ? "A (k, m)"
                               : !t.columns_a ? "B (k, n)"
                                              : "A (k, m) and B (k, n)"));
  if (t.columns_a && c.w % 8 != 0) return odd("rows m of A (k, m)", c.w);
  if ((!t.columns_a || !t.columns_b) && c.c % unit != 0) return odd("input channels", c.c);
  if (t.columns_b && c.k % 8 != 0) return odd("columns n of B (k, n)", c.k);
  for (int i = 0; i < 2; ++i)
    if (auto refusal = beyond_im2col(c, i); refusal && !halo_tiles_reach(c)) return refusal;
  return std::nullopt;
}

std::int64_t narrowest_group_tile(const Conv2d& c) {
  const auto for_whole_octets = [](std::int64_t each) { return 8 / std::gcd<std::int64_t>(8, each); };
  return std::max(for_whole_octets(c.c / c.groups), for_whole_octets(c.k / c.groups)) * (c.k / c.groups);
}

std::int64_t widest_group_tile(const Conv2d& c) {
  const std::int64_t groups = narrowest_group_tile(c) / (c.k / c.groups);  // of the narrowest
  const std::int64_t most = std::min(group_step / (groups * (c.c / c.groups)), 256 / narrowest_group_tile(c));
  return most * narrowest_group_tile(c);
}

void add_group_tiles(const Conv2d& c, std::set<int>& widths) {
  const std::int64_t least = narrowest_group_tile(c);
  std::int64_t most = widest_group_tile(c);
  while (most - least >= c.k) most -= least;
  for (std::int64_t n = most; n >= least; n = n / 2 / least * least) widths.insert(static_cast<int>(n));
}

std::optional<plan::Refusal> beyond_group_tiles(const plan::ConvTask& t) {
  using plan::because;
  const Conv2d& c = t.conv;
  if (c.groups == 1) return because("one group");
  if (t.volume) return because("a convolution of volumes");
  if (t.transposed) return because("a transposed convolution");
  if (c.layout == Layout::nchw) return because("channels first");
  if (is_tf32(t)) return because("filters of f32");
  if (c.c % unit_of(t) != 0) return because(fmt::format("{} input channels; strides of TMA are multiples of 8", c.c));
  if (widest_group_tile(c) == 0)
    return because(fmt::format("groups of {} channels and {} filters; a tile has {} channels and 256 filters at most",
                               c.c / c.groups, c.k / c.groups, group_step));
  if (!halo_tiles_reach(c))
    for (int i = 0; i < 2; ++i)
      if (auto refusal = beyond_im2col(c, i)) return refusal;
  return std::nullopt;
}

Gathering gathering_of(const plan::ConvTask& t) {
  Gathering g;
  const std::int64_t channels = t.conv.c / t.conv.groups;
  g.rows_first_a = t.columns_a || (t.conv.layout == Layout::nchw && channels > 1);
  g.vectors = !g.rows_first_a && t.conv.layout == Layout::nhwc && channels % unit_of(t) == 0;
  g.filters = !filters_have_a_map(t);
  g.rows_first_b = g.filters && columns_first(t);
  g.transposed = t.transposed.has_value();
  g.direct = t.conv.groups > 1 && t.conv.k / t.conv.groups % 8 != 0;
  if (g.direct) g = {.filters = true, .transposed = g.transposed, .direct = true};
  return g;
}

Stores stores_of(const plan::ConvTask& t) {
  if (t.conv.layout == Layout::nchw) return Stores::planes;
  return t.conv.k % 8 == 0 ? Stores::tma : Stores::plain;
}

}  // namespace unisono::families::sm90
