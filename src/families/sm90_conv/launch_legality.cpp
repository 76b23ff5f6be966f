#include <fmt/format.h>

#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/pieces.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// The largest workspace where accumulators wait in memory. GPUs of compute capability 9.0 have 80 GB and more, of
/// which operands and results need their share: results of 16 bits half as much again.
constexpr std::size_t largest_spill_bytes = std::size_t{32} << 30;

std::string_view whose_tiles(const sm90::ConvProblem& p) {
  return !p.visitor.returns ? "a row" : p.visitor.returns_all && p.extents.images > 1 ? "all images" : "an image";
}

std::optional<plan::Refusal> refuse_spill(const ConvPlan& plan, const sm90::ConvProblem& p) {
  if (!plan.config.spills() || plan.workspace_bytes <= largest_spill_bytes) return {};
  return sm90::unfit(
             "spill: accumulators of {} wait in memory for what elements read of all of them, in a workspace of {:.1f} "
             "GB; at most {:.1f}. {}tore what they read and let a separate kernel read it",
             whose_tiles(p), static_cast<double>(plan.workspace_bytes) * 1e-9,
             static_cast<double>(largest_spill_bytes) * 1e-9,
             p.visitor.returns_all && p.extents.images > 1 ? "Split the batch, or s" : "S")
      .exceeding(static_cast<double>(plan.workspace_bytes), static_cast<double>(largest_spill_bytes));
}

/// Tiles that wait for one another: all `image` tiles of an image, or those of a row; `held` are in flight at once.
std::optional<plan::Refusal> refuse_waiting(const ConvPlan& plan, const sm90::ConvProblem& p, std::int64_t image,
                                            std::int64_t held) {
  const ConvConfig& c = plan.config;
  const std::int64_t sharing = image * (p.visitor.returns_all ? plan.images : 1);
  if (p.visitor.returns && !c.spills() && sharing > held && sharing > 1)
    return sm90::unfit(
               "general: elements read reductions over rows of {} that {} tiles share and wait for, {} fit in flight. "
               "{}",
               p.visitor.returns_all ? "all images" : "an image", sharing, held,
               p.not_streamed.empty() ? "Store what they read and let a separate kernel read it" : p.not_streamed)
        .exceeding(static_cast<double>(sharing), static_cast<double>(held));
  if (c.meets() && !c.spills_rows() && plan.tiles_n > held)
    return sm90::unfit("{}: a row has {} tiles that wait for one another, {} fit in flight", to_string(c.mode()),
                       plan.tiles_n, held)
        .exceeding(plan.tiles_n, static_cast<double>(held));
  return refuse_spill(plan, p);
}

}  // namespace

std::optional<plan::Refusal> refuse_launch(const ConvPlan& plan, const sm90::ConvProblem& p, const plan::Device& d) {
  const ConvConfig& c = plan.config;
  if (plan.tiles >= largest_tile_count) return sm90::unfit("tiles: more than {}; split the batch", largest_tile_count);
  const std::int64_t tiles_m = c.two_dimensional() ? 0 : (plan.rows + c.tile.m - 1) / c.tile.m;
  if (c.schedule.cluster.n > 1 && (p.extents.cols + c.tile.n - 1) / c.tile.n < c.schedule.cluster.n)
    return sm90::unfit("cluster: {} tiles across the channels do not fill {} CTAs",
                       (p.extents.cols + c.tile.n - 1) / c.tile.n, c.schedule.cluster.n);
  if (c.schedule.cluster.m > 1 && !c.two_dimensional() && tiles_m < c.schedule.cluster.m)
    return sm90::unfit("cluster: {} tiles along the pixels do not fill {} CTAs", tiles_m, c.schedule.cluster.m);
  const std::int64_t clusters = clusters_in_flight(c, plan.tiles_n, d);
  if (clusters == 0)
    return sm90::unfit("stationary: {} tiles across the channels; that many clusters do not run at once", plan.tiles_n);
  if (c.schedule.split && plan.splits < 2)
    return 2 * plan.tiles > d.resident_ctas[1]
               ? sm90::unfit("split-K: {} tiles keep {} CTAs busy without", plan.tiles, d.resident_ctas[1])
                     .exceeding(plan.tiles, d.resident_ctas[1])
               : sm90::unfit("split-K: a tile is one load, there is nothing to split");
  const std::int64_t image = std::int64_t{plan.tiles_m} * plan.tiles_n * plan.splits,
                     held = clusters * c.schedule.consumer_groups();
  if (auto refusal = refuse_waiting(plan, p, image, held)) return refusal;
  if (c.mode() != sm90::NormMode::resident) return {};
  if (const std::int64_t waiting = items_that_wait(plan, p.group_channels); waiting > held && waiting > 1)
    return sm90::unfit("resident: {} {} tiles, {} fit in flight",
                       c.by_channels() ? "the channels of a tile's groups in an image have" : "an image has", waiting,
                       held)
        .exceeding(static_cast<double>(waiting), static_cast<double>(held));
  return {};
}

}  // namespace unisono::families::sm90_conv
