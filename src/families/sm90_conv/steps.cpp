#include "families/sm90_conv/steps.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90_conv/cost_constants.hpp"
#include "families/sm90_conv/geometry.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// Taps of a halo tile that are multiplied. Phases that differ in theirs take turns: a CTA with several tiles has about
/// as many of each, one with a tile alone may have the most.
double taps_of(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const auto most = static_cast<double>(problem.plane_taps());
  const HaloTile& halo = *p.config.halo();
  if (!halo.odd_h && !halo.odd_w) return most;
  const double mean = (static_cast<double>(problem.conv.r) - (halo.odd_h ? 0.5 : 0)) *
                      (static_cast<double>(problem.conv.s) - (halo.odd_w ? 0.5 : 0)),
               tiles = std::ceil(static_cast<double>(p.tiles) * p.splits / clusters_of(p));
  return mean + (most - mean) * std::max(1 / tiles, CostConstants{}.void_tap);
}

}  // namespace

int clusters_of(const ConvPlan& p) { return p.ctas / p.config.schedule.cluster.ctas(); }

double steps_of(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const double loads = static_cast<double>(loads_per_tile(p.config, problem));
  return std::ceil(loads / p.splits) * (p.config.halo() ? taps_of(p, problem) : 1.0);
}

}  // namespace unisono::families::sm90_conv
