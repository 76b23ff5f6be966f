#include "runtime/cuda/parameters.hpp"

namespace unisono::cuda {

namespace {

// Elements from one to the next along each axis
struct Steps {
  std::int64_t image, h, w, c;
};

Steps steps_of(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  const std::int64_t image = c.h * c.w * c.c;
  if (t.columns_a || c.layout == Layout::nchw) return {image, c.w, 1, c.h * c.w};
  return {image, c.w * c.c, c.c, 1};
}

int narrow(std::int64_t x) { return static_cast<int>(x); }

}  // namespace

GatheredImage gathered_image(const plan::ConvTask& t, const void* memory, std::int64_t step) {
  const Conv2d& c = t.conv;
  const Steps steps = steps_of(t);
  GatheredImage g{};
  g.memory = memory;
  g.step_image = static_cast<u64>(step != 0 ? step : steps.image);
  g.step_h = narrow(steps.h), g.step_w = narrow(steps.w), g.step_c = narrow(steps.c);
  g.height = narrow(c.h), g.width = narrow(c.w), g.channels = narrow(c.c / c.groups);
  g.taps_w = narrow(c.s), g.depth = narrow(c.r * c.s * g.channels);
  g.group_filters = narrow(c.k / c.groups);
  return g;
}

GatheredFilter gathered_filter(const plan::ConvTask& t, const void* memory, std::int64_t step) {
  const Conv2d& c = t.conv;
  const std::int64_t taps = c.r * c.s, channels = c.c / c.groups;
  const bool planes = c.layout == Layout::nchw;
  GatheredFilter g{};
  g.memory = memory;
  g.channels = narrow(channels);
  g.step_image = t.batched ? static_cast<u64>(step != 0 ? step : c.k * channels) : 0;
  if (t.transposed) {  // (C, R, S, K/groups), or planes (C, K/groups, R, S)
    const std::int64_t filters = c.k / c.groups;
    g.step_filter = narrow(planes ? taps : 1), g.step_tap = narrow(planes ? 1 : filters);
    g.step_c = narrow(filters * taps);
    g.step_group = narrow((channels - 1) * filters * taps + (planes ? 0 : filters * (taps - 1)));
  } else if (t.columns_b) {
    g.step_filter = 1, g.step_c = narrow(c.k);
  } else {  // (K, R, S, C), or planes (K, C, R, S)
    g.step_filter = narrow(taps * channels), g.step_tap = narrow(planes ? 1 : channels),
    g.step_c = narrow(planes ? taps : 1);
  }
  return g;
}

DepthwiseImage depthwise_image(const plan::ConvTask& t, const plan::DepthwisePlan& plan, const void* memory,
                               std::int64_t pitch) {
  const Conv2d& c = t.conv;
  const plan::DepthwiseLayout l = plan::depthwise_layout(plan.config.strip, c, extents(t.contraction()));
  if (pitch == 0) pitch = c.c;
  DepthwiseImage d{};
  d.memory = memory;
  d.step_image = static_cast<u64>(c.h * c.w * pitch);
  d.step_h = c.w * pitch, d.step_w = pitch;
  d.height = narrow(c.h), d.width = narrow(c.w);
  d.lattice_h = l.lattice_h, d.lattice_w = l.lattice_w, d.strip_lines = plan.config.strip.lines;
  const std::int64_t of_image = l.across * l.down, of_band = l.across * l.band;
  d.strips = static_cast<u32>(l.strips), d.image_strips = static_cast<u32>(of_image);
  d.band_strips = static_cast<u32>(of_band), d.band_lines = static_cast<u32>(l.band);
  const auto by = [](std::int64_t x) { return divisor(static_cast<u64>(x)); };
  d.by_channel_tiles = by(plan.tiles_n), d.by_image = by(of_image), d.by_band = by(of_band), d.by_lines = by(l.band);
  return d;
}

namespace {

/// What does not depend on how a tile is loaded.
ConvGeometry common_geometry(const plan::ConvTask& task, const auto& plan) {
  const Conv2d& c = task.conv;
  const Extents e = extents(task.contraction());
  ConvGeometry g{};
  g.images = plan.images, g.rows = plan.rows, g.channels = static_cast<int>(c.k);
  g.tiles_m = plan.tiles_m, g.tiles_n = plan.tiles_n, g.tiles = plan.tiles;
  g.height = static_cast<int>(e.height), g.width = static_cast<int>(e.width);
  g.stride_h = static_cast<int>(c.stride[0]), g.stride_w = static_cast<int>(c.stride[1]);
  g.pad_h = static_cast<int>(c.pad[0]), g.pad_w = static_cast<int>(c.pad[1]);
  g.dilation_h = static_cast<int>(c.dilation[0]), g.dilation_w = static_cast<int>(c.dilation[1]);
  return g;
}

}  // namespace

ConvGeometry geometry(const plan::ConvTask& task, const plan::DepthwisePlan& p) {
  ConvGeometry g = common_geometry(task, p);
  g.taps_h = narrow(task.conv.r), g.taps_w = narrow(task.conv.s), g.splits = 1;
  set_divisors(g, 0);
  return g;
}

ConvGeometry geometry(const plan::ConvTask& task, const plan::ConvPlan& p) {
  const Conv2d& c = task.conv;
  ConvGeometry g = common_geometry(task, p);
  g.patches_across = p.patches_across;
  const bool gathers = p.config.by_hand();  // all taps and channels in one k
  g.taps_h = gathers ? 1 : narrow(c.r), g.taps_w = gathers ? 1 : narrow(c.s), g.channel_blocks = p.channel_blocks;
  g.splits = p.splits;
  set_divisors(g, p.config.group);
  return g;
}

void place_workspace(ConvParams& params, const plan::ConvPlan& plan, const plan::Epilogue& epilogue,
                     std::uint64_t base) {
  const plan::Workspace& w = plan.workspace;
  const bool exchanges = w.bytes > 0;
  if (epilogue.norm) {
    params.norm = {.slots = exchanges ? reinterpret_cast<Entry*>(base + w.slots) : nullptr,
                   .teams = exchanges ? reinterpret_cast<Entry*>(base + w.teams) : nullptr,
                   .slots_per_image = plan.slots_per_image,
                   .team_slots = plan.team_slots,
                   .teams_per_image = plan.teams_per_image,
                   .group_channels = static_cast<int>(epilogue.norm->group_channels),
                   .by_group_channels = divisor(static_cast<u64>(epilogue.norm->group_channels))};
  }
  if (!exchanges) return;
  if (epilogue.general) {
    const auto floats = [&](std::size_t at) { return reinterpret_cast<float*>(base + at); };
    params.folds = {floats(w.folds), floats(w.fold_results), floats(w.fold_rows),
                    reinterpret_cast<u32*>(base + w.fold_counters)};
  }
  const auto blocks = static_cast<u32>(plan.blocks);
  params.launch = {reinterpret_cast<u32*>(base + w.exits), blocks * kEpochs - 1, divisor(blocks), 0};
  if (plan.config.split)
    params.split = {reinterpret_cast<void*>(base + w.partials), reinterpret_cast<u32*>(base + w.flags)};
}

}  // namespace unisono::cuda
