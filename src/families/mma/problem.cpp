#include "families/mma/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "support/checked.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::mma {
namespace {

constexpr std::int64_t int_limit = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t place_limit = 32767;   // image rows and pixels have 16 bits in the table of a tile's rows
constexpr std::int64_t narrowest_group = 16;  // output channels: the narrowest tile
constexpr std::int64_t most_phases = 4096;

using Reasons = std::vector<std::string>;

std::int64_t reach(std::int64_t taps, std::int64_t dilation) {
  return taps == 1 ? 0 : dilation > int_limit / taps ? int_limit : (taps - 1) * dilation;
}

void check_operands(const plan::ConvTask& t, Reasons& reasons) {
  const Conv2d& c = t.conv;
  const auto x = support::matrix_operand(c.dtype_x), w = support::matrix_operand(c.dtype_w);
  if (!x || !w || x->as != w->as)
    reasons.push_back(fmt::format(
        "dtypes: the operands are {} and {}; mma.sync multiplies bf16 by bf16, f16 by f16, or f32 by f32 (rounded to "
        "tf32). Cast both to one of these",
        to_string(c.dtype_x), to_string(c.dtype_w)));
  else if (size_of(element_of(t)) == 4 && (t.columns_a || filter_of(t).columns))
    reasons.emplace_back(
        "layout: an operand of f32 whose k are not contiguous; ldmatrix transposes 16-bit elements only. Transpose it, "
        "or cast both operands");
}

void check_kind(const plan::ConvTask& t, Reasons& reasons) {
  const Conv2d& c = t.conv;
  if (c.layout != Layout::nhwc)
    reasons.emplace_back("layout: images NCHW; the kernels by mma.sync read and write NHWC");
  if (const std::int64_t outputs = c.k / c.groups; c.groups > 1 && outputs % narrowest_group != 0)
    reasons.push_back(fmt::format(
        "groups: {} output channels each; a tile by mma.sync has channels of one group, in a multiple of {}", outputs,
        narrowest_group));
}

template <class Limit>
void check_planes(const Conv3d& v, const Limit& limit) {
  limit("the planes of a volume with its padding", v.d + v.before.d + v.after.d, place_limit, "Split the volume");
  limit("the planes that a filter reaches", reach(v.t, v.dilation.d), place_limit, "Family plain reaches further");
}

void check_sizes(const plan::ConvTask& t, Reasons& reasons) {
  const Conv2d& c = t.conv;
  const Extents e = extents(t.contraction());
  const auto limit = [&](const char* what, std::int64_t value, std::int64_t bound, const char* help) {
    if (value > bound) reasons.push_back(fmt::format("size: {} is {}; at most {}. {}", what, value, bound, help));
  };
  const char* split = "Split the batch or the image";
  const Phases phases = phases_of(t);
  limit("the number of phases of a transposed convolution, its stride's product", phases.count, most_phases,
        "Family plain serves any");
  limit("the number of output pixels", std::max(e.rows(), e.images * phases.height * phases.width), int_limit - 65535,
        split);  // a tile past the end still counts
  limit("the number of output channels", c.k, int_limit / 4, "Split the filters");
  limit("the number of filter taps times input channels", depth_of(t), int_limit - 65535,
        "Split the channels and add the results");
  if (!reads_pixels(t)) return;
  const std::int64_t down = reach(t.volume ? t.volume->r : c.r, c.dilation[0]), right = reach(c.s, c.dilation[1]);
  limit("the reach of the filter", std::max(down, right), place_limit, "Family plain reaches further");
  const std::int64_t above = c.pad[0] + (t.transposed ? down : 0), beside = c.pad[1] + (t.transposed ? right : 0);
  limit("an extent of the image with its padding",
        std::max((t.volume ? t.volume->h : c.h) + above + c.pad[2], c.w + beside + c.pad[3]), place_limit,
        "Split the image");
  if (t.volume) check_planes(*t.volume, limit);
  const auto together = static_cast<std::int64_t>(static_cast<std::size_t>(image_of(t).copy) / size_of(element_of(t)));
  // reaches and margins go to 2^31 rows
  const support::Checked elements = support::Checked("image", c.h + rows_ahead(t)) * c.n * c.w * c.c;
  limit("the number of copies of the image", elements.saturated() / together, int_limit / 2, split);
  limit("the elements between taps",
        (support::Checked("the elements between taps", rows_of_reach(t) + 1) * c.w * c.c).saturated(), int_limit / 2,
        "Split the channels");
}

/// The widest copy of neighbours whose runs are multiples of so many elements.
int copy_of(std::int64_t elements, std::size_t element_bytes) {
  for (const int copy : {16, 8, 4})
    if (elements * static_cast<std::int64_t>(element_bytes) % copy == 0) return copy;
  return 2;
}

}  // namespace

std::optional<Refusal> refuse_device(const plan::Device& d) {
  if (d.major >= 8) return {};
  return Refusal{Refusal::Scope::device,
                 {fmt::format("device: {} has compute capability {}.{}; the kernels by mma.sync are for 8.0 and later",
                              d.name, d.major, d.minor)}};
}

std::vector<std::string> refuse_contraction(const plan::ConvTask& task) {
  Reasons reasons;
  check_operands(task, reasons);
  check_kind(task, reasons);
  if (reasons.empty()) check_sizes(task, reasons);
  return reasons;
}

DType element_of(const plan::ConvTask& t) {
  const auto operand = support::matrix_operand(t.conv.dtype_x);
  return operand ? operand->as : t.conv.dtype_x;
}

bool reads_pixels(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  const bool moves = c.pad[0] + c.pad[1] + c.pad[2] + c.pad[3] != 0 || c.stride[0] != 1 || c.stride[1] != 1;
  return c.r != 1 || c.s != 1 || moves || c.groups != 1 || t.transposed || t.volume;
}

Operand image_of(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  return {t.columns_a, copy_of(t.columns_a ? c.h * c.w : c.c / c.groups, size_of(element_of(t)))};
}

Operand filter_of(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  const bool columns = t.columns_b || t.transposed;  // (k, n), (C, R, S, K/G)
  return {columns, copy_of(columns ? c.k / c.groups : depth_of(t), size_of(element_of(t)))};
}

std::int64_t rows_of_reach(const plan::ConvTask& t) {
  const std::int64_t rows = reach(t.volume ? t.volume->r : t.conv.r, t.conv.dilation.h);
  return t.volume ? reach(t.volume->t, t.volume->dilation.d) * t.volume->h + rows : rows;
}

std::int64_t rows_ahead(const plan::ConvTask& t) {
  const std::int64_t rows = t.conv.pad[0] + (t.transposed ? rows_of_reach(t) : 0);
  return t.volume ? t.volume->before.d * t.volume->h + rows : rows;
}

std::int64_t depth_of(const plan::ConvTask& t) { return t.conv.r * t.conv.s * (t.conv.c / t.conv.groups); }

Phases phases_of(const plan::ConvTask& t) {
  const Extents e = extents(t.contraction());
  Phases all{.height = e.height, .width = e.width};
  if (!t.transposed) return all;
  const Conv2d& c = t.conv;
  const std::int64_t down = std::gcd(c.stride.h, c.dilation.h), right = std::gcd(c.stride.w, c.dilation.w);
  all.count = c.stride.h > most_phases || c.stride.w > most_phases ? int_limit : c.stride.h * c.stride.w;
  all.height = (e.height + c.stride.h - 1) / c.stride.h, all.width = (e.width + c.stride.w - 1) / c.stride.w;
  all.step = {c.stride.h / down, c.stride.w / right}, all.back = {c.dilation.h / down, c.dilation.w / right};
  return all;
}

}  // namespace unisono::families::mma
