#include "families/sm90_conv/planes_cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90/gathering.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// By all warps ahead of all else, then by three warps of each CTA: guesses, not measured. docs/plan.md has them too.
struct Constants {
  double convert_share = 0.8;    ///< share of memory's rate: what is read and what is written
  double convert_in_l2 = 0.5;    ///< times what is written ahead, if L2 has room for it: the tiles read it from there
  double convert_meet_us = 1.5;  ///< until all know that the first units are done
  double unit_clk = 2600;        ///< a spare warp's unit: two trips to memory, and one to flag it
  double beside_conversion = 0.04;  ///< what it adds to a main loop beside it
  // An element of a thread: slices that all four warps write; rows of 8 pixels; one by one
  double plane_shared = 1, plane_rows = 3, plane_elements = 20;
};
constexpr Constants k;

}  // namespace

ConversionTimes conversion_times(const ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  if (!p.config.operands.converted) return {};
  const Conv2d& c = problem.conv;
  const Conversion& v = p.conversion;
  const auto padded = static_cast<double>(sm90::converted_channels(c)), read = static_cast<double>(c.c);
  const double image = 2.0 * static_cast<double>(c.n * c.h * c.w), filter = 2.0 * static_cast<double>(c.k * c.r * c.s);
  const double share = static_cast<double>(v.ahead - v.filter_units) / std::max(1, v.units - v.filter_units);
  const double all = share * image + filter, bytes = all * padded;
  const double written = bytes * (bytes < 0.7 * static_cast<double>(device.l2_bytes) ? k.convert_in_l2 : 1.0);
  const double beside = std::ceil((v.units - v.ahead) / (3.0 * p.ctas)) * k.unit_clk;
  return {.ahead_us = k.convert_meet_us + (all * read + written) / (k.convert_share * device.memory_tbps) * 1e-6,
          .beside_us = beside * 1e-3 / device.clock_ghz,
          .beside_clk = k.beside_conversion * beside,
          .written = (1 - share) * image * padded};
}

double planes_clk(const ConvConfig& c, const sm90::ConvProblem& problem) {
  const int stores = std::max(1, problem.stores);
  if (c.features.stores == sm90::Stores::planes) return k.plane_elements * stores;
  if (c.features.stores != sm90::Stores::planes_tma) return 0;
  return ((c.schedule.swap ? 0 : k.plane_shared) + (c.two_dimensional() ? k.plane_rows : 0)) * stores;
}

}  // namespace unisono::families::sm90_conv
