#include <gtest/gtest.h>

#include <set>

#include "ir/op_table.hpp"
#include "unisono/text.hpp"
#include "wild_graph.hpp"

namespace unisono {
namespace {

constexpr std::uint64_t graphs = 5000;

TEST(RoundTrip, RandomGraphs) {
  for (std::uint64_t seed = 0; seed < graphs; ++seed) {
    const Graph g = test::wild_graph(seed);
    const std::string text = print(g);
    const Graph again = parse(text, test::wild_functions());
    ASSERT_TRUE(structurally_equal(g, again)) << "seed " << seed << "\n" << text << "\nread as\n" << print(again);
    ASSERT_EQ(print(again), text) << "seed " << seed;
  }
}

TEST(RoundTrip, NodesInAnyOrder) {
  for (std::uint64_t seed = 0; seed < graphs; ++seed) {
    const Graph g = test::without_dead_values(test::wild_graph(seed));
    const Graph other = test::shuffled(g, seed);
    verify(other);
    ASSERT_TRUE(structurally_equal(g, parse(print(other), test::wild_functions()))) << "seed " << seed << "\n"
                                                                                    << print(other);
  }
}

TEST(RoundTrip, TheGraphsReachEveryOperation) {
  std::set<Op> seen;
  for (std::uint64_t seed = 0; seed < graphs; ++seed)
    for (const Node& x : test::wild_graph(seed).nodes) seen.insert(x.op);
  seen.insert(Op::acc1);  // dual_products_test.cpp
  for (int i = 0; i < op_count; ++i) EXPECT_TRUE(seen.contains(static_cast<Op>(i))) << to_string(static_cast<Op>(i));
}

}  // namespace
}  // namespace unisono
