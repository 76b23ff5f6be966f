/// The memory planner: nothing that lives at the same time overlaps.

#include "network/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/random.hpp"

namespace coda::network {
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
}  // namespace coda::network
