#include "families/sm90_conv/space.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "families/sm90_conv/elements.hpp"
#include "families/sm90_conv/features.hpp"
#include "families/sm90_conv/fetching.hpp"
#include "families/sm90_conv/general_reductions.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/pieces.hpp"
#include "families/sm90_conv/stages.hpp"
#include "families/sm90_conv/streaming.hpp"

namespace unisono::families::sm90_conv {
namespace {

template <class T>
std::vector<T> either(const std::optional<T>& fixed, std::vector<T> choices) {
  return fixed ? std::vector<T>{*fixed} : std::move(choices);
}

/// Widths of a tile that divide the channels into t equal parts with little waste, in multiples of 32, 16 or 8.
std::vector<int> widths(const sm90::ConvProblem& p) {
  std::set<int> found;
  const auto channels = static_cast<int>(p.extents.cols);  // refuse_problem() bounds them
  const int widest = 256 / p.task.products, fewest = (channels + widest - 1) / widest;
  for (int parts = fewest; parts < fewest + 4; ++parts) {
    const int least = (channels + parts - 1) / parts;
    for (const int multiple : {8, 16, 32})
      if (const int n = (least + multiple - 1) / multiple * multiple; n <= widest && n >= 8) found.insert(n);
  }
  for (const int n : {64, 80, 96, 128, 160, 192, 256})
    if (n <= (channels + 31) / 32 * 32 && n <= widest) found.insert(n);
  std::int64_t whole = 1;  // groups of a row's channels, all of which divide those
  for (const int width : p.visitor.group_widths) whole = std::lcm(whole, std::int64_t{width});
  const std::int64_t step = std::lcm(whole, std::int64_t{8});
  for (std::int64_t n = step; whole > 1 && n <= 256; n += step) found.insert(static_cast<int>(n));
  const std::int64_t group = p.conv.k / p.conv.groups;
  const bool direct = p.conv.groups > 1 && sm90::gathering_of(p.task).direct;
  if (direct) found = {8, 16, 32, 64};
  if (p.conv.groups > 1 && !direct) {  // a tile is of one group
    for (int n = 8; n <= std::min<std::int64_t>(group, 256); n += 8) found.insert(n);
    std::erase_if(found, [&](int n) { return group % n != 0; });
  }
  if (p.group_tiles) sm90::add_group_tiles(p.conv, found);
  if (p.conv.groups == 1 ? p.row_waits && channels <= widest : p.per_pixel)
    std::erase_if(found, [&](int n) { return n < channels; });
  return {found.begin(), found.end()};
}

/// Whether tiles that TMA loads are several groups.
bool is_grouped(const sm90::ConvProblem& p, sm90::Load load) {
  return p.group_tiles && (load == sm90::Load::halo || load == sm90::Load::im2col);
}

/// Half a k-step is wasted on few or odd channels: 32 deep where that multiplies less; of 1x1 filters by a twentieth,
/// since lines of 64 bytes come at half the rate (2189x1264x3872: 49.0 us 32 deep, 38.3 64 deep). 128 deep where that
/// leaves four steps.
std::vector<int> depths(const sm90::ConvProblem& p, sm90::Load load, const Im2colWindow& window) {
  if (p.element_bytes() == 4) return {p.line_depth()};
  if (is_grouped(p, load)) return {64};
  std::int64_t c = p.gathered ? p.depth() : p.conv.c;
  if (load == sm90::Load::im2col_smem) c = 8 * window.steps(8);
  std::vector<int> list{64};
  const std::int64_t deep = (c + 63) / 64 * 64, shallow = (c + 31) / 32 * 32;
  if (shallow < deep && (p.conv.r * p.conv.s > 1 || 20 * shallow <= 19 * deep)) list.push_back(32);
  if (load != sm90::Load::im2col_smem && !p.gathered && p.depth() >= 512) list.push_back(128);
  return list;
}

std::vector<sm90::Load> loads(const sm90::ConvProblem& p) {
  if (p.task.phases) return {sm90::Load::halo};
  if (p.task.volume) return {sm90::Load::halo, sm90::Load::im2col};
  if (sm90::loads_planes(p.task)) return {sm90::Load::im2col};
  std::vector<sm90::Load> list;
  if (p.gathered) list.push_back(sm90::Load::gather);
  if (!p.gathered || p.group_tiles) list.insert(list.end(), {sm90::Load::halo, sm90::Load::im2col});
  if (!beyond_explicit_im2col(p.task)) list.push_back(sm90::Load::im2col_smem);
  return list;
}

std::vector<std::pair<int, int>> clusters(const sm90::ConvProblem& p, const ConvConfig& c) {
  std::vector<std::pair<int, int>> list{{1, 1}, {2, 1}};
  const std::int64_t across = (p.extents.cols + c.tile.n - 1) / c.tile.n;
  const std::int64_t tiles =
      across * ((p.extents.rows() + c.tile.m - 1) / c.tile.m);  // by phases: of a quarter each, four times
  // Small products wait for L2: a square of four CTAs reads half as much
  const bool rows = c.mode() == sm90::NormMode::rows && c.schedule.consumer_groups() == 1;
  if ((c.mode() == sm90::NormMode::none || rows) && across > 1 && tiles <= 128) list.emplace_back(2, 2);
  for (const int n : {2, 4, 5})
    if (across % n == 0) list.emplace_back(1, n);
  return list;
}

std::vector<sm90::NormMode> modes(const sm90::ConvProblem& p) {
  if (p.visitor.general) return {sm90::NormMode::general};
  if (!p.visitor.normalises) return {sm90::NormMode::none};
  if (p.per_pixel) return {sm90::NormMode::rows};
  if (p.second_pass && p.visitor.exchanged == 0) return {sm90::NormMode::streamed};
  return {sm90::NormMode::resident, sm90::NormMode::streamed};
}

/// Filters beyond this leave too little for activations and the epilogue.
constexpr std::int64_t most_stationary_bytes = 128 << 10;

/// Clocks of the longest step of 128 elements that is worth a candidate: 128x160.
constexpr std::int64_t longest_deep_clk = 1280;

/// Tiles of several groups have some of the widths, and tiles of one group others.
bool sensible_groups(const ConvConfig& c, const sm90::ConvProblem& p, const sm90::FixedFields& fixed) {
  if (!c.operands.grouped())
    return fixed.tile_n || (c.gathered() && c.gathered()->direct ? std::has_single_bit(unsigned(c.tile.n))
                                                                 : p.conv.k / p.conv.groups % c.tile.n == 0);
  if (c.tile.n % sm90::narrowest_group_tile(p.conv) != 0 && !fixed.tile_n) return false;
  if (c.schedule.split && !fixed.split) return false;
  return (c.schedule.stationary || fixed.stationary) && (c.schedule.cluster.ctas() == 1 || fixed.cluster_m);
}

/// Whether the combination can make sense at all; what cannot is not worth a line among the refusals.
bool sensible(const ConvConfig& c, const sm90::ConvProblem& p, const sm90::FixedFields& fixed) {
  if ((p.group_tiles && !sensible_groups(c, p, fixed)) || !sensible_products(c, p, fixed)) return false;
  if (c.schedule.stationary && !fixed.stationary &&
      (c.filled_by_warps() || c.schedule.split || c.atoms() > 1 || p.task.phases || p.task.batched))
    return false;
  if (c.schedule.stationary && !fixed.stationary &&
      steps_per_tile(c, p) * c.tile.n * c.tile.k * p.element_bytes() > most_stationary_bytes)
    return false;
  if (c.two_dimensional() && p.task.columns_a && !fixed.load) return false;
  if (!c.two_dimensional() && p.resampling.pooled && p.conv.stride[0] == 1 && p.conv.stride[1] == 1 && !c.gathered() &&
      !fixed.load)
    return false;
  if (c.filled_by_warps() && c.schedule.cluster.ctas() > 1 && !fixed.cluster_m) return false;
  if (p.conv.layout == Layout::nchw && !p.gathered && !c.gathered() && !sm90::loads_planes(p.task) &&
      c.schedule.order == sm90::Order::pingpong2 && !fixed.order)
    return false;
  if (c.window() && ((c.schedule.split && !fixed.split) || (c.tile.n < p.extents.cols && !fixed.tile_n))) return false;
  if (c.gathered() && c.gathered()->direct && (c.schedule.swap || c.schedule.split || c.tile.k != p.line_depth()) &&
      !(fixed.swap || fixed.split || fixed.tile_k))
    return false;
  if (c.mode() == sm90::NormMode::streamed && !by_tma(stores_for(c, p)) && !fixed.mode) return false;
  if (c.tile.m / c.schedule.warpgroups() < 64 && !(fixed.tile_m && fixed.order)) return false;
  if (c.schedule.swap &&
      (c.tile.n % 64 != 0 || c.mode() == sm90::NormMode::rows || c.mode() == sm90::NormMode::general ||
       p.visitor.exchanged > 0) &&
      !(fixed.swap && (fixed.tile_n || fixed.mode)))
    return false;
  if (c.halo() && !p.task.volume && c.tile.k < p.line_depth() && !(fixed.load && fixed.tile_k)) return false;
  // Two steps of 64 hide their barriers behind matrix instructions of so many clocks; kept tiles need the memory
  if (c.tile.k == 128 && !fixed.tile_k &&
      (step_clk_of(c, p) > longest_deep_clk || c.mode() == sm90::NormMode::streamed))
    return false;
  if (c.schedule.split && c.schedule.cluster.ctas() > 1 && !(fixed.split && fixed.cluster_m)) return false;
  if (c.schedule.split && c.mode() == sm90::NormMode::streamed && !(fixed.split && fixed.mode)) return false;
  return true;
}

/// Filters beyond this share of L2 are read from memory again by every row of tiles.
std::int64_t filters_that_stay(const plan::Device& d) { return static_cast<std::int64_t>(d.l2_bytes / 3); }

/// So many rows of tiles that what all CTAs work on at a time is a square of the output: it then reads least.
int rows_in_a_group(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d) {
  const std::int64_t columns = p.extents.cols * p.phases(),
                     filters = p.depth() * columns * p.element_bytes() * p.task.products;
  if (exchanges(c.mode()) || c.meets() || filters <= filters_that_stay(d)) return 0;
  const double high = c.tile.m * c.schedule.cluster.m, wide = c.multiplied_n() * c.schedule.cluster.n,
               area = c.tile.m * c.multiplied_n() * static_cast<double>(d.sms);
  const double all_columns = static_cast<double>(columns) * p.task.products,
               across = std::min(std::sqrt(area), all_columns);
  const auto rows = static_cast<int>(std::lround(area / across / high));
  const bool all = across + wide > all_columns;
  return all || rows < 2 ? 0 : rows;
}

Operands operands_of(const Loader& loader, const sm90::ConvProblem& p) {
  const auto* gathered = std::get_if<sm90::Gathering>(&loader);
  Operands o{.columns_b = p.task.columns_b && !(gathered && gathered->filters),
             .flipped = p.task.flipped,
             .batched = p.task.batched,
             .products = p.task.products};
  if (p.group_tiles && !gathered && !std::holds_alternative<ExplicitIm2col>(loader)) {
    o.group_channels = static_cast<int>(p.conv.c / p.conv.groups);
    o.group_filters = static_cast<int>(p.conv.k / p.conv.groups);
  }
  return o;
}

/// Those of the configuration's mode, for its tile.
Statistics finished_statistics(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                               const sm90::FixedFields& fixed) {
  const bool groups = p.group_channels > 0 && !p.per_pixel;
  const int unit = fixed.unit.value_or(groups ? std::gcd(p.group_channels, c.tile.n) : 1);
  const bool cut = groups && pieces_pay(c, p, unit);
  switch (c.mode()) {
    case sm90::NormMode::resident:
      return ResidentStatistics{unit, floats_exchanged(p), cut, fixed.raster == sm90::Raster::channels};
    case sm90::NormMode::streamed: return streamed_statistics(unit, cut, p, fixed);
    case sm90::NormMode::general: return general_reductions(c, p, d);
    case sm90::NormMode::rows: {
      const bool meets = c.tile.n < p.extents.cols || c.schedule.cluster.n > 1;
      return RowStatistics{.meets = meets, .deferred = meets && fixed.deferred.value_or(false)};
    }
    case sm90::NormMode::none: break;
  }
  return c.statistics;
}

void finish(ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d, const sm90::FixedFields& fixed) {
  c.element = p.element_bytes() == 4 ? DType::tf32 : p.conv.dtype_x;
  finish_loader(c.loader, p);
  c.operands.converted =
      p.conv.layout == Layout::nchw && (c.halo() || (c.im2col() && !c.loads(Im2colTile::Box::columns)));
  c.statistics = finished_statistics(c, p, d, fixed);
  c.features.stores = stores_for(c, p), c.features.resampling = p.resampling;
  c.features.moments = moments_unit(p, c.tile.n);
  c.features.in_shared = chooses_shared(c, p, fixed);
  c.features.store_buffers = fixed.store_buffers.value_or(buffers(c));
  c.schedule.group = fixed.group.value_or(rows_in_a_group(c, p, d));
}

/// Planes that are converted come ahead of the tiles all together, unless the plan says otherwise: beside them they
/// were up to 6 % faster and up to 13 % slower (docs/notes/hopper-conv.md). Spare warps convert what copies of 16 bytes
/// reach: planes of a multiple of 8 pixels.
void add_finished(std::vector<ConvConfig>& list, const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                  const sm90::FixedFields& fixed) {
  ConvConfig base = c;
  finish(base, p, d, fixed);
  using sm90::Ahead;
  if (base.operands.converted)
    base.operands.ahead = p.conv.h * p.conv.w % 8 == 0 ? fixed.ahead.value_or(Ahead::all) : Ahead::all;
  choose_stages(base, p, d, fixed);
  if (c.tile.k == 128 && !fixed.tile_k && lead(base, p) < 2) return;  // as much as four steps of 64
  add_staged(list, base, p, d, fixed);
}

/// Which operand comes first, and whether filters stay.
std::vector<std::pair<bool, bool>> operand_choices(const sm90::FixedFields& fixed) {
  std::vector<std::pair<bool, bool>> list;
  for (const bool swap : either(fixed.swap, {false, true}))
    for (const bool stationary : either(fixed.stationary, {false, true})) list.emplace_back(swap, stationary);
  return list;
}

}  // namespace

std::vector<ConvConfig> configurations(const sm90::ConvProblem& p, const plan::Device& d,
                                       const sm90::FixedFields& fixed) {
  std::vector<ConvConfig> list;
  ConvConfig c;
  const bool explicit_im2col = !beyond_explicit_im2col(p.task);
  for (const int m : either(fixed.tile_m, {128, 256, 64})) {
    const Im2colWindow window = explicit_im2col ? im2col_window_of(p.conv) : Im2colWindow{.pitch = 16};
    for (const int n : either(fixed.tile_n, widths(p)))
      for (const sm90::Order order :
           either(fixed.order, {sm90::Order::pingpong, sm90::Order::cooperative, sm90::Order::pingpong2}))
        for (const sm90::Load load : either(fixed.load, loads(p)))
          for (const int depth : either(fixed.tile_k, depths(p, load, window)))
            for (const bool split : either(fixed.split, {false, true}))
              for (const auto& [swap, stationary] : operand_choices(fixed))
                for (const sm90::NormMode mode : either(fixed.mode, modes(p))) {
                  c = {.tile = {m, n, depth},
                       .schedule = {.order = order, .split = split, .swap = swap, .stationary = stationary},
                       .loader = loader_of(load, p, window),
                       .operands = operands_of(loader_of(load, p, window), p),
                       .statistics = statistics_of(mode)};
                  const bool one = fixed.cluster_m.has_value();
                  for (const auto& [cm, cn] :
                       one ? std::vector<std::pair<int, int>>{{*fixed.cluster_m, *fixed.cluster_n}} : clusters(p, c)) {
                    c.schedule.cluster = {cm, cn};
                    if (!sensible(c, p, fixed)) continue;
                    add_finished(list, c, p, d, fixed);
                  }
                }
  }
  return list;
}

}  // namespace unisono::families::sm90_conv
