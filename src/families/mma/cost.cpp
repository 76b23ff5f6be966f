#include "families/mma/cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/mma/epilogue.hpp"
#include "families/mma/problem.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::mma {
namespace {

// What is not measured is by the order of magnitude that kernels of this kind have.
constexpr double launch_us = 3;
constexpr double exchange_us = 2.5;             // a round of statistics
constexpr double share_us = 2.5;                // until another CTA's sums are there
constexpr double share_bytes_of_clock = 24;     // of an SM, which reads them
constexpr double shared_bytes_of_clock = 128;   // of an SM
constexpr double latency_clk = 1000;            // from a copy's begin to its end, under load
constexpr double barrier_clk = 40;              // of a step
constexpr double fill_clk = 1500;               // until the first step of a tile is there
constexpr double element_clk = 0.3;             // of an element's way from registers to memory, by an SM
constexpr double operation_clk = 0.02;          // and of each operation
constexpr double alone = 0.8, together = 0.92;  // of the tensor cores' rate that one CTA, and several, keep
/// What mma.sync reaches of the rates of wgmma and tcgen05, by which such devices are known.
constexpr double share_of_wgmma = 0.62, share_of_tcgen05 = 0.45;

double share_of(const plan::Device& d) { return d.major == 9 ? share_of_wgmma : d.major == 10 ? share_of_tcgen05 : 1; }

/// Clocks of an SM's tensor cores, and of its shared memory, for a step of a tile.
double step_clk(const Config& c, const plan::Device& d) {
  const Tiling& t = c.tiling;
  const double rate = d.tensor_tflops * 1e3 * share_of(d) / (d.sms * d.clock_ghz) / support::matrix_time(c.element);
  const double products = 2.0 * t.m * c.products * t.n * t.k / rate;
  const double step = static_cast<double>(t.k) * static_cast<double>(c.element_bytes());
  const double fragments = 4.0 * t.warpgroups * (16.0 * t.blocks() + c.products * t.n) * step;  // that four warps read
  const double copies = (t.m + c.products * t.n) * step * (16.0 / std::min(c.image.copy, c.filter.copy) + 1) / 2;
  const double busy =
      std::max(products / (c.ctas_of_sm > 1 ? together : alone), (fragments + copies) / shared_bytes_of_clock);
  // Copies are under way while the stages ahead, of all CTAs of the SM, are multiplied
  const double stall = std::max(0.0, latency_clk - (t.stages - 1) * busy * c.ctas_of_sm) / (t.stages * c.ctas_of_sm);
  return busy + stall + barrier_clk / c.ctas_of_sm;
}

double epilogue_clk(const Config& c, const Workload& w) {
  const double passes = c.mode == Mode::none       ? 1
                        : c.mode == Mode::general  ? 2.5 + 1.5 * passes_over_memory(c, w.epilogue)
                        : c.mode == Mode::streamed ? 2.2
                                                   : 1.7;
  const double operations = static_cast<double>(w.epilogue.graph.nodes.size());
  return c.tiling.m * c.tiling.n * (element_clk * passes + operation_clk * operations);
}

/// Clocks of an SM in which a tile's parts are added.
double share_clk(const Config& c) {
  return 4.0 * (c.parts - 1) * c.tiling.m * c.products * c.tiling.n / share_bytes_of_clock;
}

double memory_us(const MmaPlan& p, const Workload& w) {
  const Conv2d& c = w.task.conv;
  const Extents e = extents(w.task.contraction());
  const auto product = [](auto... x) { return (static_cast<double>(x) * ...); };
  double bytes = product(c.n, c.h, c.w, c.c, size_of(c.dtype_x)) +
                 product(c.r, c.s, c.c / c.groups, c.k, w.task.batched ? c.n : 1, w.task.products, size_of(c.dtype_w));
  double each =
      2.0 * static_cast<double>(w.epilogue.ahead_of_stages().tensors.size() + w.epilogue.reads.tensors.size());
  for (const Store& s : w.epilogue.graph.stores)
    if (w.epilogue.graph[s.value].axes == axes::mn) each += static_cast<double>(size_of(s.dtype));
  const double waiting = product(p.rows, e.cols) * 4;  // written and read, in L2 where an image fits there
  const bool far = waiting > static_cast<double>(w.device.l2_bytes) / 2;
  if (p.config.mode == Mode::streamed) each += far ? 8 : 2;
  if (p.config.spills) each += (far ? 4 : 1) * p.config.products * (1 + passes_over_memory(p.config, w.epilogue));
  bytes += product(e.rows(), e.cols) * each;
  return bytes / w.device.memory_tbps * 1e-6;
}

}  // namespace

double predict_us(const MmaPlan& p, const Workload& w) {
  const Config& c = p.config;
  const double depth = static_cast<double>(depth_of(w.task)) / static_cast<double>(phases_of(w.task).count),
               steps = std::ceil(depth / c.tiling.k);  // of a phase on average
  const double loop = std::ceil(steps / c.parts) * step_clk(c, w.device),
               rest = epilogue_clk(c, w) + fill_clk + share_clk(c);
  // The epilogue of one CTA is beside the main loop of another
  const double tile = c.ctas_of_sm > 1 ? std::max(loop + rest / c.ctas_of_sm, rest) : loop + rest;
  const double rounds = std::ceil(static_cast<double>(p.tiles) * c.parts / w.device.sms);
  const double first = loop + rest;  // of the tile that nothing is beside
  const double clocks = std::max(first, rounds * tile + (c.ctas_of_sm > 1 ? rest / 2 : 0));
  const double busy_us = clocks * 1e-3 / w.device.clock_ghz;
  const double shares = c.parts > 1 ? share_us : 0;
  const double waits = exchanges(c.mode) ? exchange_us : c.meets ? 1.5 * exchange_us : 0;
  return launch_us + waits + shares + std::max(busy_us, memory_us(p, w));
}

}  // namespace unisono::families::mma
