#include "plan/conv_geometry.hpp"

#include <algorithm>

namespace coda::plan {
namespace {

constexpr std::size_t entry_bytes = 16;  // mean, M2, count, tag

std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

int cluster_blocks(const ConvConfig& c) { return c.cluster_m * c.cluster_n; }

std::int64_t items_of(const ConvPlan& p) { return std::int64_t{p.tiles} * p.splits; }

/// Parts start at multiples of 256 bytes.
std::size_t take(std::size_t& used, std::size_t bytes) {
  const std::size_t at = (used + 255) / 256 * 256;
  used = at + bytes;
  return at;
}

void lay_out_tiles(ConvPlan& p, const ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const Extents& e = problem.extents;
  const bool per_image = c.patch || problem.per_image;
  p.images = static_cast<int>(per_image ? e.images : 1);
  p.rows = static_cast<int>(per_image ? e.rows_per_image() : e.rows());
  p.patches_across = static_cast<int>(divide_up(problem.phase_width(), 8));
  const std::int64_t tiles_m =
      c.patch ? divide_up(problem.phase_height(), c.tile_m / 8) * p.patches_across : divide_up(p.rows, c.tile_m);
  p.tiles_m = static_cast<int>(divide_up(tiles_m, c.cluster_m));
  p.tiles_n = static_cast<int>(divide_up(divide_up(e.cols, c.tile_n), c.cluster_n)) * problem.phases();
  p.tiles =
      static_cast<int>(std::min<std::int64_t>(std::int64_t{p.tiles_m} * p.tiles_n * p.images, largest_tile_count));
  p.channel_blocks = c.unfold ? c.unfold->steps(c.tile_k)
                              : static_cast<int>(c.gather  ? divide_up(problem.depth(), c.tile_k)
                                                 : c.patch ? divide_up(problem.conv.c, c.tile_k)
                                                           : divide_up(problem.conv.c, c.atom_k()));
}

/// Entries of an image pass from all slots to all tiles in one step if a crew loads them at once, eight a thread of a
/// warpgroup, four of a warp. Else slots form teams, as few as there can be, each of which warps merge first.
void lay_out_statistics(ConvPlan& p) {
  const int at_once = p.config.mode == NormMode::streamed ? 4 * 32 : 8 * 128, units = p.config.tile_n / p.config.unit;
  p.team_slots = 1;
  if (std::int64_t{p.slots_per_image} * units > at_once)
    p.team_slots = static_cast<int>(divide_up(p.slots_per_image, divide_up(p.slots_per_image, largest_team)));
  p.teams_per_image = static_cast<int>(divide_up(p.slots_per_image, p.team_slots));
}

/// General: as FoldColumns of kernels/coda/fold_columns.cuh finds them.
void lay_out_folds(Workspace& w, const ConvPlan& p, const ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const VisitorShape& v = problem.visitor;
  const bool reduces = v.own_words + v.tile_folds > 0;
  if (!reduces && !c.wide) return;
  const auto images = static_cast<std::size_t>(p.images),
             across = static_cast<std::size_t>(p.tiles_n) / problem.phases() * c.cluster_n;
  const std::size_t slots = images * p.slots_per_image, wide = across * c.tile_n;
  const std::size_t planes = v.fold_planes + v.returned_planes, tiles = v.tile_folds;
  w.folds = take(w.bytes, 4 * (planes * slots * wide + tiles * slots * across));
  w.fold_results = take(w.bytes, 4 * images * (planes * wide + tiles * across));
  const std::size_t cells = slots * across * (c.tile_m / c.tile_warpgroups);
  const std::size_t rows = c.wide ? cells * (c.meets ? entry_bytes * v.row_entries : 4 * v.row_folds) : 0;
  const std::size_t returned = entry_bytes * v.returned_entries * images * wide;
  if (rows + returned > 0) w.fold_rows = take(w.bytes, rows + returned);
  const std::size_t counters = v.returns ? v.returned_levels * (1 + images * (across + 1)) : 0;
  w.fold_counters = take(w.bytes, 4 * (1 + images * across + slots + counters));
}

Workspace lay_out_workspace(const ConvPlan& p, const ConvProblem& problem) {
  Workspace w;
  const ConvConfig& c = p.config;
  if (c.mode == NormMode::general) lay_out_folds(w, p, problem);
  if (!p.cooperative) return w;
  w.exits = take(w.bytes, 4);
  if (exchanges(c.mode)) {
    const std::size_t row = static_cast<std::size_t>(p.images) * (problem.extents.cols / c.unit) * entry_bytes;
    w.slots = take(w.bytes, row * p.slots_per_image);
    w.teams = p.team_slots > 1 ? take(w.bytes, row * p.teams_per_image) : w.slots;
  }
  if (c.split) {
    const std::size_t parts = static_cast<std::size_t>(p.tiles) * (p.splits - 1) * c.tile_warpgroups;
    w.flags = take(w.bytes, parts * 4);
    w.partials = take(w.bytes, parts * (c.tile_m / c.tile_warpgroups) * c.tile_n * 4);
  }
  return w;
}

}  // namespace

std::int64_t clusters_in_flight(const ConvConfig& config, std::int64_t tiles_n, const Device& device) {
  const std::int64_t all = device.resident_blocks[cluster_blocks(config)] / cluster_blocks(config);
  return config.stationary ? all / tiles_n * tiles_n : all;
}

std::int64_t loads_per_tile(const ConvConfig& config, const ConvProblem& problem) {
  if (config.unfold) return config.unfold->steps(config.tile_k);
  if (config.gather) return divide_up(problem.depth(), config.tile_k);
  if (config.patch) return divide_up(problem.conv.c, config.tile_k);
  return divide_up(problem.conv.r * problem.conv.s * divide_up(problem.conv.c, config.atom_k()), config.atoms());
}

std::int64_t steps_per_tile(const ConvConfig& config, const ConvProblem& problem) {
  return loads_per_tile(config, problem) * (config.patch ? problem.conv.r * problem.conv.s : 1);
}

ConvPlan lay_out(const ConvConfig& config, const ConvProblem& problem, const Device& device) {
  ConvPlan p;
  p.config = config;
  lay_out_tiles(p, problem);
  if (exchanges(config.mode) || config.mode == NormMode::general || config.moments > 0)
    p.slots_per_image = p.tiles_m * config.cluster_m * config.tile_warpgroups * problem.phases();
  if (exchanges(config.mode)) lay_out_statistics(p);
  const int resident = device.resident_blocks[cluster_blocks(config)];
  if (config.split)
    p.splits = static_cast<int>(std::max<std::int64_t>(
        1, std::min({std::int64_t{resident / p.tiles}, loads_per_tile(config, problem), std::int64_t{largest_split}})));
  p.threads = 128 * (1 + config.tile_warpgroups * config.turns);
  // As few blocks as finish in the same number of rounds: the tiles of an image then fall into fewer of them
  const std::int64_t step = config.stationary ? p.tiles_n : 1,
                     clusters = std::max(step, clusters_in_flight(config, p.tiles_n, device)),  // fewer are refused
      rounds = divide_up(items_of(p), clusters);
  p.blocks = static_cast<int>(divide_up(divide_up(items_of(p), rounds), step) * step) * cluster_blocks(config);
  p.shared_bytes = shared_bytes(config, problem.visitor);
  p.cooperative = config.split || config.meets || exchanges(config.mode);
  p.workspace = lay_out_workspace(p, problem);
  return p;
}

}  // namespace coda::plan
