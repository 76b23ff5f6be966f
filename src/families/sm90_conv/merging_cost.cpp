#include "families/sm90_conv/merging_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "families/sm90_conv/cost_constants.hpp"
#include "families/sm90_conv/pieces.hpp"
#include "unisono/params/params.cuh"
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono::families::sm90_conv {
namespace {
constexpr CostConstants fitted;
}  // namespace

double meeting_clk(const ConvPlan& p) {
  const int across = p.tiles_n * p.config.schedule.cluster.n;
  if (p.tiles_n == 1 && p.config.schedule.consumer_groups() == 1)
    return p.channel_blocks > fitted.cold_steps ? fitted.meet_in_cluster_clk : fitted.meet_cold_cluster_clk;
  return (across <= 4   ? fitted.meet_few_clk
          : across <= 8 ? fitted.meet_some_clk
                        : fitted.meet_many_clk) +
         fitted.meet_rows_clk * (p.config.tile.m / p.config.schedule.warpgroups() / 64 - 1) +
         fitted.meet_cluster_clk * p.config.schedule.consumer_groups() *
             ((p.config.schedule.cluster.m > 1) + (p.config.schedule.cluster.n > 1));
}

double rounds_that_meet_clk(const ConvPlan& p, double main, double epilogue) {
  const int clusters = p.ctas / p.config.schedule.cluster.ctas(),
            groups = clusters * p.config.schedule.consumer_groups();
  // Rows that straddle rounds delay the launch once: what follows so many rounds takes as long as what came before
  const int simulated = std::min(p.tiles, std::max(fitted.simulated_rounds * groups, p.tiles_n));
  std::vector<double> multiplied(clusters), left(groups);  // when a CTA's last main loop ends, a group's last epilogue
  for (int first = 0; first < simulated; first += p.tiles_n) {
    const int end = std::min(simulated, first + p.tiles_n);
    double complete = 0;
    for (int i = first; i < end; ++i) {
      double& cta = multiplied[i % clusters];
      cta = std::max(cta, left[i % groups]) + main;
      complete = std::max(complete, cta);
    }
    for (int i = first; i < end; ++i) left[i % groups] = complete + epilogue;
  }
  return std::ranges::max(left) * p.tiles / simulated;
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

// As GroupStatistics of kernels/unisono/exchange/statistics_exchange.cuh reads them; a resident plan may have less
// scratch.
double gathering_clk(const ConvPlan& p, int group_channels) {
  const ConvConfig& c = p.config;
  const bool streamed = c.mode() == sm90::NormMode::streamed;
  const int n = c.tile.n, width = group_channels, threads = streamed ? 32 : 128, segments = p.segments_per_image;
  const int touched = n % width == 0 ? n / width : width % n == 0 ? 1 : (n - 2) / width + 2;  // at most
  const int per = c.cut() ? (width - 2) / n + 2 : width / c.unit(),
            pieces = c.cut() && width < n ? touched + 2 : touched * per;
  const auto rounds = [](int count, int at_once) { return std::ceil(static_cast<double>(count) / at_once); };
  if (pieces > shared_layout::second_pass_scratch(n))
    return fitted.merge_trip_clk * per * rounds(n, threads) * rounds(segments, 4);
  int lanes = 1;
  while (2 * lanes <= std::min(32, segments) && 2 * lanes * pieces <= threads) lanes *= 2;
  double trips = rounds(pieces, threads / lanes) * rounds(segments, lanes * (streamed ? 4 : 8)) - 1;
  if (p.segment_slots > 1) trips += rounds(pieces_of_tile(c, width), p.segment_slots * 4) - 1;
  const double messages = fitted.merge_trip_clk * trips;
  if (per == 1) return messages;
  const int together = std::min(32, static_cast<int>(std::bit_floor(static_cast<unsigned>(per))));
  return messages + rounds(touched, threads / together) * (rounds(per, together) * fitted.unit_clk + fitted.units_clk);
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
