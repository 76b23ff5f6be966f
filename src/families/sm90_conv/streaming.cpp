#include "families/sm90_conv/streaming.hpp"

#include <algorithm>

#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {

using sm90::unfit;

StreamedStatistics streamed_statistics(int unit, bool cut, const sm90::ConvProblem& p, const sm90::FixedFields& fixed) {
  StreamedStatistics s{unit, floats_exchanged(p), cut};
  if (fixed.spill)
    s.spill = sm90::dtype_of(*fixed.spill);
  else if (p.wide_main)
    s.spill = DType::f32;
  s.wide = p.wide_main;
  s.by_channels = fixed.raster == sm90::Raster::channels;
  s.hints = fixed.hints.value_or(false);
  return s;
}

double spilled_beyond_l2(const StreamedStatistics& s, const sm90::ConvProblem& p, const plan::Device& d) {
  const double image = 2.0 * s.planes() * static_cast<double>(p.extents.rows_per_image()) *
                       static_cast<double>(p.extents.cols) / (s.by_channels ? 2 : 1);
  return std::max(0.0, image - static_cast<double>(d.l2_bytes) / 2);
}

std::optional<plan::Refusal> beyond_channels(const ConvConfig& c) {
  if (c.by_parity()) return unfit("raster: channels; statistics run over the four parity phases of the output");
  if (c.schedule.stationary || c.window())
    return unfit("raster: channels; filters that stay are those of a CTA's channels, which rows of tiles share out");
  if (c.resident() && c.schedule.split) return unfit("raster: channels; split-K serves small outputs");
  if (c.resident() && c.operands.converted)
    return unfit("raster: channels; spare warps convert images for tiles that come image by image");
  return {};
}

std::vector<ResidentStatistics> resident_choices(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                                                 const sm90::FixedFields& fixed) {
  std::vector<ResidentStatistics> list{*c.resident()};
  if (fixed.raster || (fixed.mode && fixed.tile_m) || beyond_channels(c)) return list;
  const std::int64_t across = (p.extents.cols + c.tile.n - 1) / c.tile.n;
  if (across <= c.schedule.cluster.n || p.extents.rows_per_image() / c.tile.m * across <= d.sms) return list;
  list.push_back(list[0]);
  list.back().by_channels = true;
  return list;
}

std::vector<StreamedStatistics> streamed_choices(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                                                 const sm90::FixedFields& fixed) {
  std::vector<StreamedStatistics> list{*c.streamed()};
  if (fixed.mode && fixed.tile_m)
    return list;  // a whole configuration, as override_of() writes it: what it leaves out is off
  const bool across = p.group_channels > 0 && c.tile.n < p.extents.cols && c.tile.n % p.group_channels == 0;
  if (!fixed.raster && across && !beyond_channels(c)) {
    list.push_back(list[0]);
    list.back().by_channels = true;
  }
  for (std::size_t i = 0, count = list.size(); i < count && !fixed.hints; ++i) {
    if (spilled_beyond_l2(list[i], p, d) == 0) continue;
    list.push_back(list[i]);
    list.back().hints = true;
  }
  return list;
}

std::optional<plan::Refusal> refuse_streamed(const ConvConfig& c, const sm90::ConvProblem& p) {
  const StreamedStatistics& s = *c.streamed();
  const int slice = slice_channels(c.tile.n);
  if (s.spill == DType::f32 && !s.wide)
    return unfit(
        "spill: f32; tiles wait in the main store's place, whose elements have 16 bits. Say bf16 or f16, or "
        "store f32");
  if (s.spill == DType::f32 && p.extents.cols % slice != 0)
    return unfit(
        "spill: f32, {} channels in slices of {}; the halves of an element wait side by side where slices are "
        "whole",
        p.extents.cols, slice);
  if (c.features.stores == sm90::Stores::planes_tma && (p.second_pass || p.placed))
    return unfit(
        "streamed: channels first, {}; a second pass over planes has one or two results of 16 bits, computed from "
        "channels and operands [m,n] that lie as the result does",
        p.placed ? "of operands [m,n] with another layout"
                 : "of an epilogue with results of f32, values of rows, effects or stored reductions");
  if (c.schedule.swap && p.visitor.folds_ahead)
    return unfit(
        "swap: reductions of values before the normalisation; a thread has neighbouring channels of its rows only if "
        "pixels are the rows of a matrix instruction");
  if (!s.by_channels) return {};
  if (c.tile.n % p.group_channels != 0)
    return unfit(
        "raster: channels; groups of {} channels cross tiles of {}, whose statistics are then not complete with "
        "the tiles of these channels",
        p.group_channels, c.tile.n);
  return beyond_channels(c);
}

}  // namespace unisono::families::sm90_conv
