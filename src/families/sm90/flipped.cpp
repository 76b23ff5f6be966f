#include "families/sm90/flipped.hpp"

#include <fmt/format.h>

#include "families/sm90/reach.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::sm90 {
namespace {

using plan::because;

/// The convolution that it is, whatever loads it.
Conv2d flipped_convolution(const ConvTranspose2d& t) {
  Conv2d c = plan::as_convolution(t).conv;
  const std::int64_t reach_h = (t.r - 1) * t.dilation.h, reach_w = (t.s - 1) * t.dilation.w;
  c.pad = {reach_h - t.pad.top, reach_w - t.pad.left, reach_h - t.pad.bottom + t.output_pad.h,
           reach_w - t.pad.right + t.output_pad.w};
  return c;
}

/// What no taps in reverse serve.
std::optional<plan::Refusal> beyond_any(const ConvTranspose2d& t) {
  if (t.stride != Pair(1))
    return because(fmt::format("stride {}x{}; the taps of one output pixel are apart", t.stride.h, t.stride.w));
  if (t.layout == Layout::nchw) return because("channels first");
  return std::nullopt;
}

}  // namespace

std::optional<plan::ConvTask> with_flipped_taps(const ConvTranspose2d& t) {
  if (beyond_any(t)) return std::nullopt;
  plan::ConvTask task = plan::as_convolution(t);
  task.flipped = true;
  task.conv = flipped_convolution(t);
  return task;
}

std::optional<plan::Refusal> beyond_flipped(const ConvTranspose2d& t) {
  if (auto refusal = beyond_any(t)) return refusal;
  if (support::is_multiplied_as_tf32(t.dtype_x))
    return because("f32; tf32 needs contiguous k, which filters of a transposed convolution do not have");
  if (t.groups != 1) return because(fmt::format("{} groups of channels", t.groups));
  if (t.c % 8 != 0 || t.k % 8 != 0)
    return because(fmt::format("{} input and {} output channels; strides of TMA are multiples of 16 bytes", t.c, t.k));
  return beyond_tiles(flipped_convolution(t));
}

std::optional<plan::ConvTask> by_flipped_taps(const Contraction& contraction) {
  const auto* t = std::get_if<ConvTranspose2d>(&contraction);
  if (t == nullptr || beyond_flipped(*t)) return std::nullopt;
  return with_flipped_taps(*t);
}

std::optional<plan::Refusal> beyond_flipped_depthwise(const ConvTranspose2d& t) {
  if (auto refusal = beyond_any(t)) return refusal;
  if (t.groups != t.c || t.groups != t.k)
    return because(fmt::format("{} groups of {} input and {} output channels; one of each", t.groups, t.c, t.k));
  return std::nullopt;
}

std::optional<plan::ConvTask> by_flipped_depthwise(const Contraction& contraction) {
  const auto* t = std::get_if<ConvTranspose2d>(&contraction);
  if (t == nullptr || beyond_flipped_depthwise(*t)) return std::nullopt;
  return with_flipped_taps(*t);
}

}  // namespace unisono::families::sm90
