#include "passes/prune.hpp"

#include <gtest/gtest.h>

#include "rewriting.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

TEST(Prune, RemovesALossOfWhichOnlyTheGradientIsStored) {
  const Graph g =
      prune(graph_of("p = sigmoid(acc)\nloss = sum(-(c[m,n]*log(p) + (1 - c[m,n])*log(1 - p)))\n"
                     "store p - c[m,n] as gradient : bf16"));
  verify(g);
  EXPECT_EQ(g.nodes.size(), 4u);
}

TEST(Prune, RemovesUnusedOperands) {
  const Graph g = prune(graph_of("t = unused[m] + 1\nstore acc as y : f32"));
  EXPECT_EQ(g.nodes.size(), 1u);
}

TEST(Prune, KeepsEffectsAndWhatTheyRead) {
  expect_unchanged(prune, {"t = sum(acc, over=m)\nobserve(t)\nstore acc as y : f32"});
}

TEST(Prune, KeepsALiveGraphAsItIs) {
  expect_unchanged(prune, {"store acc + bias[n] : f32\nstore sum(acc) as s : f32"});
}

TEST(NumberNodes, OrdersByStores) {
  const Graph g = number_nodes(graph_of("a = exp(acc)\nb = sin(c[m,n])\nstore b : f32\nstore a : f32"));
  verify(g);
  EXPECT_EQ(g[0].op, Op::operand);
  EXPECT_EQ(g[1].op, Op::sin);
  EXPECT_EQ(g[2].op, Op::acc);
  EXPECT_EQ(g[3].op, Op::exp);
}

TEST(NumberNodes, MakesGraphsEqualThatDifferInOrder) {
  const Graph x = graph_of("a = exp(acc)\nb = sin(c[m,n])\nstore a - b as y : f32");
  const Graph y = graph_of("b = sin(c[m,n])\na = exp(acc)\nstore a - b as y : f32");
  const auto operations = [](const Graph& g) {
    std::vector<Op> ops;
    for (const Node& node : g.nodes) ops.push_back(node.op);
    return ops;
  };
  EXPECT_NE(operations(x), operations(y));
  EXPECT_EQ(operations(number_nodes(x)), operations(number_nodes(y)));
}

TEST(NumberNodes, PutsEffectsLastInTheirOrder) {
  const Graph g = number_nodes(graph_of("observe(acc)\nobserve(c[m,n])\nstore exp(c[m,n]) : f32"));
  verify(g);
  ASSERT_EQ(g.effects.size(), 2u);
  EXPECT_EQ(g[g[g.effects[0]].inputs[0]].op, Op::acc);
  EXPECT_LT(g.effects[0], g.effects[1]);
}

}  // namespace
}  // namespace unisono::passes
