#include "families/plain/cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/plain/problem.hpp"
#include "support/dtypes.hpp"

namespace unisono::families::plain {
namespace {

constexpr double launch_us = 3, phase_us = 3;
/// Share of the multiply-adds that a kernel reaches, by what a thread reads for one: not measured.
constexpr double best_share = 0.6, direct_share = 0.05;
constexpr double tensor_share = 0.8;

double share_of(const Tiling& t) {
  if (t.direct) return direct_share;
  const double sums = t.each_m * t.each_n, reads = t.each_m + t.each_n;
  return best_share * sums / (sums + 4 * reads);
}

double multiply_us(const PlainPlan& p, const Workload& w) {
  const Tiling& t = p.config.tiling;
  const Conv2d& c = w.task.conv;
  const auto depth = static_cast<double>(c.r * c.s * (c.c / c.groups));
  const double steps = t.direct ? depth : std::ceil(depth / t.tile_k) * t.tile_k;
  const double clocks_of_tile = w.task.products * t.tile_m * t.tile_n * steps / (w.device.lanes * share_of(t));
  // Several CTAs share an SM, so that a last round that is not full takes less than a whole one
  const double rounds = static_cast<double>(p.tiles) / w.device.sms;
  return std::max(1.0, rounds) * clocks_of_tile * 1e-3 / w.device.clock_ghz;
}

double operand_bytes(const Workload& w) {
  const Conv2d& c = w.task.conv;
  const auto of = [](DType t) { return static_cast<double>(size_of(t)); };
  const auto product = [](auto... x) { return (static_cast<double>(x) * ...); };
  return product(c.n, c.h, c.w, c.c) * of(c.dtype_x) +
         product(c.r, c.s, c.c / c.groups, c.k, w.task.batched ? c.n : 1, w.task.products) * of(c.dtype_w);
}

// Results and operands [m,n], and twice the values that wait for statistics
double memory_us(const Workload& w) {
  const Extents e = extents(w.task.contraction());
  const double elements = static_cast<double>(e.rows()) * static_cast<double>(e.cols);
  double each = 0;
  for (const Store& s : w.epilogue.graph.stores) each += static_cast<double>(size_of(s.dtype));
  each += 2.0 * static_cast<double>(w.epilogue.ahead_of_stages().tensors.size() + w.epilogue.reads.tensors.size());
  if (w.epilogue.norm()) each += 4 * 4;  // written, and read for mean, variance and result
  return (operand_bytes(w) + elements * each) / w.device.memory_tbps * 1e-6;
}

}  // namespace

double predict_us(const PlainPlan& p, const Workload& w) {
  return launch_us + std::max(multiply_us(p, w), memory_us(w)) + (w.epilogue.norm() ? 2 * phase_us : 0);
}

double tensor_core_us(const Workload& w) {
  const Conv2d& c = w.task.conv;
  const double rate = tensor_share * w.device.tensor_tflops / support::matrix_time(c.dtype_x);
  return launch_us + std::max(w.task.products * flop(w.task.contraction()) / rate * 1e-6, memory_us(w));
}

}  // namespace unisono::families::plain
