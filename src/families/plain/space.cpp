#include "families/plain/space.hpp"

#include <algorithm>
#include <array>

#include "families/plain/cost.hpp"
#include "families/plain/problem.hpp"
#include "support/checked.hpp"

namespace unisono::families::plain {
namespace {

constexpr std::array tilings{
    Tiling{128, 64, 16, 8, 4}, Tiling{64, 64, 16, 4, 4},     Tiling{32, 32, 32, 2, 2},     Tiling{128, 16, 16, 4, 2},
    Tiling{16, 128, 16, 2, 4}, Tiling{8, 32, 1, 1, 1, true}, Tiling{64, 4, 1, 1, 1, true},
};
static_assert(std::ranges::all_of(tilings, [](const Tiling& t) { return t.threads() == 256; }));

constexpr std::size_t barrier_bytes = 256;
constexpr std::size_t most_shared_bytes = 48 * 1024;  // what every device gives without being asked

std::int64_t divided_up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

DType in_memory(DType t) { return t == DType::f32 ? DType::tf32 : t; }

Config::Mode mode_of(const plan::Epilogue& e) {
  if (e.general()) return Config::Mode::general;
  if (!e.norm()) return Config::Mode::none;
  return e.normalises_rows() ? Config::Mode::normalises_rows : Config::Mode::normalises;
}

bool normalises(Config::Mode m) { return m == Config::Mode::normalises || m == Config::Mode::normalises_rows; }

// Floats: tiles of both operands (PlainConv::kPitchA, kPitchB), then the sums in their place (kPitchSums)
std::size_t shared_bytes(const Config& c) {
  const Tiling& t = c.tiling;
  const int operands = t.direct ? 0 : t.tile_k * (t.tile_m + 4 + t.tile_n + 4);
  const int sums = t.direct ? 0 : c.products * t.tile_m * (t.tile_n + 1);
  return sizeof(float) * static_cast<std::size_t>(std::max({operands, sums, normalises(c.mode) ? t.threads() : 0}));
}

std::int64_t statistics_of(const plan::Epilogue& e, const Extents& space) {
  if (e.normalises_rows()) return space.rows();
  return space.cols / e.normalised()->group_channels * (e.normalised()->batch ? 1 : space.images);
}

// The launch of a normalisation, whose CTAs are all resident
void lay_out_phases(PlainPlan& p, const Workload& w, const Extents& space) {
  const std::int64_t results = statistics_of(w.epilogue, space);
  p.cooperative = true;
  p.ctas = static_cast<int>(std::min<std::int64_t>(w.device.sms, std::max<std::int64_t>(p.tiles, results)));
  p.workspace.statistics = barrier_bytes;
  const support::Checked values = support::Checked("bytes of kept values", space.rows()) * space.cols * sizeof(float);
  p.workspace.values = aligned(barrier_bytes + 2 * sizeof(float) * static_cast<std::size_t>(results));
  p.workspace_bytes = p.workspace.values + values.to<std::size_t>();
}

std::optional<PlainPlan> lay_out(const Tiling& tiling, const Workload& w) {
  const Conv2d& c = w.task.conv;
  const Extents space = extents(w.task.contraction());
  PlainPlan p;
  p.config = {.image = in_memory(c.dtype_x),
              .filter = in_memory(c.dtype_w),
              .products = w.task.products,
              .tiling = tiling,
              .transposed = w.task.transposed.has_value(),
              .rows_first = rows_lie_together(w.task),
              .columns_first = columns_lie_together(w.task),
              .planes = c.layout == Layout::nchw,
              .mode = mode_of(w.epilogue)};
  const std::int64_t range = range_rows(w.task), groups = tiling.direct ? 1 : c.groups;
  const std::int64_t down = divided_up(range, tiling.tile_m), across = divided_up(c.k / groups, tiling.tile_n);
  constexpr int beyond_last = 65535;  // a tile past the end still counts
  support::Narrowing to;
  p.tiles_m = to.as<int>("tiles of rows", down), p.tiles_n = to.as<int>("tiles of columns", across);
  const auto tiles = support::Checked("tiles", space.rows() / range) * down * across * groups;
  p.tiles = p.ctas = to.as<int>(tiles + beyond_last) - beyond_last;
  if (to.beyond()) return std::nullopt;
  p.threads = tiling.threads();
  p.shared_bytes = shared_bytes(p.config);
  if (p.shared_bytes > most_shared_bytes) return std::nullopt;  // the sums of two products of a large tile
  p.exclusive = false;
  p.pitched_image = !p.config.planes, p.pitched_output = !p.config.planes;
  p.numerics.folds = false;
  if (w.epilogue.norm()) lay_out_phases(p, w, space);
  p.predicted_us = predict_us(p, w);
  return p;
}

}  // namespace

std::vector<PlainPlan> plans(const Workload& w) {
  std::vector<PlainPlan> all;
  for (const Tiling& t : tilings)
    if (auto p = lay_out(t, w)) all.push_back(std::move(*p));
  std::ranges::stable_sort(all, {}, &PlainPlan::predicted_us);
  return all;
}

}  // namespace unisono::families::plain
