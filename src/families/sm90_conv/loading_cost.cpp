#include "families/sm90_conv/loading_cost.hpp"

#include <cmath>
#include <numeric>

#include "families/sm90_conv/cost_constants.hpp"
#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {
namespace {

constexpr CostConstants of_loads;

/// Clocks of TMA for a row of a box of `bytes`, of rows that lie `pitch` bytes apart: the lines of 128 bytes that it
/// touches, at all places that such rows have in a line, and more where it begins within a sector of 32 bytes.
double row_clk(std::int64_t bytes, std::int64_t pitch) {
  const std::int64_t step = std::gcd(std::gcd(bytes, pitch), std::int64_t{128});
  if (step >= bytes) return of_loads.one_line_clk;
  double lines = 0;
  for (std::int64_t begin = 0; begin < 128; begin += step)
    lines += std::ceil(static_cast<double>(begin + bytes) / 128) * static_cast<double>(step) / 128;
  return of_loads.line_clk * lines + (step < 32 ? of_loads.half_sector_clk : 0.0);
}

}  // namespace

double fill_clk(const ConvConfig& c) {
  const double a = static_cast<double>(activation_stage_bytes(c)), b = static_cast<double>(filter_stage_bytes(c));
  return (a / c.schedule.cluster.n + b / c.schedule.cluster.m) * (1 - 1.0 / c.atoms()) / of_loads.cold_bytes;
}

double gather_clk(const ConvConfig& c) {
  if (!c.gathered()) return 0;
  const double threads = exchanges(c.mode()) ? c.mode() == sm90::NormMode::streamed ? 32 : 96 : 128,
               pieces = static_cast<double>(c.tile.k * size_of(c.element) / 16) / threads;
  return pieces * (c.tile.m * (c.gathered()->vectors ? of_loads.vector : of_loads.elements) +
                   c.tile.n * (c.gathered()->filters ? of_loads.elements : 0));
}

double im2col_clk(const ConvConfig& c) {
  if (!c.window()) return 0;
  const double warps = !exchanges(c.mode()) ? 4 : c.mode() == sm90::NormMode::streamed ? 1 : 3;
  return std::ceil(c.tile.m / 32 / warps) * of_loads.im2col_rows_clk +
         4.0 * c.tile.m * c.tile.k / of_loads.shared_bytes + of_loads.im2col_tile_clk / c.window()->steps(c.tile.k);
}

double rows_clk(const ConvConfig& c, const sm90::ConvProblem& p, double taps) {
  if (c.filled_by_warps()) return 0;
  const bool few = p.conv.c < p.line_depth();
  if (few && c.loads(Im2colTile::Box::rows)) return 0;
  const double pixels = (c.halo() ? c.halo()->pixels(c.tile.m) / taps : c.tile.m) / c.schedule.cluster.n;
  // Stationary filters of few channels count in what row_clk was fitted to, but for tiles of a volume's plane
  const bool loaded = !c.schedule.stationary || (few && !(c.halo() && c.halo()->of_plane));
  const double filters = loaded ? static_cast<double>(c.multiplied_n()) / c.schedule.cluster.m : 0.0;
  if (few) return c.atoms() * of_loads.row_clk * (pixels + filters);
  const std::int64_t element = p.element_bytes(), bytes = c.atom_k() * element;
  const bool columns = c.operands.columns_b || c.operands.flipped;  // the filters' rows are of channels they make
  const double by_depth = columns ? 0.0 : row_clk(bytes, p.depth() * element) * filters;
  return c.atoms() * (row_clk(bytes, p.conv.c * element) * pixels + by_depth);
}

}  // namespace unisono::families::sm90_conv
