#include "families/sm90_conv/geometry.hpp"

#include <algorithm>
#include <cmath>

#include "families/sm90_conv/pieces.hpp"
#include "families/sm90_conv/planes_cost.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "support/checked.hpp"
#include "unisono/params/params.cuh"

namespace unisono::families::sm90_conv {
namespace {

// None in clusters larger than any: what a caller fixes comes here ahead of the refusals
int resident_ctas(const ConvConfig& config, const plan::Device& device) {
  const auto size = static_cast<std::size_t>(config.schedule.cluster.ctas());
  return size < device.resident_ctas.size() ? device.resident_ctas[size] : 0;
}

using support::Checked;
using support::Narrowing;

constexpr std::size_t entry_bytes = sizeof(Entry);

std::int64_t divide_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

int cluster_ctas(const ConvConfig& c) { return c.schedule.cluster.ctas(); }

std::int64_t items_of(const ConvPlan& p) { return std::int64_t{p.tiles} * p.splits; }

constexpr const char* workspace = "bytes of the workspace";

/// Parts start at multiples of 256 bytes.
std::size_t take(Narrowing& to, std::size_t& used, const Checked& bytes) {
  const Checked at = Checked(workspace, used).rounded_up(256);
  used = to.as<std::size_t>(at + bytes);
  return to.as<std::size_t>(at);
}

Checked product(const auto&... factors) {
  Checked bytes(workspace, 1);
  ((bytes *= factors), ...);
  return bytes;
}

/// Input channels that are multiplied for a tile: all, or those of its groups.
std::int64_t channels_of(const ConvConfig& c, const sm90::ConvProblem& problem) {
  const Operands& o = c.operands;
  if (o.converted) return sm90::converted_channels(problem.conv);
  return o.grouped() ? std::max<std::int64_t>(1, c.tile.n / o.group_filters) * o.group_channels : problem.conv.c;
}

void lay_out_tiles(Narrowing& to, ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const Extents& e = problem.extents;
  const bool per_image = c.two_dimensional() || problem.per_image;
  p.images = to.as<int>("images", per_image ? e.images : 1);
  p.rows = to.as<int>("rows", per_image ? e.rows_per_image() : e.rows());
  p.tiles_w = to.as<int>("tiles across an image", divide_up(problem.phase_width(), 8));
  const std::int64_t tiles_m =
      c.two_dimensional()
          ? to.as<std::int64_t>(
                Checked("tiles of an image", divide_up(problem.phase_height() / problem.planes(), c.tile.m / 8)) *
                problem.planes() * p.tiles_w)
          : divide_up(p.rows, c.tile.m);
  p.tiles_m = to.as<int>("tiles along the pixels", divide_up(tiles_m, c.schedule.cluster.m));
  const Checked across("tiles across the channels", divide_up(divide_up(e.cols, c.tile.n), c.schedule.cluster.n));
  p.tiles_n = to.as<int>(across * problem.phases());
  const auto tiles = to.as<std::int64_t>(Checked("tiles", p.tiles_m) * p.tiles_n * p.images);
  p.tiles = static_cast<int>(std::min(tiles, largest_tile_count));  // as many are refused
  p.channel_blocks =
      c.window()
          ? c.window()->steps(c.tile.k)
          : to.as<int>("blocks of input channels",
                       c.gathered()          ? divide_up(problem.depth(), c.tile.k)
                       : c.two_dimensional() ? divide_up(channels_of(c, problem), c.tile.k) * problem.filter_planes()
                                             : divide_up(channels_of(c, problem), c.atom_k()));
}

/// As kernels/unisono/exchange/row_exchange.cuh finds it: an entry of each row and tile across, and one of each row.
Checked row_exchange(const Checked& rows, std::size_t across) { return rows * (across + 1) * entry_bytes; }

/// As FoldColumns of kernels/unisono/epilogue/fold_columns.cuh finds them.
void lay_out_folds(Narrowing& to, Workspace& w, const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const plan::VisitorShape& v = problem.visitor;
  const bool reduces = v.own_words + v.tile_folds > 0;
  if (!reduces && !c.wide()) return;
  const auto images = static_cast<std::size_t>(p.images),
             across = static_cast<std::size_t>(p.tiles_n) / problem.phases() * c.schedule.cluster.n;
  const Checked slots = product(images, p.slots_per_image), wide = product(across, c.tile.n);
  const std::size_t planes = v.fold_planes + v.returned_planes, tiles = v.tile_folds;
  w.folds = take(to, w.bytes, (product(planes, slots, wide) + product(tiles, slots, across)) * 4);
  w.fold_results = take(to, w.bytes, (product(planes, wide) + product(tiles, across)) * images * 4);
  const Checked lines = product(slots, c.tile.m / c.schedule.warpgroups());
  const Checked rows = !c.wide()   ? product(0)
                       : c.meets() ? row_exchange(lines, across) * v.row_entries
                                   : lines * across * 4 * v.row_folds;
  const Checked returned = product(entry_bytes, v.returned_entries, images, wide);
  if (to.as<std::int64_t>(rows + returned) > 0) w.fold_rows = take(to, w.bytes, rows + returned);
  const Checked counters = (product(images, across + 1) + 1) * (v.returns ? v.returned_levels : 0);
  const Checked segments = product(fold_segment_counters(static_cast<std::int64_t>(images),
                                                         static_cast<std::int64_t>(across), p.slots_per_image)) *
                           (1 + (v.returns ? v.returned_levels : 0));
  w.fold_counters = take(to, w.bytes, (product(images, across) + slots + counters + segments + 1) * 4);
}

/// What consumer warpgroups keep of their tiles of a row, of an image, or of all, for which elements wait
/// (kernels/unisono/epilogue/general_spilled.cuh).
Checked spilled_accumulators(const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const std::int64_t groups = std::int64_t{p.ctas} / cluster_ctas(c) * c.schedule.consumer_groups();
  const plan::VisitorShape& v = problem.visitor;
  const Checked items = product(v.returns ? p.tiles_m : 1, p.tiles_n, v.returns_all ? p.images : 1);
  const int kept = c.wide() ? 0 : problem.visitor.kept_row_folds;
  return items.rounded_up(groups) * cluster_ctas(c) * c.tile.m * (c.multiplied_n() + kept) * 4;
}

void lay_out_rows(Narrowing& to, Workspace& w, const ConvPlan& p, const sm90::ConvProblem& problem) {
  const ConvConfig& c = p.config;
  const auto across = static_cast<std::size_t>(p.tiles_n) / problem.phases() * c.schedule.cluster.n;
  w.fold_rows =
      take(to, w.bytes, row_exchange(product(p.images, p.slots_per_image, c.tile.m / c.schedule.warpgroups()), across));
}

/// What planes are converted to, and the units' flags. The bytes of an image are bounded by refuse_problem().
void lay_out_converted(Narrowing& to, Workspace& w, const ConvPlan& p, const Conv2d& conv) {
  const std::int64_t channels = sm90::converted_channels(conv);
  w.image = take(to, w.bytes, product(conv.n, conv.h * conv.w, channels, 2));
  w.filter = take(to, w.bytes, product(conv.k, conv.r * conv.s, channels, 2));
  w.converted = take(to, w.bytes, product(p.conversion.units - p.conversion.ahead + p.ctas, 4));
}

/// Channels first, of halo tiles: those that are followed by another of the same image wait here.
void lay_out_spilled(Narrowing& to, Workspace& w, const ConvPlan& p) {
  const ConvConfig& c = p.config;
  const std::int64_t of_image = std::int64_t{p.tiles_m} * p.tiles_n,
                     under_way = std::int64_t{p.ctas} / cluster_ctas(c) * c.schedule.consumer_groups();
  if (of_image <= under_way) return;
  w.spilled = take(to, w.bytes,
                   product(p.images, p.slots_per_image, c.tile.m / c.schedule.warpgroups(),
                           std::int64_t{p.tiles_n} * c.schedule.cluster.n, c.tile.n, 2));
}

Workspace lay_out_workspace(Narrowing& to, const ConvPlan& p, const sm90::ConvProblem& problem) {
  Workspace w;
  const ConvConfig& c = p.config;
  if (c.mode() == sm90::NormMode::general || (exchanges(c.mode()) && problem.visitor.folds()))
    lay_out_folds(to, w, p, problem);
  if (c.rows_meet()) lay_out_rows(to, w, p, problem);
  if (w.bytes == 0 && !p.cooperative) return w;
  w.exits = take(to, w.bytes, product(8));  // CTAs that left; in checked builds those that came, too
  if (!p.cooperative) return w;
  if (c.spills()) w.partials = take(to, w.bytes, spilled_accumulators(p, problem));
  if (c.operands.converted) lay_out_converted(to, w, p, problem.conv);
  if (exchanges(c.mode())) {
    const Checked row = product(p.images, pieces_of_row(c, problem.group_channels, problem.extents.cols),
                                entries_of(c.floats()), entry_bytes);
    w.slots = take(to, w.bytes, row * p.slots_per_image);
    w.segments = p.segment_slots > 1 ? take(to, w.bytes, row * p.segments_per_image) : w.slots;
  }
  if (c.operands.converted && c.streamed() && c.halo()) lay_out_spilled(to, w, p);
  if (c.schedule.split) {
    const Checked parts = product(p.tiles, p.splits - 1, c.schedule.warpgroups());
    w.flags = take(to, w.bytes, parts * 4);
    w.partials = take(to, w.bytes, product(parts, c.tile.m / c.schedule.warpgroups(), c.tile.n, 4));
  }
  return w;
}

/// Units that tiles up to number `last` behind the end of an image read, of which `across` in turn have the same
/// pixels: of whole images, and of the image rows down to the last that the filter reaches.
std::int64_t units_to_tile(const ConvPlan& p, const sm90::ConvProblem& problem, std::int64_t last,
                           std::int64_t across) {
  const Conv2d& c = problem.conv;
  const ConvConfig& config = p.config;
  const std::int64_t image = p.tiles_m * across, down = (last % image / across + 1) * config.schedule.cluster.m;
  const std::int64_t lines = config.two_dimensional() ? divide_up(down, p.tiles_w) * (config.tile.m / 8)
                                                      : divide_up(down * config.tile.m, problem.extents.width);
  const std::int64_t rows =
      std::clamp<std::int64_t>((lines - 1) * c.stride[0] - c.pad.top + (c.r - 1) * c.dilation[0] + 1, 1, c.h);
  const Conversion& v = p.conversion;
  return (last / image * v.bands + divide_up(rows * c.w, kConvertedPixels)) * v.blocks;
}

/// Units of planes that are converted (kernels/unisono/load/sm90_from_planes.cuh). Those that the first tiles of each
/// consumer group read, at least, are converted before anything else. Beyond them, a spare warp is two rounds of tiles
/// ahead, and at least as far as what a tile of the next round reads, whatever its filter's reach.
void lay_out_conversion(Narrowing& to, ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const Conv2d& c = problem.conv;
  Conversion& v = p.conversion;
  const std::int64_t blocks = divide_up(sm90::converted_channels(c), kConvertedChannels),
                     bands = divide_up(c.h * c.w, kConvertedPixels);
  // Tiles that read an image for the first time
  const std::int64_t across = p.config.streamed() && p.config.streamed()->by_channels ? 1 : p.tiles_n,
                     image = p.tiles_m * across;
  v.blocks = to.as<int>("blocks of input channels", blocks), v.bands = to.as<int>("bands of an image", bands);
  v.filter_pieces = to.as<int>("pieces of a filter", divide_up(c.c, kConvertedFilterChannels));
  v.filter_units = to.as<int>(Checked("units of filters", c.k) * v.filter_pieces);
  v.units = to.as<int>(Checked("units of planes", bands) * blocks * c.n + v.filter_units);
  const std::int64_t under_way =
                         std::int64_t{p.ctas} / cluster_ctas(p.config) * p.config.schedule.consumer_groups() / p.splits,
                     whole = under_way / image;
  const double rest =
      std::min(1.0, 1.1 * static_cast<double>(under_way - whole * image + 2 * across) / static_cast<double>(image));
  const double share = share_ahead(p, problem, device) * static_cast<double>(c.n);  // of one image
  const double ahead =
      std::max(static_cast<double>(whole) + rest, share) * static_cast<double>(bands * blocks) + v.filter_units;
  v.ahead = static_cast<int>(std::min(std::ceil(ahead), static_cast<double>(v.units)));
  // Streamed, a spare warp that has columns for a tile also waits until the consumer group has used those of its tile
  // before. If all its tiles of an image have the same, that is at the latest when it has multiplied the first tile
  // behind the former's image, a round beyond its last one; else later.
  const std::int64_t groups = std::int64_t{p.ctas} / cluster_ctas(p.config) * p.config.schedule.consumer_groups();
  const bool alike = !p.config.streamed() || p.config.streamed()->by_channels || groups % p.tiles_n == 0;
  const double rounds = 2.0 * static_cast<double>(under_way) / static_cast<double>(image);
  const double far = std::max(rounds * static_cast<double>(bands * blocks) + 1,
                              static_cast<double>(units_to_tile(p, problem, groups, across)));
  v.units_ahead = alike ? static_cast<int>(std::min(far, static_cast<double>(v.units))) : v.units;
}

/// CTAs, threads and splits, once the tiles are known.
void lay_out_launch(Narrowing& to, ConvPlan& p, const sm90::ConvProblem& problem, const plan::Device& device) {
  const ConvConfig& config = p.config;
  if (exchanges(config.mode())) lay_out_segments(p, problem.group_channels);
  const int resident = resident_ctas(config, device);
  if (config.schedule.split)
    p.splits = static_cast<int>(std::max<std::int64_t>(
        1, std::min({std::int64_t{resident / p.tiles}, loads_per_tile(config, problem), std::int64_t{largest_split}})));
  p.threads = 128 * (1 + config.schedule.warpgroups() * config.schedule.consumer_groups());
  // As few CTAs as finish in the same number of rounds: the tiles of an image then fall into fewer of them
  const std::int64_t step = config.schedule.stationary ? p.tiles_n : 1,
                     clusters = std::max(step, clusters_in_flight(config, p.tiles_n, device)),  // fewer are refused
      rounds = divide_up(items_of(p), clusters);
  std::int64_t busy = divide_up(items_of(p), rounds);
  // Tiles that wait for one another are held together
  if (config.resident() && config.by_channels())
    busy = std::max(busy, std::min(clusters, divide_up(items_that_wait(p, problem.group_channels),
                                                       config.schedule.consumer_groups())));
  // Nor do those of a row fall into two rounds where they need not: the first's would wait for the second's
  if (config.rows_meet() && rounds > 1)
    if (const std::int64_t whole = divide_up(busy, p.tiles_n) * p.tiles_n; whole <= clusters) busy = whole;
  p.ctas = to.as<int>(Checked("CTAs", divide_up(busy, step)) * step * cluster_ctas(config));
  p.cooperative = config.schedule.split || config.meets() || exchanges(config.mode()) || config.operands.converted;
  if (!config.operands.converted) return;
  if (rounds == 1) p.ctas = static_cast<int>(clusters) * cluster_ctas(config);  // those without a tile convert
  lay_out_conversion(to, p, problem, device);
}

}  // namespace

std::int64_t clusters_in_flight(const ConvConfig& config, std::int64_t tiles_n, const plan::Device& device) {
  const std::int64_t all = resident_ctas(config, device) / cluster_ctas(config);
  return config.schedule.stationary ? all / tiles_n * tiles_n : all;
}

std::int64_t loads_per_tile(const ConvConfig& config, const sm90::ConvProblem& problem) {
  if (config.window()) return config.window()->steps(config.tile.k);
  if (config.gathered()) return divide_up(problem.depth(), config.tile.k);
  const std::int64_t channels = channels_of(config, problem);
  if (config.two_dimensional()) return divide_up(channels, config.tile.k) * problem.filter_planes();
  return divide_up(problem.conv.r * problem.conv.s * divide_up(channels, config.atom_k()), config.atoms());
}

std::int64_t steps_per_tile(const ConvConfig& config, const sm90::ConvProblem& problem) {
  return loads_per_tile(config, problem) * (config.two_dimensional() ? problem.plane_taps() : 1);
}

plan::Expected<ConvPlan> lay_out(const ConvConfig& config, const sm90::ConvProblem& problem,
                                 const plan::Device& device) {
  ConvPlan p;
  p.config = config;
  Narrowing to;
  lay_out_tiles(to, p, problem);
  if (exchanges(config.mode()) || config.mode() == sm90::NormMode::general || config.rows_meet() ||
      config.features.moments > 0)
    p.slots_per_image = to.as<int>(Checked("slots of statistics", p.tiles_m) * config.schedule.cluster.m *
                                   config.schedule.warpgroups() * problem.phases());
  if (to.beyond()) return sm90::unfit("size: {}", *to.beyond());  // before anything is divided by these numbers
  lay_out_launch(to, p, problem, device);
  p.shared_bytes = shared_bytes(config, problem.visitor);
  p.workspace = lay_out_workspace(to, p, problem);
  if (to.beyond()) return sm90::unfit("size: {}", *to.beyond());
  p.workspace_bytes = p.workspace.bytes;
  p.cluster = cluster_ctas(config);
  p.pitched_image =
      !config.gathered() && (!config.window() || config.window()->by_pixels()) && problem.conv.layout == Layout::nhwc;
  p.pitched_output = config.features.stores == sm90::Stores::tma && !problem.wide_main;
  p.made_for_groups = config.operands.grouped() || (problem.conv.groups > 1 && config.gathered() &&
                                                    config.gathered()->vectors && !config.gathered()->direct);
  p.moments = {.unit = config.features.moments, .images = p.images, .slots = p.slots_per_image};
  p.numerics = {.folds = config.mode() == sm90::NormMode::general || problem.visitor.folds(),
                .kept_columns = !config.streamed() ? 0
                                : config.cut()     ? problem.group_channels
                                                   : config.unit(),
                .centred = problem.visitor.exchanged == 0,
                .kept = config.streamed() ? config.streamed()->spill : std::nullopt};
  return p;
}
}  // namespace unisono::families::sm90_conv
