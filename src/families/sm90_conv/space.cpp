#include "families/sm90_conv/space.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "families/sm90_conv/features.hpp"
#include "families/sm90_conv/fetching.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "support/checked.hpp"

namespace unisono::plan {
namespace {

constexpr int most_stages = 12;

template <class T>
std::vector<T> either(const std::optional<T>& fixed, std::vector<T> choices) {
  return fixed ? std::vector<T>{*fixed} : std::move(choices);
}

/// Widths of a tile that divide the channels into t equal parts with little waste, in multiples of 32, 16 or 8.
std::vector<int> widths(const ConvProblem& p) {
  std::set<int> found;
  const auto channels = support::narrow<int>("output channels", p.extents.cols);
  const int fewest = (channels + 255) / 256;
  for (int parts = fewest; parts < fewest + 4; ++parts) {
    const int least = (channels + parts - 1) / parts;
    for (const int multiple : {8, 16, 32})
      if (const int n = (least + multiple - 1) / multiple * multiple; n <= 256 && n >= 8) found.insert(n);
  }
  for (const int n : {64, 80, 96, 128, 160, 192, 256})
    if (n <= (channels + 31) / 32 * 32) found.insert(n);
  std::int64_t whole = 1;  // groups of a row's channels, all of which divide those
  for (const int width : p.visitor.group_widths) whole = std::lcm(whole, std::int64_t{width});
  const std::int64_t step = std::lcm(whole, std::int64_t{8});
  for (std::int64_t n = step; whole > 1 && n <= 256; n += step) found.insert(static_cast<int>(n));
  const std::int64_t group = p.conv.k / p.conv.groups;
  const bool direct = p.conv.groups > 1 && gathering_of(p.task).direct;
  if (direct) found = {8, 16, 32, 64};
  if (p.conv.groups > 1 && !direct) {  // a tile is of one group
    for (int n = 8; n <= std::min<std::int64_t>(group, 256); n += 8) found.insert(n);
    std::erase_if(found, [&](int n) { return group % n != 0; });
  }
  if (p.per_pixel || (p.row_waits && channels <= 256 && p.conv.groups == 1))
    std::erase_if(found, [&](int n) { return n < channels; });
  return {found.begin(), found.end()};
}

/// Half a k-step is wasted on few or odd channels: 32 deep where that multiplies less. 128 deep where that leaves four
/// steps.
std::vector<int> depths(const ConvProblem& p, Load load, const Unfolding& window) {
  if (p.element_bytes() == 4) return {p.line_depth()};
  std::int64_t c = p.gathered.empty() ? p.conv.c : p.depth();
  if (load == Load::unfold) c = 8 * window.steps(8);
  std::vector<int> list{64};
  if ((c + 31) / 32 * 32 < (c + 63) / 64 * 64) list.push_back(32);
  if (load != Load::unfold && p.gathered.empty() && p.depth() >= 512) list.push_back(128);
  return list;
}

std::vector<Load> loads(const ConvProblem& p) {
  if (p.task.phases) return {Load::patch};
  std::vector<Load> list = p.gathered.empty() ? std::vector{Load::patch, Load::runs} : std::vector{Load::gather};
  if (beyond_unfolding(p.task).empty()) list.push_back(Load::unfold);
  return list;
}

std::vector<std::pair<int, int>> clusters(const ConvProblem& p, const ConvConfig& c) {
  std::vector<std::pair<int, int>> list{{1, 1}, {2, 1}};
  const std::int64_t across = (p.extents.cols + c.tile_n - 1) / c.tile_n;
  const std::int64_t tiles =
      across * ((p.extents.rows() + c.tile_m - 1) / c.tile_m);  // by phases: of a quarter each, four times
  // Small products wait for L2: a square of four blocks reads half as much
  if (c.mode == NormMode::none && across > 1 && tiles <= 128) list.emplace_back(2, 2);
  for (const int n : {2, 4, 5})
    if (across % n == 0) list.emplace_back(1, n);
  return list;
}

std::vector<NormMode> modes(const ConvProblem& p) {
  if (p.visitor.general) return {NormMode::general};
  if (!p.visitor.normalises) return {NormMode::none};
  if (p.per_pixel) return {NormMode::rows};
  return {NormMode::resident, NormMode::streamed};
}

/// Slices that a warp may have under way. Streamed: a whole tile waits there. Where epilogues run beside a main loop
/// (two turns) a second buffer lets a warp go on; alone, the shared memory serves the stages better.
int buffers(const ConvConfig& c) {
  const int stores = stores_per_tile(c);
  if (c.mode == NormMode::streamed) return stores;
  const int least = c.swap || (c.turns == 2 && c.tile_warpgroups == 1) ? 2 : 1, slice = slice_channels(c.tile_n);
  // Narrow slices of resident tiles leave as many at a time as have 64 channels, while as many are written
  const bool together = c.mode == NormMode::resident && !c.swap && slice < 64;
  return std::min(stores, together ? std::max(least, 128 / slice) : least);
}

/// Up to 195 KB of shared memory leave a block 60 KB of L1, more leave it 28: there, what an epilogue
/// spills or reads from global memory takes a trip to the second level each time.
constexpr std::size_t roomy_bytes = 195 * 1024;

/// Clocks of matrix instructions that loads in flight should cover.
constexpr std::int64_t lead_clk = 2000;

int most_that_fit(ConvConfig c, const ConvProblem& p, std::size_t bytes) {
  for (c.stages = most_stages; c.stages > 1 && shared_bytes(c, p.visitor) > bytes;) --c.stages;
  return c.stages;
}

/// K-steps that the producer can be ahead of the consumers. A patch serves one for each tap.
std::int64_t lead(const ConvConfig& c, const ConvProblem& p) {
  const std::int64_t activations = (c.stages_a - 1) * (c.loads_patches() ? p.conv.r * p.conv.s : 1);
  if (c.stationary) return activations;
  return c.loads_patches() ? std::min<std::int64_t>(activations, c.stages - 1) : c.stages - 1;
}

/// Stationary: stages for all filters of a tile, and as many of activations as fit in so many bytes.
ConvConfig with_all_filters(ConvConfig c, const ConvProblem& p, std::size_t bytes, const FixedFields& fixed) {
  c.stages = fixed.stages.value_or(static_cast<int>(std::min<std::int64_t>(steps_per_tile(c, p), 1 << 12)));
  c.stages_a = fixed.stages_a.value_or(most_stages);
  if (!fixed.stages_a)
    while (c.stages_a > 2 && shared_bytes(c, p.visitor) > bytes) --c.stages_a;
  return c;
}

/// Windows that are loaded are small, and a tile takes longer than its loads: one is read, two are under way.
constexpr int windows_ahead = 3;

/// Stages that unfolded rows have use for: what they wait for is shared memory.
int rows_ahead(const ConvConfig& c) { return std::max(4, 2 * c.unfold->steps(c.tile_k)); }

/// As many stages as fit in so many bytes; of patches and filters, as many of each as make the lead longest.
ConvConfig with_stages(ConvConfig c, const ConvProblem& p, std::size_t bytes, const FixedFields& fixed) {
  if (c.stationary) return with_all_filters(c, p, bytes, fixed);
  ConvConfig best = c;
  best.stages_a = c.unfold ? fixed.stages_a.value_or(windows_ahead) : c.patch ? 2 : 0;
  best.stages = fixed.stages ? *fixed.stages : most_that_fit(best, p, bytes);
  if (c.unfold && !fixed.stages) best.stages = std::min(best.stages, rows_ahead(c));
  for (int a = 3; c.loads_patches() && a <= most_stages; ++a) {
    c.stages_a = a;
    c.stages = fixed.stages ? *fixed.stages : most_that_fit(c, p, bytes);
    if (c.stages < 2 || shared_bytes(c, p.visitor) > bytes) break;
    if (lead(c, p) > lead(best, p)) best = c;
  }
  return best;
}

/// Clocks of a k-step's matrix instructions, and of those that the loads in flight should cover.
std::int64_t step_clk_of(const ConvConfig& c, const ConvProblem& p) {
  return std::int64_t{c.tile_m} * c.tile_n * c.tile_k / (p.element_bytes() == 4 ? 1024 : 2048);
}
std::int64_t enough_clk(const ConvConfig& c, const ConvProblem& p) {
  // Measured: products of 256x128, and 512x4096x4096 in 128x128, whose sixth stage is worth 2 %
  const bool alone = p.before.tensors + p.after.tensors == 0 && !normalises(c.mode);
  return c.rows_a ? std::max(alone ? lead_clk * 5 / 4 : lead_clk, 3 * step_clk_of(c, p)) : lead_clk;
}

void choose_stages(ConvConfig& c, const ConvProblem& p, const Device& d, const FixedFields& fixed,
                   std::size_t preferred_bytes = roomy_bytes) {
  if (c.gather && c.gather->direct) {  // of nothing
    c.stages = fixed.stages.value_or(2);
    return;
  }
  if (fixed.stages && (fixed.stages_a || !(c.patch || c.stationary))) {
    c.stages = *fixed.stages, c.stages_a = c.patch || c.stationary ? *fixed.stages_a : 0;
    return;
  }
  const ConvConfig roomy = with_stages(c, p, std::min(preferred_bytes, d.shared_bytes), fixed);
  const bool enough = c.unfold ? roomy.stages >= 4 : lead(roomy, p) * step_clk_of(c, p) >= enough_clk(c, p);
  c = enough ? roomy : with_stages(c, p, d.shared_bytes, fixed);
}

/// Filters beyond this leave too little for activations and the epilogue.
constexpr std::int64_t most_stationary_bytes = 128 << 10;

/// Clocks of the longest step of 128 elements that is worth a candidate: 128x160.
constexpr std::int64_t longest_deep_clk = 1280;

/// Whether the combination can make sense at all; what cannot is not worth a line among the refusals.
bool sensible(const ConvConfig& c, const ConvProblem& p, const FixedFields& fixed) {
  if (c.stationary && !fixed.stationary && (c.by_hand() || c.split || c.atoms() > 1 || p.task.phases || p.task.batched))
    return false;
  if (c.stationary && !fixed.stationary &&
      steps_per_tile(c, p) * c.tile_n * c.tile_k * p.element_bytes() > most_stationary_bytes)
    return false;
  if (c.patch && p.task.columns_a && !fixed.load) return false;
  if (!c.patch && p.resampling.pooled && p.conv.stride[0] == 1 && p.conv.stride[1] == 1 && p.gathered.empty() &&
      !fixed.load)
    return false;
  if (c.by_hand() && c.cluster_m * c.cluster_n > 1 && !fixed.cluster_m) return false;
  if (c.unfold && ((c.split && !fixed.split) || (c.tile_n < p.extents.cols && !fixed.tile_n))) return false;
  if (c.gather && c.gather->direct && (c.swap || c.split || c.tile_k != p.line_depth()) &&
      !(fixed.swap || fixed.split || fixed.tile_k))
    return false;
  if (c.mode == NormMode::streamed && stores_of(p.task) != Stores::tma && !fixed.mode) return false;
  if (c.tile_m / c.tile_warpgroups < 64 && !(fixed.tile_m && fixed.order)) return false;
  if (c.swap && (c.tile_n % 64 != 0 || c.mode == NormMode::rows || c.mode == NormMode::general) &&
      !(fixed.swap && (fixed.tile_n || fixed.mode)))
    return false;
  if (c.loads_patches() && c.tile_k < p.line_depth() && !(fixed.load && fixed.tile_k)) return false;
  // Two steps of 64 hide their barriers behind matrix instructions of so many clocks; kept tiles need the memory
  if (c.tile_k == 128 && !fixed.tile_k && (step_clk_of(c, p) > longest_deep_clk || c.mode == NormMode::streamed))
    return false;
  if (c.split && c.cluster_m * c.cluster_n > 1 && !(fixed.split && fixed.cluster_m)) return false;
  if (c.split && c.mode == NormMode::streamed && !(fixed.split && fixed.mode)) return false;
  return true;
}

/// Filters beyond this are read from memory again by every row of tiles; a third of L2.
constexpr std::int64_t filters_that_stay = 20 << 20;

/// So many rows of tiles that what all blocks work on at a time is a square of the output: it then reads least.
int rows_in_a_group(const ConvConfig& c, const ConvProblem& p, const Device& d) {
  const std::int64_t columns = p.extents.cols * p.phases(), filters = p.depth() * columns * p.element_bytes();
  if (exchanges(c.mode) || c.meets || filters <= filters_that_stay) return 0;
  const double high = c.tile_m * c.cluster_m, wide = c.tile_n * c.cluster_n,
               area = c.tile_m * c.tile_n * static_cast<double>(d.sms);
  const double across = std::min(std::sqrt(area), static_cast<double>(columns));
  const auto rows = static_cast<int>(std::lround(area / across / high));
  const bool all = across + wide > static_cast<double>(columns);
  return all || rows < 2 ? 0 : rows;
}

/// Each output pixel is a product of its own input pixel.
bool is_product(const Conv2d& c) {
  const auto all = [](const auto& list, std::int64_t x) {
    return std::ranges::all_of(list, [x](auto y) { return y == x; });
  };
  return c.r == 1 && c.s == 1 && all(c.stride, 1) && all(c.pad, 0);
}

void finish(ConvConfig& c, const ConvProblem& p, const Device& d, const FixedFields& fixed) {
  c.element = p.element_bytes() == 4 ? DType::tf32 : p.conv.dtype_x;
  c.columns_a = p.task.columns_a && !c.gather, c.columns_b = p.task.columns_b && !(c.gather && c.gather->filters);
  c.phases = p.task.phases, c.columns_b = c.columns_b || c.phases;
  c.batched = p.task.batched, c.stores = stores_of(p.task), c.resampling = p.resampling, c.head = p.head;
  c.moments = moments_unit(p, c.tile_n);
  c.rows_a = !c.patch && !c.columns_a && !c.gather && is_product(p.conv);
  const auto halo = [&](std::int64_t taps, std::int64_t dilation) {
    return c.loads_patches() ? static_cast<int>(std::min<std::int64_t>((taps - 1) * dilation, 1 << 12)) : 0;
  };
  c.halo_h = halo(p.conv.r, p.conv.dilation[0]), c.halo_w = halo(p.conv.s, p.conv.dilation[1]);
  c.unit = fixed.unit.value_or(p.group_channels > 0 && !p.per_pixel ? std::gcd(p.group_channels, c.tile_n) : 1);
  c.wide = p.reduces_rows && (c.tile_n < p.extents.cols || c.cluster_n > 1);
  c.meets = (c.wide && p.row_waits) || p.visitor.returns;
  c.store_buffers = fixed.store_buffers.value_or(buffers(c));
  c.group = fixed.group.value_or(rows_in_a_group(c, p, d));
  choose_stages(c, p, d, fixed);
}

/// Fewer steps in flight than this, which do not cover lead_clk either, are not worth a candidate.
constexpr std::int64_t least_lead = 3;

/// Gives fetched operands as many staging buffers, up to a tile's, as leave the stages the lead that covers their
/// loads; two at least if four warps write one. False if not even these leave one.
bool choose_buffers(ConvConfig& c, const ConvProblem& p, const Device& d, const FixedFields& fixed) {
  const int least = c.swap ? std::min(2, stores_per_tile(c)) : 1;
  bool enough = false;
  for (int buffers = std::min(32, stores_per_tile(c)); buffers >= least && !enough; --buffers) {
    c.store_buffers = fixed.store_buffers.value_or(buffers);
    const ConvConfig full = with_stages(c, p, d.shared_bytes, fixed);
    enough = fixed.store_buffers || lead(full, p) * step_clk_of(c, p) >= enough_clk(c, p);
  }
  // Without loads, or spills, L1 is of no use
  const bool loads = c.fetch < p.before.tensors + p.after.tensors;
  choose_stages(c, p, d, fixed, loads ? roomy_bytes : d.shared_bytes);
  return enough || lead(c, p) >= least_lead || lead(c, p) * step_clk_of(c, p) >= lead_clk;
}

/// A candidate for each number of operands that TMA may bring.
void add_finished(std::vector<ConvConfig>& list, const ConvConfig& c, const ConvProblem& p, const Device& d,
                  const FixedFields& fixed) {
  ConvConfig base = c;
  finish(base, p, d, fixed);
  if (c.tile_k == 128 && !fixed.tile_k && lead(base, p) < 2) return;  // as much as four steps of 64
  const int most = fetchable(base, p);
  std::set<int> counts{0, std::min(1, most), most};
  if (fixed.fetch) counts = {*fixed.fetch};
  for (const int count : counts) {
    list.push_back(base);
    if (most == 0 && count == 0) continue;
    list.back().fetch = count;
    if (count > 0 && !choose_buffers(list.back(), p, d, fixed) && !fixed.fetch) list.pop_back();
  }
}

/// Which operand comes first, and whether filters stay.
std::vector<std::pair<bool, bool>> operand_choices(const FixedFields& fixed) {
  std::vector<std::pair<bool, bool>> list;
  for (const bool swap : either(fixed.swap, {false, true}))
    for (const bool stationary : either(fixed.stationary, {false, true})) list.emplace_back(swap, stationary);
  return list;
}

}  // namespace

std::vector<ConvConfig> configurations(const ConvProblem& p, const Device& d, const FixedFields& fixed) {
  std::vector<ConvConfig> list;
  ConvConfig c;
  const bool unfolds = beyond_unfolding(p.task).empty();
  for (const int m : either(fixed.tile_m, {128, 256, 64})) {
    const Unfolding window = unfolds ? unfolding_of(p.conv) : Unfolding{.pitch = 16};
    for (const int n : either(fixed.tile_n, widths(p)))
      for (const auto& order : either(fixed.order, {pingpong, cooperative, pairs}))
        for (const Load load : either(fixed.load, loads(p)))
          for (const int depth : either(fixed.tile_k, depths(p, load, window)))
            for (const bool split : either(fixed.split, {false, true}))
              for (const auto& [swap, stationary] : operand_choices(fixed))
                for (const NormMode mode : either(fixed.mode, modes(p))) {
                  c = {.tile_m = m,
                       .tile_n = n,
                       .tile_k = depth,
                       .tile_warpgroups = order.first,
                       .turns = order.second,
                       .patch = load == Load::patch || load == Load::unfold,
                       .split = split,
                       .swap = swap,
                       .mode = mode,
                       .stationary = stationary};
                  if (load == Load::gather) c.gather = gathering_of(p.task);
                  if (load == Load::unfold) c.unfold = window;
                  const bool one = fixed.cluster_m.has_value();
                  for (const auto& [cm, cn] :
                       one ? std::vector<std::pair<int, int>>{{*fixed.cluster_m, *fixed.cluster_n}} : clusters(p, c)) {
                    c.cluster_m = cm, c.cluster_n = cn;
                    if (!sensible(c, p, fixed)) continue;
                    add_finished(list, c, p, d, fixed);
                  }
                }
  }
  return list;
}

}  // namespace unisono::plan
