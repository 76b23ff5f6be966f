#include "passes/min_cut.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/random.hpp"

namespace unisono::passes {
namespace {

struct Edge {
  int from, to;
  std::int64_t capacity;
};

std::int64_t weight_of(const std::vector<Edge>& edges, const std::vector<bool>& sink_side) {
  std::int64_t w = 0;
  for (const Edge& e : edges)
    if (!sink_side[e.from] && sink_side[e.to]) w += e.capacity;
  return w;
}

// All 2^(n-2) cuts of random networks: the cut is a least one, and of those the one nearest to the sink
TEST(MinCut, AgreesWithTryingAllCuts) {
  test::Random r(7);
  for (int round = 0; round < 300; ++round) {
    const int n = r.between(2, 8);
    std::vector<Edge> edges;
    Network network(n);
    for (int i = 0; i < 2 * n; ++i) {
      const Edge e{r.below(n), r.below(n), r.between(0, 5)};
      if (e.from == e.to) continue;
      edges.push_back(e);
      network.connect(e.from, e.to, e.capacity);
    }
    const auto found = network.sink_side(0, 1);
    EXPECT_FALSE(found[0]);
    EXPECT_TRUE(found[1]);
    std::int64_t least = Network::infinite;
    std::vector<std::vector<bool>> best;
    for (unsigned bits = 0; bits < 1u << (n - 2); ++bits) {
      std::vector<bool> side(static_cast<std::size_t>(n), false);
      side[1] = true;
      for (int v = 2; v < n; ++v) side[v] = (bits >> (v - 2)) & 1;
      const auto w = weight_of(edges, side);
      if (w < least) best.clear();
      least = std::min(least, w);
      if (w == least) best.push_back(side);
    }
    EXPECT_EQ(weight_of(edges, found), least);
    const auto size = [](const std::vector<bool>& s) { return std::count(s.begin(), s.end(), true); };
    for (const auto& other : best) EXPECT_GE(size(other), size(found));
  }
}

}  // namespace
}  // namespace unisono::passes
