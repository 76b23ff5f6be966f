/// The memory planner: nothing that lives at the same time overlaps.

#include "network/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <set>

#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::network {
namespace {

std::vector<Lifetime> random_buffers(test::Random& r, int count, int steps) {
  std::vector<Lifetime> buffers;
  for (int i = 0; i < count; ++i) {
    const int first = r.below(steps);
    const int last = r.chance(0.1) ? steps : std::min(steps, first + r.below(4));
    buffers.push_back({r.chance(0.05) ? 0u : static_cast<std::size_t>(r.between(1, 5000)), first, last});
  }
  return buffers;
}

TEST(Arena, RandomBuffersDoNotOverlap) {
  test::Random r(1);
  for (int round = 0; round < 2000; ++round) {
    const auto buffers = random_buffers(r, r.between(0, 40), r.between(1, 30));
    const ArenaPlan plan = plan_arena(buffers);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(plan.offsets[i] % arena_alignment, 0u);
      ASSERT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes + (buffers[i].bytes == 0 ? arena_alignment : 0));
      for (std::size_t j = 0; j < i; ++j) {
        const bool meet = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        ASSERT_TRUE(!meet || apart || buffers[i].bytes == 0 || buffers[j].bytes == 0)
            << round << ": " << i << ", " << j;
      }
    }
  }
}

// Never below what lives at one step, never above the sum
TEST(Arena, PeakIsWithinItsBounds) {
  test::Random r(2);
  for (int round = 0; round < 500; ++round) {
    const auto buffers = random_buffers(r, r.between(1, 40), 20);
    const ArenaPlan plan = plan_arena(buffers);
    std::size_t live = 0, sum = 0;
    for (int step = 0; step <= 20; ++step) {
      std::size_t now = 0;
      for (const auto& b : buffers)
        if (b.first <= step && step <= b.last) now += arena_size(b.bytes);
      live = std::max(live, now);
    }
    for (const auto& b : buffers) sum += arena_size(b.bytes);
    EXPECT_GE(plan.bytes, live);
    EXPECT_LE(plan.bytes, sum);
    EXPECT_EQ(plan_arena(buffers, false).bytes, sum);
  }
}

// Every buffer compared with all that were placed before
ArenaPlan by_pairs(const std::vector<Lifetime>& buffers) {
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
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const std::size_t j : placed)
      if (buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last)
        taken.emplace_back(plan.offsets[j], plan.offsets[j] + arena_size(buffers[j].bytes));
    std::sort(taken.begin(), taken.end());
    std::size_t end = 0, best = 0, best_size = 0;
    for (const auto& [from, to] : taken) {
      const std::size_t gap = from > end ? from - end : 0;
      if (gap >= bytes && (best_size == 0 || gap < best_size)) best = end, best_size = gap;
      end = std::max(end, to);
    }
    plan.offsets[i] = best_size != 0 ? best : end;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    placed.push_back(i);
  }
  return plan;
}

TEST(Arena, AsIfEveryPairWereCompared) {
  test::Random r(3);
  for (int round = 0; round < 500; ++round) {
    const auto buffers = random_buffers(r, r.between(0, 200), r.between(1, 60));
    const ArenaPlan plan = plan_arena(buffers), expected = by_pairs(buffers);
    ASSERT_EQ(plan.offsets, expected.offsets) << round;
    ASSERT_EQ(plan.bytes, expected.bytes);
  }
}

// 20,000 buffers that live at the same time, and as many of which two do
TEST(Arena, TimeGrowsWithTheBuffers) {
  constexpr int count = 20000;
  const std::clock_t started = std::clock();
  std::vector<Lifetime> wide, chain;
  for (int i = 0; i < count; ++i) wide.push_back({64, i, count}), chain.push_back({640, i, i + 1});
  const ArenaPlan plan = plan_arena(wide);
  EXPECT_EQ(plan.bytes, std::size_t{64} * count);
  EXPECT_EQ(std::set<std::size_t>(plan.offsets.begin(), plan.offsets.end()).size(), static_cast<std::size_t>(count));
  EXPECT_EQ(plan_arena(chain).bytes, 1280u);
  EXPECT_EQ(plan_arena(wide, false).bytes, std::size_t{64} * count);
  EXPECT_LT(static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC, 30);  // of processors, not of a clock
}

// Beyond the pairs that are looked at buffers are stacked: they still never overlap
TEST(Arena, ManyBuffersAtOnceDoNotOverlap) {
  test::Random r(4);
  constexpr int count = 6000, steps = 40;
  std::vector<Lifetime> buffers;
  for (int i = 0; i < count; ++i) {
    const int first = r.below(steps);
    buffers.push_back({static_cast<std::size_t>(r.between(1, 5000)), first, r.between(first, steps)});
  }
  const ArenaPlan plan = plan_arena(buffers);
  for (int step = 0; step <= steps; ++step) {
    std::vector<std::pair<std::size_t, std::size_t>> live;
    for (int i = 0; i < count; ++i)
      if (buffers[i].first <= step && step <= buffers[i].last)
        live.emplace_back(plan.offsets[i], plan.offsets[i] + buffers[i].bytes);
    std::sort(live.begin(), live.end());
    for (std::size_t i = 1; i < live.size(); ++i) ASSERT_LE(live[i - 1].second, live[i].first) << step;
  }
}

TEST(Arena, MoreBytesThanThereAreNumbersForAreRefused) {
  const std::vector<Lifetime> buffers(20000, {std::size_t{1} << 52, 0, 1});
  EXPECT_THROW(plan_arena(buffers), Unsupported);
  EXPECT_THROW(plan_arena(buffers, false), Unsupported);
}

TEST(Arena, ChainTakesTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({640, i, i + 1});
  EXPECT_EQ(plan_arena(chain).bytes, 1280u);
  EXPECT_EQ(plan_arena(chain, false).bytes, 6400u);
}

TEST(Arena, TakesTheSmallestGapThatFits) {
  // three that live always, with gaps of 256 and 128 between them once the short ones are over
  const std::vector<Lifetime> buffers{{1024, 0, 9}, {512, 0, 1}, {384, 0, 9}, {256, 0, 1}, {192, 0, 9}, {128, 5, 6}};
  const ArenaPlan plan = plan_arena(buffers);
  EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
}

}  // namespace
}  // namespace unisono::network
