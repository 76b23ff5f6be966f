#include "families/mma/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "families/mma/problem.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::mma {
namespace {

constexpr std::size_t most_fields = (sizeof(ParameterBytes) - sizeof(Sm80ConvParams)) / 8;

int as_int(std::int64_t x) { return static_cast<int>(x); }
Divisor by(std::int64_t x) { return divisor(static_cast<u64>(std::max<std::int64_t>(1, x))); }
/// A stride or dilation that no 32 bits hold is beyond any image: there is one output pixel, or one tap.
int as_far_as_it_matters(std::int64_t x) {
  return as_int(std::min<std::int64_t>(x, std::numeric_limits<std::int32_t>::max()));
}

ConvGeometry geometry_of(const MmaPlan& p, const plan::ConvTask& task) {
  const Conv2d& c = task.conv;
  const Extents e = extents(task.contraction());
  ConvGeometry g{};
  g.images = p.images, g.rows = p.rows, g.channels = as_int(c.k);
  g.tiles_m = p.tiles_m, g.tiles_n = p.tiles_n, g.tiles = p.tiles;
  g.height = g.plane_height = as_int(e.height), g.width = as_int(e.width);
  g.taps_h = as_int(c.r), g.taps_w = as_int(c.s), g.splits = p.config.parts;
  g.stride_h = as_far_as_it_matters(c.stride[0]), g.stride_w = as_far_as_it_matters(c.stride[1]);
  g.pad_h = as_int(c.pad[0]), g.pad_w = as_int(c.pad[1]);
  g.dilation_h = as_far_as_it_matters(c.dilation[0]), g.dilation_w = as_far_as_it_matters(c.dilation[1]);
  if (p.config.resampling.pooled) g.tiles_w = (g.width + 1) / 2;  // windows
  if (const auto& v = task.volume) {
    g.plane_height = as_int(e.height / output_planes(*v)), g.plane_taps_h = as_int(v->r);
    g.stride_d = as_far_as_it_matters(v->stride.d), g.pad_d = as_int(v->before.d);
    g.dilation_d = as_far_as_it_matters(v->dilation.d);
  }
  if (p.config.phases) {
    const Phases phases = phases_of(task);
    g.plane_height = as_int(phases.height), g.tiles_w = as_int(phases.width);
  }
  set_divisors(g, p.config.group);
  return g;
}

/// Where a row's first tap is, in copies, and how far its other taps are, in elements, have 32 bits.
void check_pitch(const MmaPlan& p, const plan::ConvTask& task, std::int64_t pitch) {
  if (!p.config.pixels) return;
  const Conv2d& c = task.conv;
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2,
                     together = p.config.image.copy / static_cast<std::int64_t>(p.config.element_bytes()),
                     of_rows = most * together / (c.n * (c.h + rows_ahead(task)) * c.w),
                     of_taps = most / ((rows_of_reach(task) + 1) * c.w);
  if (pitch <= std::min(of_rows, of_taps)) return;
  throw plan::Refused(plan::because(fmt::format(
      "the image was given pixels {} elements apart; its kernel counts up to {} of them: make a dense copy, "
      "or split the batch",
      pitch, std::min(of_rows, of_taps))));
}

}  // namespace

plan::Expected<std::size_t> parameter_bytes(std::size_t fields) {
  if (fields > most_fields)
    return plan::because(
        fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields, most_fields));
  return sizeof(Sm80ConvParams) + 8 * std::max<std::size_t>(1, fields);  // an empty struct has a size too
}

Sm80ConvParams constants(const MmaPlan& p, const Launched& what) {
  const plan::ConvTask& task = what.task;
  const Conv2d& c = task.conv;
  Sm80ConvParams f{};
  f.tile.geometry = geometry_of(p, task);
  const std::int64_t depth = depth_of(task), pixels = c.h * c.w;
  f.depth = as_int(depth), f.steps = as_int((depth + p.config.tiling.k - 1) / p.config.tiling.k);
  f.image_step = pixels * c.c, f.image_pitch = task.columns_a ? pixels : c.c;
  f.filter_step = task.batched ? c.k * depth : 0, f.filter_pitch = task.columns_b ? c.k : depth;
  if (p.config.phases) {
    const Phases phases = phases_of(task);
    f.filter_pitch = c.r * c.s * (c.k / c.groups);
    f.phase = {as_far_as_it_matters(phases.step.h), as_far_as_it_matters(phases.step.w),
               as_far_as_it_matters(phases.back.h), as_far_as_it_matters(phases.back.w)};
  }
  f.in_height = as_int(task.volume ? task.volume->h : c.h), f.in_width = as_int(c.w), f.taps_w = as_int(c.s);
  f.in_depth = as_int(task.volume ? task.volume->d : 1);
  f.by_plane_taps_h = by(task.volume ? task.volume->r : c.r);
  f.group_channels = as_int(c.c / c.groups), f.group_outputs = as_int(c.k / c.groups);
  f.by_group_channels = by(f.group_channels), f.by_group_outputs = by(f.group_outputs), f.by_taps_w = by(f.taps_w);
  return f;
}

void fill(Parameter& to, const MmaPlan& p, const Launched& what, const Tensors& at) {
  Sm80ConvParams& f = to.bytes.at<Sm80ConvParams>();
  const Conv2d& c = what.task.conv;
  if (const std::int64_t pitch = at.activation_pitch; pitch != 0) {
    check_pitch(p, what.task, pitch);
    f.image_pitch = pitch, f.image_step = (what.task.columns_a ? c.c : c.h * c.w) * pitch;
  }
  if (at.step_a != 0) f.image_step = at.step_a;
  if (at.step_b != 0) f.filter_step = at.step_b;
  if (at.filter_pitch != 0) f.filter_pitch = at.filter_pitch;
  const auto pitch_of = [&](std::int64_t given) { return given == 0 ? c.k : given; };
  f.tile.output_pitch = pitch_of(at.output_pitch);
  f.tile.pooled_pitch = pitch_of(at.pooled_pitch), f.tile.upsampled_pitch = pitch_of(at.upsampled_pitch);
  if (p.config.resampling.pooled) to.put_address(offsetof(TileParams, pooled), at.pooled);
  if (p.config.resampling.upsampled) to.put_address(offsetof(TileParams, upsampled), at.upsampled);
  to.put_address(offsetof(Sm80ConvParams, image), at.activation);
  to.put_address(offsetof(Sm80ConvParams, filters), at.filter);
  if (p.config.products > 1) to.put_address(offsetof(Sm80ConvParams, filters) + sizeof(void*), at.filter1);
  to.put_address(offsetof(TileParams, output), at.output);
  to.put_address(offsetof(TileParams, side), at.side);
  to.put_fields(sizeof(Sm80ConvParams), at.fields);
}

void place_workspace(Sm80ConvParams& to, const MmaPlan& p, const plan::Epilogue& epilogue, std::uint64_t base) {
  const MmaPlan::Workspace& w = p.workspace;
  TileParams& t = to.tile;
  const auto floats = [&](std::size_t at) { return reinterpret_cast<float*>(base + at); };
  if (const auto of = epilogue.norm() ? epilogue.normalised() : epilogue.exchanged()) {
    Entry* const slots = reinterpret_cast<Entry*>(base + w.slots);
    const auto width = as_int(of->group_channels);
    t.norm = {.slots = slots,
              .segments = reinterpret_cast<Entry*>(base + w.segments),
              .slots_per_image = p.slots(),
              .segment_slots = p.segment_slots,
              .segments_per_image = p.segments(),
              .group_channels = width,
              .by_group_channels = by(width),
              .by_common_channels = {}};  // its pieces are units
  }
  t.folds = {floats(w.partials), floats(w.results), floats(w.rows), reinterpret_cast<u32*>(base + w.counters)};
  to.split = {floats(w.shares), reinterpret_cast<u32*>(base + w.flags)};
  t.waiting = reinterpret_cast<void*>(base + w.waiting);
  const auto ctas = static_cast<u32>(p.ctas);
  t.launch = {reinterpret_cast<u32*>(base + w.exits), ctas * kEpochs - 1, divisor(ctas), 0};
}

}  // namespace unisono::families::mma
