#include "families/sm90_conv/merging_cost.hpp"

#include <cmath>

#include "families/sm90_conv/cost_constants.hpp"
#include "unisono/params/params.cuh"

namespace unisono::families::sm90_conv {
namespace {
constexpr CostConstants fitted;
}  // namespace

double meeting_clk(const ConvPlan& p) {
  const int across = p.tiles_n * p.config.schedule.cluster.n;
  return (across <= 4   ? fitted.meet_few_clk
          : across <= 8 ? fitted.meet_some_clk
                        : fitted.meet_many_clk) +
         fitted.meet_rows_clk * (p.config.tile.m / p.config.schedule.warpgroups() / 64 - 1) +
         (p.config.schedule.cluster.ctas() > 1 ? fitted.meet_cluster_clk : 0.0);
}

// A segment's slots, then the segments, and a counter ahead of either. A thread loads up to 32 floats of a channel's
// planes at once (folds_in_order of kernels/unisono/epilogue/folds.cuh).
double merging_clk(const ConvPlan& p, int planes) {
  if (planes == 0) return 0;
  const double together = planes > 4 ? 4 : 8;
  const int segments = fold_segments(p.slots_per_image),
            first = segments > 1 ? fold_segment_slots(p.slots_per_image) : 0,
            second = segments > 1 ? segments : p.slots_per_image;
  const double trips = std::ceil(first / together) + std::ceil(second / together);
  return fitted.merge_trip_clk * (std::ceil(p.config.tile.n / 128.0) * trips + (segments > 1 ? 2 : 1));
}

double stored_clk(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const int planes = problem.visitor.fold_planes;
  if (planes == 0) return 0;
  return merging_clk(p, planes) +
         fitted.merge_trip_clk *
             (std::ceil(p.config.tile.n / 128.0) * std::ceil(p.images / (planes > 4 ? 4.0 : 8.0)) + 1);
}

double returned_clk(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const int planes = problem.visitor.returned_planes;
  return merging_clk(p, planes) + fitted.merge_groups_clk * planes;
}

}  // namespace unisono::families::sm90_conv
