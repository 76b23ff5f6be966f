#include "families/plain/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/visitor_shape.hpp"

namespace unisono::families::plain {
namespace {

constexpr std::int64_t int_limit = std::numeric_limits<std::int32_t>::max();
constexpr const char* served =
    "Family plain serves values of elements, rows and columns, coordinates, effects, any stores of these, and one "
    "normalisation";

using Reasons = std::vector<std::string>;

bool is_operand(DType t) { return t == DType::bf16 || t == DType::f16 || t == DType::f32 || t == DType::tf32; }

void check_operands(const Conv2d& c, Reasons& reasons) {
  if (!is_operand(c.dtype_x) || !is_operand(c.dtype_w))
    reasons.push_back(fmt::format(
        "dtypes: the operands are {} and {}; the plain kernels multiply any of bf16, f16 and f32, in f32. Cast them",
        to_string(c.dtype_x), to_string(c.dtype_w)));
}

void check_sizes(const Conv2d& c, const Extents& e, Reasons& reasons) {
  const auto limit = [&](const char* what, std::int64_t value, std::int64_t bound, const char* help) {
    if (value > bound) reasons.push_back(fmt::format("size: {} is {}; at most {}. {}", what, value, bound, help));
  };
  const auto reach = [](std::int64_t taps, std::int64_t dilation) {
    return dilation > int_limit / taps ? int_limit : taps * dilation;  // taps are at least 1
  };
  const char* split = "Split the batch or the image";
  limit("the number of output pixels", e.rows(), int_limit - 65535, split);  // a tile past the end still counts
  limit("the number of filter taps times input channels", c.r * c.s * (c.c / c.groups), int_limit - 65535,
        "Split the channels and add the results");
  limit("the padding", std::max({c.pad[0], c.pad[1], c.pad[2], c.pad[3]}), int_limit / 4, "Pad the input beforehand");
  limit("the reach of the filter", std::max(reach(c.r, c.dilation[0]), reach(c.s, c.dilation[1])), int_limit / 4,
        "Use the cpu device");
  limit("an input extent", std::max({c.n, c.h, c.w}), int_limit / 4, split);
  limit("an output extent", std::max(e.height, e.width), int_limit / 4, split);
  limit("the number of output channels", c.k, int_limit / 4, "Split the filters");
}

bool reduces(const plan::Epilogue& e) {
  const plan::VisitorShape v = plan::visitor_shape(e);
  return v.own_words + v.fold_words + v.tile_folds + v.row_folds > 0 || v.returns || !v.group_widths.empty() ||
         !e.folds().empty();
}

void check_epilogue(const plan::Epilogue& e, Reasons& reasons) {
  const auto refuse = [&](const char* what, const char* help) {
    reasons.push_back(fmt::format("epilogue: {}. {}; {}", what, served, help));
  };
  if (e.general() && reduces(e))
    refuse("reductions whose results are stored, or read other than through one normalisation",
           "store what is reduced, and reduce it in a separate launch");
  if (e.resampled.any()) refuse("pooled or upsampled stores", "store the whole result, and resample it afterwards");
  if (e.moments.channels > 0) refuse("stored statistics", "reduce the stored result");
}

}  // namespace

std::optional<Refusal> refuse_device(const plan::Device& d) {
  if (d.major * 10 + d.minor >= 75) return {};
  return Refusal{
      Refusal::Scope::device,
      {fmt::format(
          "device: {} has compute capability {}.{}; the plain kernels are for 7.5 and later. Use the cpu device",
          d.name, d.major, d.minor)}};
}

std::vector<std::string> refuse(const Workload& w) {
  const Extents e = extents(w.task.contraction());
  Reasons reasons;
  check_operands(w.task.conv, reasons);
  if (w.task.volume)
    reasons.emplace_back("volumes: the plain kernels convolve images. Use a network, which has kernels for volumes");
  check_sizes(w.task.conv, e, reasons);
  check_epilogue(w.epilogue, reasons);
  return reasons;
}

bool rows_lie_together(const plan::ConvTask& t) { return t.columns_a || t.conv.layout == Layout::nchw; }

bool columns_lie_together(const plan::ConvTask& t) {
  return t.columns_b || (t.transposed && t.conv.layout == Layout::nhwc);
}

std::int64_t range_rows(const plan::ConvTask& t) {
  const Extents e = extents(t.contraction());
  return t.batched ? e.rows_per_image() : e.rows();
}

}  // namespace unisono::families::plain
