#include "families/sm90_conv/pieces.hpp"

#include <algorithm>
#include <numeric>

namespace unisono::families::sm90_conv {
namespace {

constexpr int largest_segment = 128;  ///< slots whose messages a warp loads at once

std::int64_t in_parts(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

/// The threads of a crew, a warpgroup or a warp, and the messages that each loads at once.
struct Crew {
  int threads, each;
};
Crew crew_of(const ConvConfig& c) { return c.mode() == sm90::NormMode::streamed ? Crew{32, 4} : Crew{128, 8}; }

}  // namespace

std::int64_t tiles_of_group(const ConvConfig& c, std::int64_t group_channels) {
  const std::int64_t wide = std::int64_t{c.tile.n} * c.schedule.cluster.n;
  if (wide % group_channels == 0) return 1;
  return group_channels % wide == 0 ? group_channels / wide : (group_channels - 2) / wide + 2;
}

int pieces_of_tile(const ConvConfig& c, int group_channels) {
  return c.cut() ? (c.tile.n - 2) / group_channels + 2 : c.tile.n / c.unit();
}

std::int64_t pieces_of_row(const ConvConfig& c, int group_channels, std::int64_t channels) {
  if (!c.cut()) return channels / c.unit();
  const std::int64_t last = channels - 1;
  return last / c.tile.n + last / group_channels - last / std::lcm(std::int64_t{c.tile.n}, group_channels) + 1;
}

bool pieces_pay(const ConvConfig& c, const sm90::ConvProblem& problem, int unit) {
  const int n = c.tile.n, width = problem.group_channels;
  if (width % n == 0 || n % width == 0) return false;
  const auto [threads, each] = crew_of(c);
  const std::int64_t rows = problem.extents.rows_per_image(),
                     slots = in_parts(rows * c.schedule.warpgroups(), std::int64_t{c.tile.m});
  return ((n - 2) / width + 2) * (width / unit) > threads || slots * (n / unit) > threads * each;
}

std::int64_t items_that_wait(const ConvPlan& p, std::int64_t group_channels) {
  const std::int64_t across =
      p.config.by_channels() ? std::min<std::int64_t>(p.tiles_n, tiles_of_group(p.config, group_channels)) : p.tiles_n;
  return p.tiles_m * across * p.splits;
}

void lay_out_segments(ConvPlan& p, int group_channels) {
  const auto [threads, each] = crew_of(p.config);
  p.segment_slots = 1;
  if (std::int64_t{p.slots_per_image} * pieces_of_tile(p.config, group_channels) > threads * each)
    p.segment_slots = static_cast<int>(in_parts(p.slots_per_image, in_parts(p.slots_per_image, largest_segment)));
  p.segments_per_image = static_cast<int>(in_parts(p.slots_per_image, p.segment_slots));
}

}  // namespace unisono::families::sm90_conv
