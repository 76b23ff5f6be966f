#include "unisono/conv_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono {
namespace {

constexpr std::int64_t largest_step = std::int64_t{1} << 24;  // times an extent of 2^31 stays far below 2^63
constexpr std::int64_t largest_margin = std::int64_t{1} << 31, most_group_count = std::int64_t{1} << 31;

void check_step(std::string_view where, std::string_view field, const Pair& p) {
  if (std::min(p.h, p.w) < 1 || std::max(p.h, p.w) > largest_step)
    throw UserError(fmt::format("{}: {} is {}x{}; expected 1 to 2^24", where, field, p.h, p.w));
}

void append(std::string& text, std::string_view field, const Pair& p, std::int64_t usual) {
  if (p != Pair(usual)) text += fmt::format(", {} {}x{}", field, p.h, p.w);
}

}  // namespace

void check_attributes(const ConvAttributes& a, bool transposed, std::string_view where) {
  check_step(where, "stride", a.stride);
  check_step(where, "dilation", a.dilation);
  const auto [least, most] = std::minmax({a.pad.top, a.pad.left, a.pad.bottom, a.pad.right});
  if (least < 0 || most > largest_margin)
    throw UserError(fmt::format("{}: pad is {},{},{},{} (top, left, bottom, right); expected 0 to 2^31", where,
                                a.pad.top, a.pad.left, a.pad.bottom, a.pad.right));
  if (a.groups < 1 || a.groups > most_group_count)
    throw UserError(fmt::format("{}: groups is {}; expected 1 to 2^31", where, a.groups));
  const Pair below(transposed ? std::max(a.stride.h, a.dilation.h) : 1,
                   transposed ? std::max(a.stride.w, a.dilation.w) : 1);
  if (std::min(a.output_pad.h, a.output_pad.w) >= 0 && a.output_pad.h < below.h && a.output_pad.w < below.w) return;
  throw UserError(fmt::format("{}: output_pad is {}x{}; expected {}", where, a.output_pad.h, a.output_pad.w,
                              transposed ? fmt::format("0 to below max(stride, dilation) = {}x{}", below.h, below.w)
                                         : "0: only conv_transpose2d has one"));
}

std::string to_string(const ConvAttributes& a) {
  std::string text;
  append(text, "stride", a.stride, 1);
  if (a.pad != Margins(a.pad.top))
    text += fmt::format(", pad {},{},{},{}", a.pad.top, a.pad.left, a.pad.bottom, a.pad.right);
  else if (a.pad.top != 0)
    text += fmt::format(", pad {}", a.pad.top);
  append(text, "output_pad", a.output_pad, 0);
  append(text, "dilation", a.dilation, 1);
  if (a.groups != 1) text += fmt::format(", groups {}", a.groups);
  return text;
}

}  // namespace unisono
