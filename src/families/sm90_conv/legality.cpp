#include <fmt/format.h>

#include "families/sm90/fields.hpp"
#include "families/sm90/reach.hpp"
#include "families/sm90_conv/elements.hpp"
#include "families/sm90_conv/features.hpp"
#include "families/sm90_conv/fetching.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/rows.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "families/sm90_conv/streaming.hpp"

namespace unisono::families::sm90_conv {
namespace {

using sm90::unfit;
using std::string;

std::optional<plan::Refusal> check_tile(const ConvConfig& c) {
  if (c.tile.m != 64 && c.tile.m != 128 && c.tile.m != 256) return unfit("tile: {} rows; 64, 128 or 256", c.tile.m);
  if (c.tile.n < 8 || c.tile.n > 256 || c.tile.n % 8 != 0)
    return unfit("tile: {} channels; a multiple of 8 up to 256", c.tile.n);
  if (c.multiplied_n() > 256)
    return unfit("tile: {} columns of each of two products; a matrix instruction has 256 of both, 128 of each",
                 c.tile.n);
  const bool words = c.element == DType::tf32;
  if (words && c.tile.k != 32) return unfit("tile: {} deep; 32 of tf32", c.tile.k);
  if (c.tile.k != 128 && c.tile.k != 64 && c.tile.k != 32) return unfit("tile: {} deep; 128, 64 or 32", c.tile.k);
  if (c.tile.k == 32 && !words && c.multiplied_n() % 16 != 0)
    return unfit("tile: 32 deep with {} channels; a multiple of 16, so that stages keep the swizzle's alignment",
                 c.tile.n);
  const int rows = c.tile.m / c.schedule.warpgroups();
  if (c.schedule.swap && c.tile.n % 64 != 0)
    return unfit("swap: {} channels; a multiple of the 64 rows of a matrix instruction", c.tile.n);
  if (rows < 64)
    return unfit("order: {} rows for each of {} warpgroups of a tile; a matrix instruction has 64", rows,
                 c.schedule.warpgroups());
  return {};
}

std::optional<plan::Refusal> check_cluster(const ConvConfig& c, const plan::Device& d) {
  const int ctas = c.schedule.cluster.ctas();  // an override names up to 16 along either
  if (c.schedule.cluster.m < 1 || c.schedule.cluster.n < 1 || ctas > 8)
    return unfit("cluster: {}x{}; 1 to 8 CTAs", c.schedule.cluster.m, c.schedule.cluster.n);
  if (d.resident_ctas[ctas] < ctas) return unfit("cluster: none of {} CTAs fits on {}", ctas, d.name);
  return {};
}

std::optional<plan::Refusal> check_halo(const ConvConfig& c, const sm90::ConvProblem& p) {
  const Conv2d& conv = p.conv;
  if (p.task.columns_a)
    return unfit("halo tiles: A is (k, m); the channels of a halo tile's pixels must be contiguous");
  if (conv.stride[0] != 1 || conv.stride[1] != 1)
    return unfit("halo tiles: stride {}x{}; neighbouring pixels share a halo tile only at stride 1", conv.stride[0],
                 conv.stride[1]);
  if (const auto line = static_cast<int>(128 / size_of(c.element)); c.atom_k() != line && !p.task.volume)
    return unfit("halo tiles: {} channels deep; an image row of a halo tile is 128 bytes, {} channels", c.tile.k, line);
  const std::int64_t halo = (conv.r / p.filter_planes() - 1) * conv.dilation[0], lines = c.tile.m / 8 + halo;
  const std::int64_t halo_w = (conv.s - 1) * conv.dilation[1], pixels = 8 + halo_w;
  if (lines > 256) return unfit("halo tiles: {} image rows with their halo; a TMA box has 256", lines);
  if (pixels > 256) return unfit("halo tiles: {} pixels wide with their halo; a TMA box has 256", pixels);
  if (c.halo()->halo_h < halo || c.halo()->halo_w != halo_w)
    return unfit("halo tiles: a halo of {} image rows and {} pixels; the filter needs {} and {}", c.halo()->halo_h,
                 c.halo()->halo_w, halo, halo_w);
  return {};
}

std::optional<plan::Refusal> check_im2col(const plan::ConvTask& task) {
  if (const auto refusal = task.volume ? sm90::beyond_im2col(*task.volume) : std::nullopt)
    return unfit("im2col tiles: {}", refusal->first());
  for (int axis = 0; axis < 2 && !task.volume; ++axis)
    if (const auto refusal = sm90::beyond_im2col(task.conv, axis)) return unfit("im2col tiles: {}", refusal->first());
  return {};
}

/// kernels/unisono/load/sm90_explicit_im2col.cuh.
std::optional<plan::Refusal> check_explicit_im2col(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (const auto refusal = beyond_explicit_im2col(p.task)) return unfit("im2col_smem: {}", refusal->first());
  if (c.schedule.cluster.ctas() > 1)
    return unfit("im2col_smem: a cluster of CTAs; each makes the im2col matrix of its pixels");
  if (c.schedule.split) return unfit("split-K: a CTA has the filters of all k-steps, and tiles have few");
  if (c.mode() == sm90::NormMode::streamed && c.schedule.order == sm90::Order::pingpong2)
    return unfit(
        "im2col_smem: pingpong2, streamed; what registers four consumer warpgroups leave is too little for it");
  if (c.tile.n < p.extents.cols)
    return unfit("im2col_smem: {} channels a tile of {}; the filters of one tile across stay in shared memory",
                 c.tile.n, p.extents.cols);
  if (const int lines = c.window()->window_lines(c.tile.m); lines > 256)
    return unfit("im2col_smem: {} image rows under a tile; a TMA box has 256", lines);
  return {};
}

/// Tiles of several groups: kernels/unisono/load/sm90_group_filters.cuh.
std::optional<plan::Refusal> check_groups(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (const auto refusal = sm90::beyond_group_tiles(p.task)) return unfit("groups: {}", refusal->first());
  if (c.tile.k != 64) return unfit("groups: {} deep; a tap of a tile's groups is one step of 64 channels", c.tile.k);
  const std::int64_t narrowest = sm90::narrowest_group_tile(p.conv), widest = sm90::widest_group_tile(p.conv);
  if (c.tile.n % narrowest != 0 || c.tile.n > widest)
    return unfit("groups: {} channels a tile; a multiple of {} up to {}, which are whole groups", c.tile.n, narrowest,
                 widest);
  if (!c.schedule.stationary) return unfit("groups: filters that come with each tile; those of groups are stationary");
  if (c.schedule.cluster.ctas() > 1) return unfit("groups: a cluster of CTAs; each has its own channels and filters");
  return {};
}

/// What loads go with which operands, and outputs.
std::optional<plan::Refusal> check_loads(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (p.task.phases && !c.two_dimensional())
    return unfit(
        "im2col tiles: their pixels do not lie evenly in the output of a parity phase; those of halo tiles do");
  if (c.window()) {
    if (c.atoms() > 1)
      return unfit("im2col_smem: {} deep; the matrix in shared memory has rows of 128 bytes", c.tile.k);
    if (auto refusal = check_explicit_im2col(c, p)) return refusal;
  } else if (!c.gathered()) {
    if (auto refusal = c.halo() ? check_halo(c, p) : check_im2col(p.task)) return refusal;
    if (c.operands.grouped()) {
      if (auto refusal = check_groups(c, p)) return refusal;
    } else if (p.gathered) {
      return unfit("{}: {}; only `gather` serves that", c.halo() ? "halo tiles" : "im2col tiles", p.gathered->first());
    }
  } else {
    const std::int64_t group = p.conv.k / p.conv.groups;
    if (p.task.volume) return unfit("gather: a convolution of volumes, which halo and im2col tiles serve");
    if (c.schedule.cluster.ctas() > 1) return unfit("gather: a cluster of CTAs; ordinary loads serve one");
    if (c.atoms() > 1) return unfit("gather: {} deep; ordinary loads fill rows of 128 bytes", c.tile.k);
    if (c.gathered()->direct) {
      if (c.schedule.swap)
        return unfit("gather: operands swapped; without matrix instructions there is nothing to swap");
      if (c.schedule.split) return unfit("split-K: without stages there is nothing to split");
      if (c.tile.n > 64) return unfit("gather: {} channels a tile; without matrix instructions up to 64", c.tile.n);
    } else if (p.conv.groups > 1 && group % c.tile.n != 0)
      return unfit("gather: {} channels a tile; a divisor of a group's {}", c.tile.n, group);
  }
  if (c.mode() == sm90::NormMode::streamed && !by_tma(c.features.stores))
    return unfit(
        "streamed: values wait in the output, which only rows of a multiple of 8 channels have room for, or planes of "
        "a multiple of 8 pixels (of halo tiles, image rows) in tiles of a multiple of 32 channels");
  return {};
}

/// kernels/unisono/load/sm90_from_planes.cuh.
std::optional<plan::Refusal> check_conversion(const ConvConfig& c) {
  if (!c.operands.converted || c.schedule.order != sm90::Order::pingpong2) return {};
  return unfit(
      "order: pingpong2, of planes that the launch converts; with four consumer warpgroups those warps have too "
      "few registers");
}

std::optional<plan::Refusal> check_split(const ConvConfig& c) {
  if (!c.schedule.split) return {};
  if (c.schedule.cluster.ctas() > 1) return unfit("split-K: goes without clusters");
  if (c.mode() == sm90::NormMode::streamed) return unfit("split-K: serves small outputs, which are resident");
  if (c.tile.n % 32 != 0) return unfit("split-K: {} channels; partial tiles move in multiples of 32", c.tile.n);
  return {};
}

/// Filters that stay, and a tile of each of two rings' worth of what else there is.
std::optional<plan::Refusal> check_stationary(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (!c.schedule.stationary) return {};
  if (c.window()) return unfit("stationary: with im2col in shared memory filters stay anyway");
  if (c.gathered()) return unfit("stationary: gathered images come with their filters");
  if (c.schedule.split) return unfit("stationary: a part of split-K has its own filters");
  if (c.by_parity()) return unfit("stationary: each phase of the output has its own filters");
  if (c.operands.batched) return unfit("stationary: each product of a batch has its own filters");
  if (c.atoms() > 1) return unfit("stationary: 128 deep; 64 or 32");
  if (c.schedule.group != 0) return unfit("stationary: rows of tiles in groups change their channels");
  if (const std::int64_t steps = steps_per_tile(c, p); c.schedule.stages != steps)
    return unfit("stationary: {} stages of filters; a tile has {} k-steps", c.schedule.stages, steps);
  return {};
}

std::optional<plan::Refusal> check_general(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.mode() != sm90::NormMode::general)
    return unfit("mode: {}; only `general` serves the epilogue", to_string(c.mode()));
  if (c.schedule.swap)
    return unfit("swap: threads have whole rows only if pixels are the rows of a matrix instruction");
  if (c.meets() != ((c.wide() && p.row_waits) || p.visitor.returns))
    return unfit("general: tiles of a row that something waits for do not meet");
  if (c.meets() && (c.schedule.split || c.schedule.group != 0))
    return unfit("general: tiles whose reductions meet are not split, and are neighbours: without split-K and groups");
  for (const int width : p.visitor.group_widths)
    if (c.tile.n % width != 0 && (c.tile.n < p.extents.cols || c.schedule.cluster.n > 1))
      return unfit("general: {} channels a tile; each group of {} channels of a row must lie in one tile", c.tile.n,
                   width);
  return {};
}

/// kernels/unisono/epilogue/exchanged.cuh.
std::optional<plan::Refusal> refuse_exchanged(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.schedule.swap)
    return unfit(
        "swap: reductions of several values; a thread has neighbouring channels of its rows only if pixels are the "
        "rows of a matrix instruction");
  if (c.features.stores != sm90::Stores::tma)
    return unfit(
        "{}: results after reductions of several values leave in pairs of channels, which rows of a multiple "
        "of 8 channels have, in the order of these",
        to_string(c.mode()));
  if (c.mode() == sm90::NormMode::resident && p.resampling.any())
    return unfit("resident: pooled or upsampled stores after reductions of several values");
  return {};
}

std::optional<plan::Refusal> check_mode(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.features.moments != moments_unit(p, c.tile.n)) return unfit("statistics: not as the epilogue says");
  if (p.visitor.general) return check_general(c, p);
  if (c.mode() == sm90::NormMode::general) return unfit("mode: general; the epilogue does with less");
  const bool normalises = p.visitor.normalises;
  if (normalises != (c.mode() != sm90::NormMode::none))
    return normalises ? unfit("mode: none; the epilogue has a normalisation, or other statistics")
                      : unfit("mode: the epilogue has no normalisation, only `none` serves it");
  if (p.per_pixel != (c.mode() == sm90::NormMode::rows))
    return p.per_pixel ? unfit("mode: {}; only `rows` normalises over the channels of a pixel", to_string(c.mode()))
                       : unfit("mode: rows; it is for statistics over the channels of a pixel, these are an image's");
  if (exchanges(c.mode()) && c.schedule.group != 0)
    return unfit("group: {} rows of tiles at a time; where tiles exchange statistics they go image by image",
                 c.schedule.group);
  if (!normalises) return {};
  if (p.second_pass && !p.per_pixel && p.visitor.exchanged == 0 && c.mode() != sm90::NormMode::streamed)
    return unfit("mode: {}; only `streamed` serves this form of the epilogue", to_string(c.mode()));
  if (p.visitor.exchanged > 0)
    if (auto refusal = refuse_exchanged(c, p)) return refusal;
  if (c.streamed())
    if (auto refusal = refuse_streamed(c, p)) return refusal;
  if (c.resident() && c.by_channels())
    if (auto refusal = beyond_channels(c)) return refusal;
  if (c.mode() == sm90::NormMode::rows)
    if (auto refusal = refuse_rows(c, p)) return refusal;
  if (p.batch && c.two_dimensional() && p.extents.images > 1)
    return unfit("halo tiles: statistics run over all images, and halo tiles are an image's");
  if (p.uses_raw && c.mode() != sm90::NormMode::resident)
    return unfit("{}: the epilogue reads values from before the normalisation after it, which only resident mode keeps",
                 to_string(c.mode()));
  if (c.unit() < 1 || c.tile.n % c.unit() != 0 || p.group_channels % c.unit() != 0)
    return unfit("unit: {} channels; a divisor of the tile's {} and of the group's {}", c.unit(), c.tile.n,
                 p.group_channels);
  return {};
}

std::optional<plan::Refusal> check_memory(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d) {
  const int stores = stores_per_tile(c) * (c.streamed() ? c.streamed()->planes() : 1);
  if (c.mode() == sm90::NormMode::streamed && c.features.store_buffers != stores)
    return unfit("streamed: {} store buffers; all {} slices of a tile wait in them", c.features.store_buffers, stores);
  if (writes_together(c) && c.features.store_buffers < std::min(2, stores))
    return unfit("store buffers: 1; {} four warps write one while the one before is stored, which takes 2",
                 c.schedule.swap ? "with swapped operands" : "channels first");
  if (c.features.store_buffers < 1 || c.features.store_buffers > stores)
    return unfit("store buffers: {}; 1 to the {} slices of a tile", c.features.store_buffers, stores);
  ConvConfig two = c;
  two.schedule.stages = std::max(2, c.schedule.stages);
  two.set_activation_stages(c.two_dimensional() || c.schedule.stationary ? std::max(2, c.activation_stages()) : 0);
  if (c.schedule.stationary) two.schedule.stages = c.schedule.stages;
  if (const std::size_t bytes = shared_bytes(two, p.visitor); bytes > d.shared_bytes)
    return unfit("shared memory: {} bytes with {} stages{}; the limit is {}", bytes, two.schedule.stages,
                 c.window()              ? fmt::format(" and {} windows", two.activation_stages())
                 : c.two_dimensional()   ? fmt::format(" and {} halo tiles", two.activation_stages())
                 : c.schedule.stationary ? fmt::format(" and {} activation tiles", two.activation_stages())
                                         : "",
                 d.shared_bytes)
        .exceeding(static_cast<double>(bytes), static_cast<double>(d.shared_bytes));
  if (two != c) return unfit("stages: one; at least two, since a stage is released when the next has been read");
  return {};
}

}  // namespace

std::optional<plan::Refusal> refuse_config(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d) {
  for (const std::optional<plan::Refusal>& refusal :
       {check_tile(c), check_cluster(c, d), check_loads(c, p), refuse_products(c, p), check_conversion(c),
        check_split(c), check_stationary(c, p), check_mode(c, p), refuse_resampling(c, p), refuse_fetch(c, p),
        refuse_in_shared(c, p)})
    if (refusal) return refusal;
  if (auto refusal = refuse_registers(c, p)) return refusal;
  return check_memory(c, p, d);
}

}  // namespace unisono::families::sm90_conv
