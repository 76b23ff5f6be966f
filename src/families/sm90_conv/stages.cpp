#include "families/sm90_conv/stages.hpp"

#include <algorithm>

#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/shared_memory.hpp"

namespace unisono::families::sm90_conv {
namespace {

constexpr int most_stages = 12;

/// Up to 195 KB of shared memory leave a CTA 60 KB of L1, more leave it 28: there, what an epilogue
/// spills or reads from global memory takes a trip to the second level each time.
constexpr std::size_t roomy_bytes = 195 * 1024;

/// What enough_clk() is but for products.
constexpr std::int64_t lead_clk = 2000;

int most_that_fit(ConvConfig c, const sm90::ConvProblem& p, std::size_t bytes) {
  for (c.schedule.stages = most_stages; c.schedule.stages > 1 && shared_bytes(c, p.visitor) > bytes;)
    --c.schedule.stages;
  return c.schedule.stages;
}

/// Stationary: stages for all filters of a tile, and as many of activations as fit in so many bytes.
ConvConfig with_all_filters(ConvConfig c, const sm90::ConvProblem& p, std::size_t bytes,
                            const sm90::FixedFields& fixed) {
  c.schedule.stages = fixed.stages.value_or(static_cast<int>(std::min<std::int64_t>(steps_per_tile(c, p), 1 << 12)));
  int activations = fixed.stages_a.value_or(most_stages);
  c.set_activation_stages(activations);
  while (!fixed.stages_a && activations > 2 && shared_bytes(c, p.visitor) > bytes)
    c.set_activation_stages(--activations);
  return c;
}

/// Windows that are loaded are small, and a tile takes longer than its loads: one is read, two are under way.
constexpr int windows_ahead = 3;

/// Stages that im2col rows have use for: what they wait for is shared memory.
int rows_ahead(const ConvConfig& c) { return std::max(4, 2 * c.window()->steps(c.tile.k)); }

/// As many stages as fit in so many bytes; of halo tiles and filters, as many of each as make the lead longest.
ConvConfig with_stages(ConvConfig c, const sm90::ConvProblem& p, std::size_t bytes, const sm90::FixedFields& fixed) {
  if (c.schedule.stationary) return with_all_filters(c, p, bytes, fixed);
  ConvConfig best = c;
  best.set_activation_stages(c.window() ? fixed.stages_a.value_or(windows_ahead) : c.halo() ? 2 : 0);
  best.schedule.stages = fixed.stages ? *fixed.stages : most_that_fit(best, p, bytes);
  if (c.window() && !fixed.stages) best.schedule.stages = std::min(best.schedule.stages, rows_ahead(c));
  for (int a = 3; c.halo() && a <= most_stages; ++a) {
    c.set_activation_stages(a);
    c.schedule.stages = fixed.stages ? *fixed.stages : most_that_fit(c, p, bytes);
    if (c.schedule.stages < 2 || shared_bytes(c, p.visitor) > bytes) break;
    if (lead(c, p) > lead(best, p)) best = c;
  }
  return best;
}

/// Clocks of matrix instructions that loads in flight should cover.
std::int64_t enough_clk(const ConvConfig& c, const sm90::ConvProblem& p) {
  // Measured: products of 256x128, and 512x4096x4096 in 128x128, whose sixth stage is worth 2 %
  const bool alone = p.before.tensors + p.after.tensors == 0 && !normalises(c.mode());
  return c.loads(Im2colTile::Box::rows) ? std::max(alone ? lead_clk * 5 / 4 : lead_clk, 3 * step_clk_of(c, p))
                                        : lead_clk;
}

void set_stages(ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d, const sm90::FixedFields& fixed,
                std::size_t preferred_bytes) {
  if (c.gathered() && c.gathered()->direct) {  // of nothing
    c.schedule.stages = fixed.stages.value_or(2);
    return;
  }
  if (fixed.stages && (fixed.stages_a || !(c.two_dimensional() || c.schedule.stationary))) {
    c.schedule.stages = *fixed.stages;
    c.set_activation_stages(c.two_dimensional() || c.schedule.stationary ? *fixed.stages_a : 0);
    return;
  }
  const ConvConfig roomy = with_stages(c, p, std::min(preferred_bytes, d.shared_bytes), fixed);
  const bool enough = c.window() ? roomy.schedule.stages >= 4 : lead(roomy, p) * step_clk_of(c, p) >= enough_clk(c, p);
  c = enough ? roomy : with_stages(c, p, d.shared_bytes, fixed);
}

/// Fewer steps in flight than this, which do not cover lead_clk either, are not worth a candidate.
constexpr std::int64_t least_lead = 3;

}  // namespace

int buffers(const ConvConfig& c) {
  const int stores = stores_per_tile(c);
  if (const StreamedStatistics* s = c.streamed()) return stores * s->planes();
  const int least = writes_together(c) || c.schedule.order == sm90::Order::pingpong ? 2 : 1,
            slice = slice_channels(c.tile.n);
  // Narrow slices of resident tiles leave as many at a time as have 64 channels, while as many are written
  const bool together = c.mode() == sm90::NormMode::resident && !c.schedule.swap && slice < 64;
  return std::min(stores, together ? std::max(least, 128 / slice) : least);
}

std::int64_t lead(const ConvConfig& c, const sm90::ConvProblem& p) {
  const std::int64_t activations = (c.activation_stages() - 1) * (c.halo() ? p.plane_taps() : 1);
  if (c.schedule.stationary) return activations;
  return c.halo() ? std::min<std::int64_t>(activations, c.schedule.stages - 1) : c.schedule.stages - 1;
}

std::int64_t step_clk_of(const ConvConfig& c, const sm90::ConvProblem& p) {
  return std::int64_t{c.tile.m} * c.multiplied_n() * c.tile.k / (p.element_bytes() == 4 ? 1024 : 2048);
}

void choose_stages(ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d, const sm90::FixedFields& fixed) {
  set_stages(c, p, d, fixed, roomy_bytes);
}

bool choose_buffers(ConvConfig& c, const sm90::ConvProblem& p, const plan::Device& d, const sm90::FixedFields& fixed) {
  const int least = writes_together(c) ? std::min(2, stores_per_tile(c)) : 1;
  bool enough = false;
  for (int buffers = std::min(32, stores_per_tile(c)); buffers >= least && !enough; --buffers) {
    c.features.store_buffers = fixed.store_buffers.value_or(buffers);
    const ConvConfig full = with_stages(c, p, d.shared_bytes, fixed);
    enough = fixed.store_buffers || lead(full, p) * step_clk_of(c, p) >= enough_clk(c, p);
  }
  // Without loads, or spills, L1 is of no use
  const bool loads = c.features.fetch < p.before.tensors + p.after.tensors;
  set_stages(c, p, d, fixed, loads ? roomy_bytes : d.shared_bytes);
  return enough || lead(c, p) >= least_lead || lead(c, p) * step_clk_of(c, p) >= lead_clk;
}

}  // namespace unisono::families::sm90_conv
