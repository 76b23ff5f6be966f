#include "families/sm90_conv/shared_memory.hpp"

#include "unisono/params/params.cuh"
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono::families::sm90_conv {
namespace {

bool second_pass(const ConvConfig& c) { return c.mode() == sm90::NormMode::streamed; }

int fetched(const ConvConfig& c) { return c.features.fetch.value_or(0); }

/// Bytes for the reductions of a general epilogue, and for those that are stored beside statistics.
shared_layout::Bytes fold_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  if (exchanges(c.mode())) return v.folds() ? shared_layout::fold_bytes(v.own_words, c.tile.n, v.tile_folds) : 0;
  if (c.mode() != sm90::NormMode::general) return 0;
  int places = 0;
  for (const int width : v.group_widths) places += (c.tile.n + width - 1) / width;
  const shared_layout::Bytes groups =
      places == 0 ? 0 : shared_layout::group_bytes(places, c.tile.m / c.schedule.warpgroups());
  return shared_layout::fold_bytes(v.own_words, c.tile.n, v.tile_folds) + groups +
         (c.features.in_shared ? shared_layout::element_bytes(c.tile.n) : 0);
}

shared_layout::EpilogueLayout epilogue_of(const ConvConfig& c, const plan::VisitorShape& v) {
  return shared_layout::epilogue_layout({.tile_n = c.tile.n,
                                         .rows = c.tile.m / c.schedule.warpgroups(),
                                         .store_buffers = c.features.store_buffers,
                                         .exchanges = exchanges(c.mode()),
                                         .by_rows = c.mode() == sm90::NormMode::rows,
                                         .second_pass = second_pass(c),
                                         .deferred = c.deferred(),
                                         .exchanged = v.exchanged,
                                         .stores_moments = c.features.moments > 0,
                                         .fetch = fetched(c),
                                         .fetches_before = v.short_tensors_before,
                                         .columns_before = v.columns_before,
                                         .columns_after = v.columns_after,
                                         .late_words = v.late_words,
                                         .side_before = v.side == plan::VisitorShape::Side::before,
                                         .side_after = v.side == plan::VisitorShape::Side::after,
                                         .folds = fold_bytes(c, v)});
}

shared_layout::StageLayout stage_of(const ConvConfig& c) {
  const HaloTile* halo = c.halo();
  return shared_layout::stage_layout({.tile_m = c.tile.m,
                                      .tile_n = c.tile.n,
                                      .step_bytes = static_cast<int>(c.tile.k * size_of(c.element)),
                                      .halo = halo != nullptr,
                                      .halo_h = halo ? halo->halo_h : 0,
                                      .halo_w = halo ? halo->halo_w : 0,
                                      .columns_b = c.columns_b(),
                                      .direct = c.gathered() && c.gathered()->direct,
                                      .products = c.operands.products});
}

shared_layout::CtaShape cta_of(const ConvConfig& c, const plan::VisitorShape& v) {
  const Im2colWindow* window = c.window();
  return {.stage = stage_of(c),
          .stages = c.schedule.stages,
          .stages_a = c.two_rings() ? c.activation_stages() : c.schedule.stages,
          .stages_b = window ? static_cast<int>(window->steps(c.tile.k)) : c.schedule.stages,
          .two_rings = c.two_rings(),
          .consumers = c.schedule.warpgroups() * c.schedule.consumer_groups(),
          .consumer_groups = c.schedule.consumer_groups(),
          .warpgroup = epilogue_of(c, v).bytes,
          .second_pass = second_pass(c),
          .per_consumer_group =
              shared_layout::second_pass_group(v.columns_after, v.exchanged == 0, c.tile.n, 4 * c.floats()),
          .own = shared_layout::second_pass_own(c.tile.n, c.features.store_buffers),
          .fetch_barriers = shared_layout::fetch_barriers(fetched(c), writes_together(c), c.features.store_buffers),
          .windows = window ? c.activation_stages() : 0,
          .window = window ? static_cast<shared_layout::Bytes>(window->window_bytes(c.tile.m)) : 0,
          .table = c.gathered() ? shared_layout::Bytes{c.tile.m} * shared_layout::kGatheredRow : 0,
          .units = c.operands.beside() ? 3 * kConvertedSlotBytes : 0};
}

}  // namespace

int slice_channels(int tile_n) { return shared_layout::slice_channels(tile_n); }

int stores_per_tile(const ConvConfig& config) {
  return config.tile.m / config.schedule.warpgroups() / 64 * (config.tile.n / slice_channels(config.tile.n));
}

bool writes_together(const ConvConfig& c) { return c.schedule.swap != (c.features.stores == sm90::Stores::planes_tma); }

std::size_t activation_stage_bytes(const ConvConfig& c) { return static_cast<std::size_t>(stage_of(c).a); }

std::size_t filter_stage_bytes(const ConvConfig& c) { return static_cast<std::size_t>(stage_of(c).b); }

std::size_t shared_bytes(const ConvConfig& c, const plan::VisitorShape& v) {
  return static_cast<std::size_t>(shared_layout::cta_layout(cta_of(c, v)).bytes);
}

}  // namespace unisono::families::sm90_conv
