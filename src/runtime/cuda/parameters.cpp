#include "runtime/cuda/parameters.hpp"

namespace coda::cuda {

ConvGeometry geometry(const Conv2d& c, const plan::ConvPlan& p) {
  const Extents e = extents(c);
  ConvGeometry g{};
  g.images = p.images, g.rows = p.rows, g.channels = static_cast<int>(c.k);
  g.tiles_m = p.tiles_m, g.tiles_n = p.tiles_n, g.tiles = p.tiles;
  g.height = static_cast<int>(e.height), g.width = static_cast<int>(e.width);
  g.patches_across = p.patches_across;
  g.taps_h = static_cast<int>(c.r), g.taps_w = static_cast<int>(c.s), g.channel_blocks = p.channel_blocks;
  g.splits = p.splits;
  g.stride_h = static_cast<int>(c.stride[0]), g.stride_w = static_cast<int>(c.stride[1]);
  g.pad_h = static_cast<int>(c.pad[0]), g.pad_w = static_cast<int>(c.pad[1]);
  g.dilation_h = static_cast<int>(c.dilation[0]), g.dilation_w = static_cast<int>(c.dilation[1]);
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
                   .group_channels = static_cast<int>(epilogue.norm->group_channels)};
  }
  if (!exchanges) return;
  params.launch = {reinterpret_cast<u32*>(base + w.epoch), reinterpret_cast<u32*>(base + w.exits)};
  if (plan.config.split)
    params.split = {reinterpret_cast<void*>(base + w.partials), reinterpret_cast<u32*>(base + w.flags)};
}

}  // namespace coda::cuda
