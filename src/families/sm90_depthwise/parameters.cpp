#include "families/sm90_depthwise/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "families/sm90/parameters.hpp"
#include "support/checked.hpp"

namespace unisono::families::sm90_depthwise {
namespace {

using support::narrow;

constexpr std::size_t most_fields = sm90::most_fields;
static_assert(sizeof(DepthwiseParams) + 8 * most_fields <= sizeof(ParameterBytes));

}  // namespace

DepthwiseImage depthwise_image(const plan::ConvTask& t, const DepthwisePlan& plan, const void* memory,
                               std::int64_t pitch) {
  const Conv2d& c = t.conv;
  const DepthwiseLayout l = depthwise_layout(plan.config.strip, c, extents(t.contraction()));
  if (pitch == 0) pitch = c.c;
  DepthwiseImage d{};
  d.memory = memory;
  d.step_image = static_cast<u64>(c.h * c.w * pitch);
  d.step_h = c.w * pitch, d.step_w = pitch;
  d.height = narrow<int>("height of the image", c.h), d.width = narrow<int>("width of the image", c.w);
  d.lattice_h = l.lattice_h, d.lattice_w = l.lattice_w, d.strip_lines = plan.config.strip.rows;
  const std::int64_t of_image = l.across * l.down, of_band = l.across * l.band;
  d.strips = narrow<u32>("strips", l.strips), d.image_strips = narrow<u32>("strips of an image", of_image);
  d.band_strips = narrow<u32>("strips of a band", of_band), d.band_lines = narrow<u32>("rows of a band", l.band);
  const auto by = [](std::int64_t x) { return divisor(static_cast<u64>(x)); };
  d.by_channel_tiles = by(plan.tiles_n), d.by_image = by(of_image), d.by_band = by(of_band), d.by_lines = by(l.band);
  return d;
}

ConvGeometry geometry(const plan::ConvTask& task, const DepthwisePlan& p) {
  ConvGeometry g = sm90::common_geometry(task);
  g.images = p.images, g.rows = p.rows;
  g.tiles_m = p.tiles_m, g.tiles_n = p.tiles_n, g.tiles = p.tiles;
  g.taps_h = narrow<int>("height of the filter", task.conv.r);
  g.taps_w = narrow<int>("width of the filter", task.conv.s), g.splits = 1;
  set_divisors(g, 0);
  return g;
}

plan::Expected<std::size_t> parameter_bytes(std::size_t fields) {
  if (fields > most_fields)
    return plan::because(
        fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields, most_fields));
  const std::size_t visitor = 8 * std::max<std::size_t>(fields, 1);  // an empty struct has a size, too
  return (sizeof(DepthwiseParams) + visitor + 63) / 64 * 64;
}

void fill(Parameter& to, const plan::ConvTask& task, const DepthwisePlan& plan, const Tensors& at) {
  const auto pitch = static_cast<u64>(at.output_pitch == 0 ? task.conv.k : at.output_pitch);
  to.put_struct(offsetof(DepthwiseParams, image), depthwise_image(task, plan, at.activation, at.activation_pitch),
                at.activation);
  to.put_struct(offsetof(DepthwiseParams, filter), DepthwiseFilter{at.filter}, at.filter);
  to.put_struct(offsetof(DepthwiseParams, output), PitchedOutput{const_cast<void*>(at.output.data), pitch}, at.output);
  to.put_address(offsetof(DepthwiseParams, side_memory), at.side);
  to.put_fields(sizeof(DepthwiseParams), at.fields);
}

}  // namespace unisono::families::sm90_depthwise
