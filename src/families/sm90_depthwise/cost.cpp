#include "families/sm90_depthwise/cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90/cost.hpp"

namespace unisono::families::sm90_depthwise {

int depthwise_rows_ahead(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  return s.taps_h == 0 || columns_in(s) * load_bytes(s, p) > 48 ? 1 : 2;  // Depthwise::kAhead
}

// Fitted to the assembler's reports: of some 200 random kernels a few spill some words
int depthwise_registers(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  const int columns = std::max(0, p.after.columns - 1) * s.channels, tensors = p.after.tensors * s.channels;
  const bool more = columns + tensors > 0 || p.stores > 1 || p.element_bytes() == 4;
  const int epilogue = columns + tensors + (p.visitor.general ? 24 : more ? 12 : 0);
  if (s.taps_h == 0) return 40 + 2 * s.channels + s.pixels * (2 * s.channels + 4) + epilogue;
  const int in = columns_in(s), kept = s.taps_h * s.taps_w * s.channels;
  return kept + overlap(s) * s.pixels * s.channels +
         (depthwise_rows_ahead(s, p) + 1) * in * static_cast<int>(divide_up(load_bytes(s, p), 4)) +
         in * (s.channels / s.multiplier) / 2 + 2 * in + 24 + epilogue;
}

double depthwise_instructions(const DepthwiseStrip& s, const sm90::ConvProblem& p) {
  const double elements = s.pixels * s.channels, taps = static_cast<double>(p.conv.r * p.conv.s);
  const double widen = p.element_bytes() == 2 ? s.channels / s.multiplier : 0.0;
  const double loads = 5 + std::max(1.0, static_cast<double>(load_bytes(s, p)) / 16) + widen;
  double rows_in = 0, multiplications = 0, sum_rows = s.rows;
  if (s.taps_h > 0) {
    rows_in = (s.rows - 1) * s.stride_h + s.taps_h;
    sum_rows += (overlap(s) - 1) / 2.0;
    multiplications = sum_rows * taps * elements;
    multiplications += rows_in * columns_in(s) * loads;
  } else {
    multiplications = s.rows * taps * (elements + s.pixels * (loads + 4) + 12);
  }
  const double epilogue = 1.5 + p.after.simple + 5.0 * p.after.special + 1.0 * p.after.tensors;
  return 280 + multiplications + s.rows * (s.pixels * 6.0 + elements * epilogue);
}

namespace {

/// Shares of the instructions that a scheduler can issue, and that one warp of it can; channels that lie together in
/// less than a line of a cache; not measured.
struct Constants : sm90::LaunchConstants {
  double issue = 0.8, warp_issue = 0.35, narrow_line = 0.04;
  double l2_tbps = 5.5, filter_loads = 16;  ///< the latter: by a thread, in one trip to memory ahead of all else
};
constexpr Constants k;

}  // namespace

double predict_depthwise_us(const DepthwisePlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const DepthwiseStrip& s = p.config.strip;
  const DepthwiseLayout l = depthwise_layout(s, problem.conv, problem.extents);
  const double instructions = depthwise_instructions(s, problem), warps = p.threads / 128.0;  // of a scheduler, a CTA
  const double rows_in =
      (s.rows - 1) * static_cast<double>(problem.conv.stride[0]) + static_cast<double>(problem.conv.r);
  const double waits = rows_in * k.load_clk / depthwise_rows_ahead(s, problem) + k.start_clk;
  const double filters = std::ceil(static_cast<double>(problem.conv.r * problem.conv.s) * p.config.tile_n / p.threads);
  double clocks = (std::ceil(filters / k.filter_loads) - 1) * k.load_clk;
  for (double left = std::ceil(static_cast<double>(p.ctas) / device.sms); left > 0; left -= s.ctas) {
    const double here = std::min<double>(left, s.ctas) * warps;
    clocks += std::max(here * instructions / std::min(k.issue, k.warp_issue * here), waits);
  }
  // What a CTA reads from L2: its strips' edges are read by others too
  const double strips = p.config.tile_m / static_cast<double>(s.rows * s.pixels),
               high = std::min<double>(l.band, strips);
  const auto side = [](double outputs, std::int64_t stride, std::int64_t taps) {
    return ((outputs - 1) * static_cast<double>(stride) + static_cast<double>(taps)) /
           (outputs * static_cast<double>(stride));
  };
  const double again = side(high * s.rows, problem.conv.stride[0], problem.conv.r) *
                       side(strips / high * s.pixels, problem.conv.stride[1], problem.conv.s);
  const double in = static_cast<double>(problem.conv.n * problem.conv.c) *
                    static_cast<double>(problem.conv.h * problem.conv.w * problem.element_bytes());
  const double memory = sm90::memory_us(problem, device), l2 = memory + in * (again - 1) / k.l2_tbps * 1e-6;
  const double together = std::min(
      128.0, p.config.tile_n / static_cast<double>(s.multiplier) * static_cast<double>(problem.element_bytes()));
  const double us = sm90::soft_max(
      {clocks * 1e-3 / device.clock_ghz, k.ramp_us + memory, k.ramp_us + l2 * device.memory_tbps / k.l2_tbps});
  return k.launch_us + us * (1 + k.narrow_line * std::log2(128 / together));
}

}  // namespace unisono::families::sm90_depthwise
