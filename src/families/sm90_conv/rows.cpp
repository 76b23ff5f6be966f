#include "families/sm90_conv/rows.hpp"

namespace unisono::families::sm90_conv {

std::optional<plan::Refusal> refuse_rows(const ConvConfig& c, const sm90::ConvProblem& p) {
  if (c.schedule.swap)
    return sm90::unfit(
        "swap: a thread has all channels of its pixels only if pixels are the rows of a matrix instruction");
  const bool one_tile = c.tile.n >= p.extents.cols && c.schedule.cluster.n == 1;
  if (one_tile == c.rows_meet())
    return sm90::unfit(
        "rows: {} channels a tile, {} tiles across a cluster; of {} channels, tiles that do not meet have all",
        c.tile.n, c.schedule.cluster.n, p.extents.cols);
  if (c.rows_meet() && (c.schedule.split || c.schedule.group != 0 || p.conv.groups > 1))
    return sm90::unfit(
        "rows: tiles of a row that wait for one another are whole, neighbours, and of one group of channels");
  if (c.deferred() &&
      (c.features.fetch.value_or(0) > 0 || c.operands.products > 1 || c.by_parity() || c.filled_by_warps()))
    return sm90::unfit(
        "deferred: operands [m,n] by TMA, dual products, parity phases or ordinary loads; what a tile that waits needs "
        "is "
        "in registers, and spare warps merge rows");
  if (!p.second_pass) return {};
  if (c.features.stores != sm90::Stores::tma)
    return sm90::unfit(
        "rows: results of f32, values of rows or a third store, in {}; they leave from registers in pairs of channels, "
        "which rows of a multiple of 8 channels have",
        c.features.stores == sm90::Stores::plain ? "rows of another number of channels" : "planes");
  if (c.features.resampling.any())
    return sm90::unfit(
        "rows: pooled or upsampled stores together with results of f32, values of rows or a third store");
  return {};
}

bool deferral_pays(const ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d,
                   const sm90::FixedFields& fixed) {
  if (fixed.deferred || (fixed.mode && fixed.tile_m)) return false;
  const std::int64_t tiles =
      ((p.extents.rows() + c.tile.m - 1) / c.tile.m) * ((p.extents.cols + c.tile.n - 1) / c.tile.n);
  return tiles > std::int64_t{d.sms} * c.schedule.consumer_groups();
}

}  // namespace unisono::families::sm90_conv
