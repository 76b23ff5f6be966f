#include "families/plain/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "families/plain/problem.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::plain {
namespace {

constexpr std::size_t most_fields = (sizeof(ParameterBytes) - sizeof(PlainConvParams)) / 8;

int as_int(std::int64_t x) { return static_cast<int>(x); }
Divisor by(std::int64_t x) { return divisor(static_cast<u64>(std::max<std::int64_t>(1, x))); }

// Pixels `pitch` elements apart, 0: channels of one lie behind those of the other
void set_image_steps(PlainConvGeometry& g, const plan::ConvTask& t, std::int64_t pitch, std::int64_t step) {
  const Conv2d& c = t.conv;
  if (rows_lie_together(t)) {
    const std::int64_t pixels = pitch == 0 ? c.h * c.w : pitch;  // rows of A (k, m) lie `pitch` apart
    g.image_c = pixels, g.image_h = c.w, g.image_w = 1, g.image_n = pixels * c.c;
  } else {
    const std::int64_t pixel = pitch == 0 ? c.c : pitch;
    g.image_c = 1, g.image_w = pixel, g.image_h = c.w * pixel, g.image_n = c.h * c.w * pixel;
  }
  if (step != 0) g.image_n = step;
}

void set_filter_steps(PlainConvGeometry& g, const plan::ConvTask& t, std::int64_t step) {
  const Conv2d& c = t.conv;
  const std::int64_t taps = c.r * c.s, channels = c.c / c.groups, outputs = c.k / c.groups;
  const bool planes = c.layout == Layout::nchw;
  if (t.transposed) {  // (C, R, S, K/groups), or planes (C, K/groups, R, S)
    g.filter_channel = taps * outputs, g.filter_group = channels * taps * outputs;
    g.filter_tap = planes ? 1 : outputs, g.filter_output = planes ? taps : 1;
  } else if (t.columns_b) {  // (k, n)
    g.filter_channel = c.k, g.filter_output = 1;
  } else {  // (K, R, S, C/groups), or planes (K, C/groups, R, S)
    g.filter_output = taps * channels, g.filter_group = outputs * taps * channels;
    g.filter_tap = planes ? 1 : channels, g.filter_channel = planes ? taps : 1;
  }
  g.filter_n = !t.batched ? 0 : step != 0 ? step : c.k * channels;
}

void set_extents(PlainConvGeometry& g, const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  const Extents e = extents(t.contraction());
  g.images = as_int(e.images), g.rows = as_int(e.rows_per_image()), g.channels = as_int(e.cols);
  g.width = as_int(e.width), g.range_rows = as_int(range_rows(t));
  g.in_height = as_int(c.h), g.in_width = as_int(c.w);
  g.group_channels = as_int(c.c / c.groups), g.group_outputs = as_int(c.k / c.groups), g.groups = as_int(c.groups);
  g.taps_h = as_int(c.r), g.taps_w = as_int(c.s), g.depth = as_int(c.r * c.s) * g.group_channels;
  g.stride_h = as_int(c.stride[0]), g.stride_w = as_int(c.stride[1]);
  g.pad_h = as_int(c.pad[0]), g.pad_w = as_int(c.pad[1]);
  g.dilation_h = as_int(c.dilation[0]), g.dilation_w = as_int(c.dilation[1]);
}

}  // namespace

plan::Expected<std::size_t> parameter_bytes(std::size_t fields) {
  if (fields > most_fields)
    return plan::because(
        fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields, most_fields));
  return sizeof(PlainConvParams) + 8 * std::max<std::size_t>(1, fields);  // an empty struct has a size too
}

PlainConvGeometry geometry(const plan::ConvTask& task, const PlainPlan& plan) {
  PlainConvGeometry g{};
  set_extents(g, task);
  set_image_steps(g, task, 0, 0);
  set_filter_steps(g, task, 0);
  g.tiles_m = plan.tiles_m, g.tiles_n = plan.tiles_n, g.tiles = plan.tiles;
  const bool direct = plan.config.tiling.direct;
  g.by_tiles_across = by(direct ? g.tiles_n : std::int64_t{g.tiles_n} * g.groups);
  g.by_tiles_m = by(g.tiles_m), g.by_tiles_n = by(g.tiles_n), g.by_rows = by(g.rows), g.by_width = by(g.width);
  g.by_group_channels = by(g.group_channels), g.by_group_outputs = by(g.group_outputs), g.by_taps_w = by(g.taps_w);
  g.by_stride_h = by(g.stride_h), g.by_stride_w = by(g.stride_w);
  return g;
}

PlainNormParams norm(const Launched& what) {
  PlainNormParams n{};
  if (!what.epilogue.norm()) return n;
  const plan::StatisticsDomain of = *what.epilogue.normalised();
  const std::int64_t channels = what.task.conv.k;
  n.group_channels = as_int(of.of_rows ? channels : of.group_channels);
  n.groups = as_int(channels / n.group_channels);
  n.spans_images = of.batch;
  n.by_group_channels = by(n.group_channels);
  return n;
}

void fill(Parameter& to, const PlainPlan& plan, const Launched& what, const Tensors& at) {
  if (plan.config.planes && (at.activation_pitch != 0 || at.output_pitch != 0))
    throw plan::Refused(plan::because(fmt::format(
        "the {} was given pixels {} elements apart; channels first, pixels must be contiguous: make a dense copy",
        at.output_pitch != 0 ? "output" : "image", at.output_pitch != 0 ? at.output_pitch : at.activation_pitch)));
  PlainConvParams& p = to.bytes.at<PlainConvParams>();
  set_image_steps(p.geometry, what.task, at.activation_pitch, at.step_a);
  set_filter_steps(p.geometry, what.task, at.step_b);
  if (at.filter_pitch != 0) p.geometry.filter_output = at.filter_pitch;
  p.main_pitch = at.output_pitch == 0 ? what.task.conv.k : at.output_pitch;
  to.put_address(offsetof(PlainConvParams, image), at.activation);
  to.put_address(offsetof(PlainConvParams, filter), at.filter);
  if (plan.config.products > 1) to.put_address(offsetof(PlainConvParams, filter1), at.filter1);
  to.put_address(offsetof(PlainConvParams, main), at.output);
  to.put_address(offsetof(PlainConvParams, side), at.side);
  to.put_fields(sizeof(PlainConvParams), at.fields);
}

void place_workspace(PlainConvParams& to, const PlainPlan& plan, std::uint64_t base) {
  if (plan.workspace_bytes == 0) return;
  to.norm.arrived = reinterpret_cast<u32*>(base), to.norm.phase = reinterpret_cast<u32*>(base) + 1;
  to.norm.statistics = reinterpret_cast<float*>(base + plan.workspace.statistics);
  to.norm.values = reinterpret_cast<float*>(base + plan.workspace.values);
}

}  // namespace unisono::families::plain
