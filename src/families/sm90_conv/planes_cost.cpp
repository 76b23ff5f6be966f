#include "families/sm90_conv/planes_cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90/cost.hpp"
#include "families/sm90/gathering.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// By all warps ahead of all else, then by three warps of each CTA: fitted to suite nchw_ways on an H200
/// (docs/notes/hopper-conv.md). docs/plan.md has them too.
struct Constants {
  double convert_share = 0.72;    ///< share of memory's rate: what is read and what is written
  double convert_meet_us = 4;     ///< two trips to memory, and until all know that the first units are done
  double unit_clk = 12000;        ///< a spare warp's unit, of 8 KB: a trip to memory, and to L2 until it is flagged
  double beside_unit_clk = 1100;  ///< what a unit adds to a main loop beside it: shared memory's, and L2's, share
  double main_loop_share = 0.85;  ///< share of the tensor cores' rate that tiles reach
  // An element of a thread: slices that all four warps write; rows of 8 pixels by lanes, the same while others wait
  // for the tile; by TMA; one by one; and of halo tiles that wait in memory
  double plane_shared = 1, plane_octets = 30, plane_octets_resident = 80, plane_rows = 50, plane_elements = 20,
         plane_spilled = 300;
};
constexpr Constants k;

/// Units that spare warps convert in a microsecond.
double units_beside(const ConvPlan& p, const plan::Device& device) {
  return 3.0 * p.ctas * device.clock_ghz * 1e3 / k.unit_clk;
}

}  // namespace

double share_ahead(const ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const Conv2d& c = problem.conv;
  if (p.config.operands.ahead != sm90::Ahead::balanced) return p.config.operands.ahead == sm90::Ahead::all ? 1 : 0;
  const double flop = 2.0 * static_cast<double>(problem.extents.rows()) * static_cast<double>(c.k) *
                      static_cast<double>(problem.depth());
  const double tiles_us =
      std::max(flop / (k.main_loop_share * device.tensor_tflops) * 1e-6, sm90::memory_us(problem, device));
  const double units = static_cast<double>(p.conversion.units - p.conversion.filter_units);
  return std::clamp(1 - tiles_us * units_beside(p, device) / std::max(1.0, units), 0.0, 1.0);
}

ConversionTimes conversion_times(const ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  if (!p.config.operands.converted) return {};
  const Conv2d& c = problem.conv;
  const Conversion& v = p.conversion;
  const auto padded = static_cast<double>(sm90::converted_channels(c)), read = static_cast<double>(c.c);
  const double image = 2.0 * static_cast<double>(c.n * c.h * c.w), filter = 2.0 * static_cast<double>(c.k * c.r * c.s);
  const double share = static_cast<double>(v.ahead - v.filter_units) / std::max(1, v.units - v.filter_units);
  const double all = share * image + filter, written = all * padded;
  const double beside = std::ceil((v.units - v.ahead) / (3.0 * p.ctas)) * k.unit_clk;
  return {.ahead_us = k.convert_meet_us + (all * read + written) / (k.convert_share * device.memory_tbps) * 1e-6,
          .beside_us = beside * 1e-3 / device.clock_ghz,
          .beside_clk = k.beside_unit_clk * (v.units - v.ahead) / p.ctas,
          .written = (1 - share) * image * padded};
}

double planes_clk(const ConvConfig& c, const sm90::ConvProblem& problem, double spilled) {
  const int stores = std::max(1, problem.stores);
  if (c.features.stores == sm90::Stores::planes) return k.plane_elements * stores;
  if (c.features.stores != sm90::Stores::planes_tma) return 0;
  const double shared = c.schedule.swap ? 0 : k.plane_shared;
  if (!c.two_dimensional()) return shared * stores;
  const double octets = c.mode() == sm90::NormMode::resident ? k.plane_octets_resident : k.plane_octets;
  const double rows = c.features.fetch.value_or(0) > 0 ? k.plane_rows : octets;
  return (shared + rows) * stores + k.plane_spilled * spilled;
}

}  // namespace unisono::families::sm90_conv
