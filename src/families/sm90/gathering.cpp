#include "families/sm90/gathering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "families/sm90/flipped.hpp"
#include "families/sm90/phases.hpp"
#include "families/sm90/reach.hpp"
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

}  // namespace

std::optional<plan::Refusal> beyond_volumes(const plan::ConvTask& t) {
  using plan::because;
  const Conv3d& v = *t.volume;
  if (v.groups != 1) return because(fmt::format("{} groups of channels; kernels of volumes know one", v.groups));
  if (v.c % unit_of(t) != 0)
    return because(fmt::format("{} input channels, not a multiple of {}; TMA needs strides of multiples of 16 bytes",
                               v.c, unit_of(t)));
  return halo_tiles_reach(v) ? std::nullopt : beyond_im2col(v);
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
  if (auto refusal = beyond_tiles(c)) return because("channels first, with " + refusal->first());
  return std::nullopt;
}

std::int64_t converted_channels(const Conv2d& c) { return (c.c + 7) / 8 * 8; }

std::optional<plan::Refusal> why_gathered(const plan::ConvTask& t) {
  using plan::because;
  const Conv2d& c = t.conv;
  // Nothing gathers volumes: beyond_volumes()
  if (t.phases || t.flipped || t.volume) return std::nullopt;
  if (t.transposed) {
    const bool of_stride_1 = t.transposed->stride == Pair(1);
    const auto refusal = of_stride_1 ? beyond_flipped(*t.transposed) : beyond_phases(*t.transposed);
    if (!refusal) return because("a transposed convolution");
    return because(fmt::format("a transposed convolution, not by {}: {}",
                               of_stride_1 ? "flipped taps" : "parity phases", refusal->first()));
  }
  if (c.layout == Layout::nchw) return beyond_conversion(t);
  if (c.groups != 1) return because(fmt::format("{} groups of channels", c.groups));
  const std::int64_t unit = unit_of(t);
  const auto odd = [&](const char* what, std::int64_t count) {
    return because(
        fmt::format("{} {}, not a multiple of {}; TMA needs strides of multiples of 16 bytes", count, what, unit));
  };
  if (is_tf32(t) && (t.columns_a || t.columns_b))
    return because(fmt::format("{} of f32, which is transposed as it is loaded: tf32 needs contiguous k",
                               !t.columns_b   ? "A (k, m)"
                               : !t.columns_a ? "B (k, n)"
                                              : "A (k, m) and B (k, n)"));
  if (t.columns_a && c.w % 8 != 0) return odd("rows m of A (k, m)", c.w);
  if ((!t.columns_a || !t.columns_b) && c.c % unit != 0) return odd("input channels", c.c);
  if (t.columns_b && c.k % 8 != 0) return odd("columns n of B (k, n)", c.k);
  return beyond_tiles(c);
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
  if (t.transposed && !t.flipped) return because("a transposed convolution");
  if (c.layout == Layout::nchw) return because("channels first");
  if (is_tf32(t)) return because("filters of f32");
  if (c.c % unit_of(t) != 0) return because(fmt::format("{} input channels; strides of TMA are multiples of 8", c.c));
  if (widest_group_tile(c) == 0)
    return because(fmt::format("groups of {} channels and {} filters; a tile has {} channels and 256 filters at most",
                               c.c / c.groups, c.k / c.groups, group_step));
  return beyond_tiles(c);
}

std::optional<plan::ConvTask> by_flipped_groups(const Contraction& contraction) {
  const auto* t = std::get_if<ConvTranspose2d>(&contraction);
  auto task = t != nullptr ? with_flipped_taps(*t) : std::nullopt;
  return task && !beyond_group_tiles(*task) ? task : std::nullopt;
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
