#include "network/arena.hpp"

#include <algorithm>
#include <numeric>

namespace coda::network {

namespace {

struct Range {
  std::size_t begin, end;
};

// Start of the smallest gap between `taken` that holds `bytes`, or the end of the last
std::size_t best_gap(std::vector<Range> taken, std::size_t bytes) {
  std::sort(taken.begin(), taken.end(), [](const Range& x, const Range& y) { return x.begin < y.begin; });
  std::size_t end = 0, best = 0, best_size = 0;
  for (const Range& r : taken) {
    const std::size_t gap = r.begin > end ? r.begin - end : 0;
    if (gap >= bytes && (best_size == 0 || gap < best_size)) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, r.end);
  }
  return best_size != 0 ? best : end;
}

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> buffers, bool reuse) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return buffers[x].bytes > buffers[y].bytes; });
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    const std::size_t bytes = arena_size(buffers[i].bytes);
    if (bytes == 0) continue;
    std::vector<Range> taken;
    for (const std::size_t j : placed) {
      const bool meet = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      if (meet || !reuse) taken.push_back({plan.offsets[j], plan.offsets[j] + arena_size(buffers[j].bytes)});
    }
    plan.offsets[i] = best_gap(std::move(taken), bytes);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace coda::network
