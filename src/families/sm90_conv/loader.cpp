#include "families/sm90_conv/loader.hpp"

#include <algorithm>

namespace unisono::families::sm90_conv {
namespace {

/// Each output pixel is a product of its own input pixel.
bool is_product(const Conv2d& c) { return c.r == 1 && c.s == 1 && c.stride == Pair(1) && c.pad == Margins(0); }

void finish(HaloTile& halo, const sm90::ConvProblem& p) {
  const auto reach = [](std::int64_t taps, std::int64_t dilation) {
    return static_cast<int>(std::min<std::int64_t>((taps - 1) * dilation, 1 << 12));
  };
  halo.of_plane = p.task.volume.has_value();
  halo.halo_h = reach(p.conv.r / p.filter_planes(), p.conv.dilation[0]),
  halo.halo_w = reach(p.conv.s, p.conv.dilation[1]);
  halo.by_parity = p.task.phases;
  if (!p.task.phases) return;
  halo.odd_h = sm90::taps_differ(p.task.transposed->r), halo.odd_w = sm90::taps_differ(p.task.transposed->s);
}

}  // namespace

Loader loader_of(sm90::Load load, const sm90::ConvProblem& p, const Im2colWindow& window) {
  switch (load) {
    case sm90::Load::halo: return HaloTile{};
    case sm90::Load::gather: return sm90::gathering_of(p.task);
    case sm90::Load::im2col_smem: return ExplicitIm2col{.window = window};
    case sm90::Load::im2col:
    case sm90::Load::depthwise: break;  // these kernels have no candidates for the latter
  }
  return Im2colTile{};
}

void finish_loader(Loader& loader, const sm90::ConvProblem& p) {
  using Box = Im2colTile::Box;
  if (auto* halo = std::get_if<HaloTile>(&loader)) {
    finish(*halo, p);
  } else if (auto* im2col = std::get_if<Im2colTile>(&loader)) {
    im2col->box = p.task.volume                                    ? Box::voxels
                  : p.task.columns_a || sm90::loads_planes(p.task) ? Box::columns
                  : is_product(p.conv) && !p.group_tiles           ? Box::rows
                                                                   : Box::pixels;
  }
}

}  // namespace unisono::families::sm90_conv
