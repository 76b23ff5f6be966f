#include "plan/conv_cost.hpp"

#include <algorithm>
#include <cmath>

#include "plan/conv_geometry.hpp"

namespace coda::plan {
namespace {

/// All that is fitted, in one place; docs/plan.md gives the source of each. "clk" is clocks of one multiprocessor.
struct Constants {
  double clock_ghz = 1.755;   ///< where neither power nor heat bounds it
  double sustained = 0.90;    ///< of Device::tensor_tflops: what the power limit leaves of it
  double launch_us = 3.0;     ///< of a graph's node, from the end of the last
  double start_clk = 1500;    ///< barriers, descriptors, first loads of a block
  double tensor_ops = 4096;   ///< multiplications and additions a clk
  double shared_bytes = 130;  ///< a clk: instructions' operands and loads' writes
  double l2_bytes = 53;       ///< a clk and multiprocessor, all of them at work
  double load_clk = 900;      ///< from issuing a load to its data, under load
  double step_clk = 150;      ///< the shortest k-step: barrier, issue, release
  double im2col_line = 1.00;  ///< loads by runs against boxes
  double cluster = 1.03;      ///< a main loop whose stages are released across a cluster
  double pairs = 1.03;        ///< a main loop beside four consumer warpgroups
  // Epilogues: clk for each element that a thread holds, of one warp a scheduler.
  double store = 17, simple = 4, special = 15, column = 3, tensor = 12, side = 17;
  double statistics = 5;  ///< sums of an element
  double keep = 6;        ///< deferred: into shared memory
  double second = 17;     ///< deferred, streamed: out of shared memory, normalise
  double reload = 35;     ///< streamed: store, load back
  // Statistics of a tile: the reduction over lanes and warps, publishing, merging, columns.
  double exchange_clk = 1900, exchange_column_clk = 59;
  double odd_unit = 1.5;         ///< of the reduction where units have an odd number of channels
  double resident_wait = 0.43;   ///< of a row of main loops, for each row of the grid that an image spans
  double deferred_wait = 0.126;  ///< likewise, beyond the tiles in hand
  // An epilogue beside a main loop: what it adds to that, and how much longer it takes itself.
  double beside = 0.20, beside_pairs = 0.10, beside_second = 0.35;
  // Split-K: once, and for each partner's 128 channels.
  double split_clk = 2000, partner_clk = 3000;
  double quiet = 0.70;   ///< an exchange without main loops around it
  double ramp_us = 1.0;  ///< of memory-bound launches
};
constexpr Constants k;

double steps_of(const ConvPlan& p, const ConvProblem& problem) {
  const double loads = static_cast<double>(loads_per_tile(p.config, problem));
  return std::ceil(loads / p.splits) * (p.config.patch ? static_cast<double>(problem.conv.r) : 1.0);
}

/// Clocks of a k-step: the slowest of tensor cores, shared memory, second-level cache and the loads' latency.
double step_clk(const ConvPlan& p, const ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const double m = c.tile_m, n = c.tile_n, depth = c.tile_k, taps = c.patch ? static_cast<double>(problem.conv.r) : 1.0;
  const double tensor = 2 * m * n * depth / k.tensor_ops;
  const double a = static_cast<double>(activation_stage_bytes(c)) / taps,
               b = static_cast<double>(filter_stage_bytes(c));
  const double operands = depth / 16 * (m / 64) * (64 * 16 * 2 + n * 16 * 2);
  const double shared = (operands + a + b) / k.shared_bytes;
  const double l2 = (a / c.cluster_n + b / c.cluster_m) / k.l2_bytes;
  const double lead = c.patch ? std::min<double>(c.stages - 1, (c.stages_a - 1) * taps) : c.stages - 1;
  const double busy = std::max({tensor, shared, l2, k.load_clk / lead, k.step_clk});
  return busy * (c.cluster_m * c.cluster_n > 1 ? k.cluster : 1.0) *
         (c.turns == 2 && c.tile_warpgroups == 2 ? k.pairs : 1.0);
}

double visit(const Work& w) {
  return k.simple * w.simple + k.special * w.special + k.column * w.columns + k.tensor * w.tensors;
}

/// Of one warpgroup's share of a tile.
struct TileClocks {
  double main = 0, epilogue = 0, wait = 0;
};

/// Rows of the grid (a tile for each block) over which the items of an image spread.
double rows_of_image(const ConvPlan& p) {
  const double clusters = p.blocks / (p.config.cluster_m * p.config.cluster_n);
  return static_cast<double>(p.tiles_m) * p.tiles_n * p.splits / clusters;
}

TileClocks tile_clocks(const ConvPlan& p, const ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const double elements = static_cast<double>(c.tile_m) / c.tile_warpgroups * c.tile_n / 128;  // a thread
  TileClocks t;
  t.main = steps_of(p, problem) * step_clk(p, problem);
  double element = k.store + visit(problem.after) + (problem.stores > 1 ? k.side : 0.0);
  if (c.mode != NormMode::none) {
    element += visit(problem.before) + k.statistics;
    t.epilogue += k.exchange_clk + k.exchange_column_clk * c.tile_n * (c.unit % 2 == 0 ? 1.0 : k.odd_unit);
    if (c.mode == NormMode::resident)
      t.wait = k.resident_wait * rows_of_image(p) * t.main;
    else
      element += k.keep + k.second - k.store * 0.0;
    if (c.mode == NormMode::deferred) t.wait = k.deferred_wait * std::max(0.0, rows_of_image(p) - c.turns) * t.main;
    if (c.mode == NormMode::streamed) element += k.reload;
  }
  t.epilogue += element * elements;
  if (c.split) t.epilogue += k.split_clk + k.partner_clk * (p.splits - 1) * c.tile_n / 128;
  return t;
}

/// Clocks of the block with most tiles. Teams take turns at the main loop; a team's next tile waits for its epilogue.
double block_clk(const ConvPlan& p, const TileClocks& t, double tiles) {
  const ConvConfig& c = p.config;
  const bool second = c.mode == NormMode::deferred || c.mode == NormMode::streamed;
  const double beside = second ? k.beside_second : c.tile_warpgroups == 2 ? k.beside_pairs : k.beside;
  if (tiles <= 1) return k.start_clk + t.main + (c.mode == NormMode::none ? 1.0 : k.quiet) * t.epilogue;
  if (c.turns == 1) return k.start_clk + tiles * (t.main + t.epilogue + t.wait);
  const double alone = t.main + t.epilogue + t.wait;
  const double share = std::min(1.0, t.main / (alone / 2));  // of the time that a main loop runs beside an epilogue
  const double main = t.main + beside * share * t.epilogue, period = std::max(main, (main + t.epilogue + t.wait) / 2);
  return k.start_clk + tiles * period + std::min(main, t.epilogue);
}

double memory_us(const ConvPlan& p, const ConvProblem& problem, const Device& device) {
  const Conv2d& v = problem.conv;
  const double in = static_cast<double>(v.n * v.h * v.w) * static_cast<double>(v.c) * 2;
  const double filter = static_cast<double>(v.r * v.s * v.c) * static_cast<double>(v.k) * 2;
  const double out = static_cast<double>(problem.extents.rows()) * static_cast<double>(v.k);
  const double again = p.config.mode == NormMode::streamed ? 4.0 : 0.0;  // write, read back
  const double tensors = static_cast<double>(problem.before.tensor_bytes + problem.after.tensor_bytes);
  return (in + filter + out * (2.0 * problem.stores + again + tensors)) / device.memory_tbps * 1e-6;
}

}  // namespace

double predict_us(const ConvPlan& p, const ConvProblem& problem, const Device& device) {
  const ConvConfig& c = p.config;
  const double clusters = p.blocks / (c.cluster_m * c.cluster_n), items = static_cast<double>(p.tiles) * p.splits;
  const TileClocks t = tile_clocks(p, problem);
  const double clk = block_clk(p, t, std::ceil(items / clusters));
  const double executed =
      2.0 * p.tiles * c.cluster_m * c.cluster_n * c.tile_m * c.tile_n * c.tile_k * steps_of(p, problem) * p.splits;
  const double exposed =
      k.start_clk + std::min(t.main, t.epilogue) + (c.turns == 1 ? std::ceil(items / clusters) * t.epilogue : 0.0);
  const double to_us = 1e-3 / k.clock_ghz;
  const double powered = executed / (k.sustained * device.tensor_tflops) * 1e-6 + exposed * to_us;
  return k.launch_us + std::max({clk * to_us, powered, k.ramp_us + memory_us(p, problem, device)});
}

}  // namespace coda::plan
