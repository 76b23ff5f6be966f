#include "families/sm90_conv/cost.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90/cost.hpp"
#include "families/sm90_conv/cost_constants.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/loading_cost.hpp"
#include "families/sm90_conv/merging_cost.hpp"
#include "families/sm90_conv/pieces.hpp"
#include "families/sm90_conv/planes_cost.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "families/sm90_conv/steps.hpp"
#include "families/sm90_conv/streaming.hpp"
#include "families/sm90_conv/timed_tiles.hpp"
#include "unisono/params/sm90_group_slices.cuh"

namespace unisono::families::sm90_conv {
namespace {

constexpr CostConstants k;

/// Columns of a matrix instruction, and how many instructions multiply a k-step's channels.
GroupSlices slices_of(const ConvConfig& c) {
  const Operands& o = c.operands;
  if (!o.grouped()) return {.filters = c.multiplied_n(), .together = 0, .steps = c.tile.k / 16};
  GroupSlices s = group_slices(c.tile.n, o.group_channels, o.group_filters);
  if (c.schedule.swap) s.filters = c.tile.n;
  return s;
}

/// What a cluster's shared stages cost a k-step.
double clustered(const ConvConfig& c) {
  if (c.schedule.cluster.ctas() == 1) return 1;
  return c.halo() && c.halo()->of_plane ? k.plane_cluster : k.cluster;
}

/// Clocks of a k-step: the slowest of tensor cores, shared memory, L2 and the loads' latency.
double step_clk(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const GroupSlices slices = slices_of(c);
  const double m = c.tile.m, n = slices.filters, depth = c.operands.grouped() ? 16 * slices.steps : c.tile.k,
               taps = c.halo() ? static_cast<double>(problem.plane_taps()) : 1.0;
  const double bytes = static_cast<double>(size_of(c.element));
  const double tensor = m * n * depth * bytes / k.tensor_ops;
  // Im2col in shared memory: read, written, and read by the instructions; from L2 a window alone
  const double a = static_cast<double>(activation_stage_bytes(c)) * (c.window() ? 2 : 1) / taps,
               b = c.window() || c.operands.grouped() ? 0 : static_cast<double>(filter_stage_bytes(c));
  const double across = c.schedule.swap ? m / c.schedule.warpgroups() : n;  // columns of a matrix instruction
  const double operands = depth * (m * n / 64 / across) * (64 + across) * bytes;
  // Products with one tile a CTA: loads run ahead as far as the ring reaches, and hardly compete with the
  // instructions
  const bool once = c.loads(Im2colTile::Box::rows) && p.tiles * p.splits * c.schedule.cluster.ctas() <= p.ctas;
  // A few steps wait for memory, not for TMA's rows: 1000,1000,1000 by 128x80 in clusters of 2x2
  const bool far = c.meets() && steps_of(p, problem) > k.cold_steps,
             cold = once && steps_of(p, problem) <= k.cold_steps;
  const double filters = c.schedule.stationary && clusters_of(p) < p.tiles ? 0 : b;
  const double shared = (operands + (once ? 0.0 : a + filters)) / k.shared_bytes;
  const double loaded =
      c.window() ? static_cast<double>(c.window()->window_bytes(c.tile.m)) / c.window()->steps(c.tile.k) : a;
  const double l2 = (loaded / c.schedule.cluster.n + filters / c.schedule.cluster.m) /
                    (once && !far                         ? k.cold_bytes
                     : taps > 1 && !c.schedule.stationary ? k.halo_l2_bytes
                                                          : k.l2_bytes) *
                    (c.halo() && taps == 1 ? k.box : 1.0);
  const double activations = (c.activation_stages() - 1) * taps;
  const double lead = c.schedule.stationary ? activations
                      : c.halo()            ? std::min<double>(c.schedule.stages - 1, activations)
                                            : c.schedule.stages - 1;
  const double waits = c.window() ? im2col_clk(c)
                                  : std::max({k.load_clk / lead, (k.load_clk + k.held_steps * tensor) / (lead + 1),
                                              c.atoms() > 1 ? k.deep_step_clk : k.step_clk});
  const double busy = std::max({tensor, shared, l2, waits, gather_clk(c), cold ? 0 : rows_clk(c, problem, taps)});
  const bool pingpong2 = c.schedule.order == sm90::Order::pingpong2;
  return busy * (c.halo() && taps == 1 ? k.single_box : 1.0) * clustered(c) * (pingpong2 ? k.pingpong2 : 1.0) *
         (c.window() ? (c.schedule.swap ? 1.0 : k.im2col_pixels_first) * (pingpong2 ? k.im2col_pingpong2 : 1.0) : 1.0);
}

double narrow(int tile_n) {
  const int slice = slice_channels(tile_n);
  return slice == 64 ? 1.0 : slice == 32 ? k.slice_32 : slice == 16 ? k.slice_16 : k.slice_8;
}

double visit(const sm90::Work& w) {
  return k.simple * w.simple + k.special * w.special + k.column * w.columns + k.tensor * w.tensors;
}

/// Clocks of one warpgroup's part of a tile.
struct TileClocks {
  double main = 0, epilogue = 0, wait = 0;
  double waits = 0;  ///< resident, for other tiles: halves of the consumer groups' period, which `wait` has in the end
  double drain = 0;  ///< once: streamed, from the last statistics to the image's, and what was spilled of it
};

/// Rows of the grid (a tile for each CTA) over which the items of an image spread; by channels those of a tile across.
double rows_of_image(const ConvPlan& p) {
  return static_cast<double>(p.tiles_m) * (p.config.by_channels() ? 1 : p.tiles_n) * p.splits / clusters_of(p);
}

/// Clocks to merge a tile's columns, whose mean and M2 pass from lane to lane and warp to warp in units of so many
/// channels.
double columns_clk(const ConvConfig& c, int unit) {
  return c.schedule.swap ? k.swapped_column_clk * c.tile.n
                         : k.exchange_column_clk * c.tile.n * (unit % 2 == 0 ? 1.0 : k.odd_unit);
}

double resampled_clk(const ConvConfig& c) {
  return (c.features.resampling.upsampled ? k.upsampled : 0.0) + (c.features.resampling.pooled ? k.pooled : 0.0);
}

/// What such a tile spends on each of a thread's elements besides.
double met_element_clk(const ConvConfig& c, const sm90::ConvProblem& problem) {
  return k.met_tensor * (problem.fetchable - c.features.fetch.value_or(0)) +
         (c.schedule.consumer_groups() == 1 && !c.deferred() ? k.met_special_together : k.met_special) *
             problem.row_specials;
}

/// Passes over tiles that wait in memory, the first left out.
int spilled_passes(const ConvConfig& c, const sm90::ConvProblem& problem) {
  return c.spills_rows() ? problem.row_levels : problem.visitor.returning_levels;
}

/// Accumulators that wait in memory: a pass more over a tile for each level of what elements wait for, with the
/// epilogue's visits in each, and waits of an image's last tiles. Not measured.
void add_spilled(TileClocks& t, const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const double elements = static_cast<double>(c.tile.m) / c.schedule.warpgroups() * c.tile.n / 128;  // a thread
  const int passes = spilled_passes(c, problem);
  t.epilogue += (2.0 * k.keep + passes * (2.0 * k.reload + visit(problem.after))) * c.operands.products * elements;
  t.wait += passes * k.exchange_clk / std::max(1.0, rows_of_image(p) / c.schedule.consumer_groups());
  if (problem.visitor.returns)  // images follow one another
    t.drain += p.images * (returned_clk(p, problem) + merging_clk(p, problem.visitor.fold_planes));
}

/// The share of tiles, 0 to 1, that a streamed plan stores and reads back until their image is complete.
double spilled_share(const ConvPlan& p) {
  if (p.config.mode() != sm90::NormMode::streamed) return 0;
  return std::max(0.0, 1 - p.config.schedule.consumer_groups() / rows_of_image(p));
}

/// Clocks of an element of a streamed plan: kept until the image is complete, then normalised. What moves a waiting
/// tile moves so many planes.
double waiting_element_clk(const ConvPlan& p) {
  const StreamedStatistics& streamed = *p.config.streamed();
  double element = (k.keep + k.reload * spilled_share(p)) * streamed.planes() + k.second;
  if (streamed.wide) element += p.config.schedule.order == sm90::Order::pingpong2 ? k.wide_pingpong2 : k.wide;
  return element;
}

void add_reductions(TileClocks& t, const ConvPlan& p, const sm90::ConvProblem& problem) {
  const plan::VisitorShape& v = problem.visitor;
  if (p.config.deferred()) {  // others have published by then
    t.epilogue += p.config.schedule.consumer_groups() == 1 ? k.deferred_clk : k.deferred_pingpong_clk;
    t.drain += meeting_clk(p) + t.epilogue / 2;
  } else if (p.config.meets()) {
    t.epilogue += meeting_clk(p) * std::max(1, v.returned_levels);
  }
  if (p.config.meets() && v.returns && !p.config.spills()) t.epilogue += returned_clk(p, problem);
  if (v.exchanged > 0 || v.returns) t.drain += stored_clk(p, problem);
}

/// What statistics cost that tiles exchange; an element of a thread, and the rest in `t`.
double add_exchange(TileClocks& t, const ConvPlan& p, int group_channels, double elements, bool has_taps) {
  const ConvConfig& c = p.config;
  const double rows = static_cast<double>(items_that_wait(p, group_channels)) / clusters_of(p),
               groups = c.schedule.consumer_groups();
  // Streamed, tiles of one image and the same channels that follow one another read them once
  const bool once = c.streamed() && (p.tiles_n == 1 || c.schedule.stationary || c.streamed()->by_channels);
  t.epilogue += columns_clk(c, c.unit()) + gathering_clk(p, group_channels) * (once ? std::min(1.0, 1 / rows) : 1.0);
  if (c.mode() == sm90::NormMode::resident) {
    t.epilogue += k.exchange_clk;
    t.waits = k.first_row_wait * std::min(1.0, rows) + k.further_row_wait * std::max(0.0, rows - 1);
    return 0;
  }
  t.epilogue += k.publish_clk;
  t.wait = has_taps ? 0 : k.second_clk;  // hidden by main loops of several taps
  t.drain += k.exchange_clk + k.drain * c.streamed()->planes() * elements * std::max(0.0, std::ceil(rows / groups) - 1);
  return waiting_element_clk(p);
}

TileClocks tile_clocks(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const double elements = static_cast<double>(c.tile.m) / c.schedule.warpgroups() * c.tile.n / 128;  // a thread
  TileClocks t;
  t.main = c.gathered() && c.gathered()->direct ? static_cast<double>(problem.depth()) * elements * k.direct
                                                : steps_of(p, problem) * step_clk(p, problem);
  double element = k.store * narrow(c.tile.n) + visit(problem.after) + (problem.stores > 1 ? k.side : 0.0) +
                   planes_clk(c, problem, spilled_share(p)) + resampled_clk(c);
  if (const int fetched = c.features.fetch.value_or(0); fetched > 0) {
    element -= (k.tensor - k.fetched) * fetched;
    t.epilogue += k.refill_clk * (stores_per_tile(c) - c.features.store_buffers);
  }
  if (c.mode() != sm90::NormMode::none) element += visit(problem.before) + k.statistics;
  if (problem.visitor.exchanged > 0)  // a normalisation has two sums
    element += k.statistics * ((problem.visitor.exchanged + problem.visitor.fold_words) / 2.0 - 1);
  if (c.features.moments > 0) {  // as the sums of a normalisation, and the values once more: rounded, then packed
    element += k.statistics + k.round;
    t.epilogue += k.publish_clk + columns_clk(c, c.features.moments);
  }
  if (c.meets()) element += met_element_clk(c, problem);
  if (c.deferred()) element += k.deferred;
  add_reductions(t, p, problem);
  if (exchanges(c.mode()))
    element += add_exchange(t, p, problem.group_channels, elements, problem.conv.r * problem.conv.s > 1);
  t.epilogue += element * elements;
  // Windows that are one step: 62.1 us at 8,256,256,3,64,3, which is main loops, not halves of a period
  const bool by_halves = c.schedule.consumer_groups() > 1 && !c.window();
  t.wait += t.waits * (by_halves ? std::max(t.main, (t.main + t.epilogue) / 2) : t.main);
  if ((exchanges(c.mode()) || c.meets()) && c.schedule.order == sm90::Order::pingpong2)
    t.epilogue *= k.pingpong2_statistics;
  if (c.schedule.split) t.epilogue += k.split_clk + k.partner_clk * (p.splits - 1) * c.tile.n / 128;
  return t;
}

/// Tiles wait for those of their row, whose accumulators all wait meanwhile.
bool waits_for_rows(const ConvPlan& p, const sm90::ConvProblem& problem) {
  return p.config.meets() && !p.config.deferred() && !problem.visitor.returns && !p.config.spills();
}

/// Clocks of the CTA with most tiles. Consumer groups take turns at the main loop; a group's next tile waits for its
/// epilogue.
double cta_clk(const ConvPlan& p, const sm90::ConvProblem& problem, const TileClocks& t, double tiles) {
  const ConvConfig& c = p.config;
  const bool second = c.mode() == sm90::NormMode::streamed;
  const double start = k.start_clk + fill_clk(c);
  const double beside = second ? k.beside_second : c.schedule.warpgroups() == 2 ? k.beside_pingpong2 : k.beside;
  const double quiet = exchanges(c.mode()) ? k.quiet : 1.0;
  if (tiles <= 1) return start + t.main + quiet * t.epilogue + t.drain;
  if (c.schedule.consumer_groups() == 1 && waits_for_rows(p, problem))
    return start + rounds_that_meet_clk(p, t.main + k.drain_clk, quiet * t.epilogue + t.wait) + t.drain;
  if (c.schedule.consumer_groups() == 1)
    return start + tiles * (t.main + (c.deferred() ? 0.0 : k.drain_clk) + quiet * t.epilogue + t.wait) + t.drain;
  // of the time that a main loop runs beside an epilogue
  const double share = std::min(1.0, 2 * t.main / (t.main + t.epilogue + t.wait));
  const double epilogue = t.epilogue * (quiet + (1 - quiet) * share), main = t.main + beside * share * t.epilogue;
  if (waits_for_rows(p, problem)) return start + rounds_that_meet_clk(p, main, epilogue + t.wait) + t.drain;
  const double period = std::max(main, (main + epilogue + t.wait) / 2);
  return start + tiles * period + std::min(main, quiet * t.epilogue) + t.drain;
}

/// Im2col in shared memory, and tiles of several groups: of the filters, which come once, ahead of the first tile.
double filters_clk(const ConvConfig& c) {
  if (c.operands.grouped())
    return std::ceil(c.tile.n * c.schedule.stages * std::ceil(c.operands.group_channels / 8.0) / 256 / 9) *
           k.filters_clk;
  if (!c.window()) return 0;
  return std::ceil(c.tile.n * c.window()->steps(c.tile.k) * c.tile.k / 8 / 128.0 / 4) * k.filters_clk;
}

/// Dual products, beside what the model knows of them.
double pair(const ConvConfig& c) {
  if (c.operands.products == 1) return 1;
  const bool plain = c.mode() != sm90::NormMode::general || (c.tile.m == 128 && c.tile.n == 128);
  return (plain ? 1.0 : k.general_pair) * (c.tile.n % 64 == 0 ? 1.0 : k.ragged_pair);
}

/// Bytes of an element: streamed, tiles that wait in memory are written and read back.
double spilled_bytes(const ConvPlan& p, const sm90::ConvProblem& problem) {
  if (p.config.spills()) return 4.0 * p.config.operands.products * (1 + spilled_passes(p.config, problem));
  return p.config.streamed() ? 4.0 * p.config.streamed()->planes() * spilled_share(p) : 0.0;
}

/// Bytes that the order adds, by channels, as an image beyond L2 is read for each tile across, and that hints save.
double order_bytes(const ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& d) {
  const StreamedStatistics* s = p.config.streamed();
  const double image = static_cast<double>(problem.conv.h * problem.conv.w * problem.conv.c * problem.element_bytes());
  const auto l2 = static_cast<double>(d.l2_bytes);
  const double again = p.config.by_channels() && image > l2 / 2 ? (p.tiles_n - 1) * image : 0.0;
  const double kept = s && s->hints ? std::min(spilled_beyond_l2(*s, problem, d), k.hinted * l2) : 0.0;
  return static_cast<double>(problem.conv.n) * (again - kept);
}

}  // namespace

double predict_us(const ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const ConvConfig& c = p.config;
  const double clusters = clusters_of(p), items = static_cast<double>(p.tiles) * p.splits;
  TileClocks t = tile_clocks(p, problem);
  if (c.spills()) add_spilled(t, p, problem);
  const ConversionTimes converted = conversion_times(p, problem, device);
  const double clk = cta_clk(p, problem, t, std::ceil(items / clusters)) + filters_clk(c) + converted.beside_clk;
  const double executed = static_cast<double>(size_of(c.element)) * p.tiles * c.schedule.cluster.ctas() * c.tile.m *
                          c.multiplied_n() * c.tile.k * steps_of(p, problem) * p.splits;
  const double clocks = k.launch_us + clk * 1e-3 / device.clock_ghz;
  const bool plane = c.halo() && c.halo()->of_plane && p.tiles_n == 1;
  const double power = executed / (k.sustained * device.tensor_tflops) * 1e-6 * (plane ? k.plane_power : 1.0);
  const double memory = k.launch_us + k.ramp_us + sm90::memory_us(problem, device, spilled_bytes(p, problem)) +
                        converted.written / device.memory_tbps * 1e-6;
  const double order = k.ordered * order_bytes(p, problem, device) / device.memory_tbps * 1e-6;
  const double ragged = !c.meets() || c.tile.n % 64 == 0    ? 1.0
                        : c.schedule.consumer_groups() == 1 ? k.ragged_rows_together
                                                            : k.ragged_rows;
  return (sm90::soft_max({clocks, power, memory, k.launch_us + converted.beside_us}) + order + converted.ahead_us) *
         (was_timed(c) ? 1.0 : k.unmeasured) * (c.atoms() > 1 ? k.deep : 1.0) * ragged * pair(c) *
         (c.resident() && c.by_channels() ? k.by_channels : 1.0);
}

}  // namespace unisono::families::sm90_conv
