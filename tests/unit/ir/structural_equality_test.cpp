#include <gtest/gtest.h>

#include <algorithm>

#include "unisono/text.hpp"
#include "wild_graph.hpp"

namespace unisono {
namespace {

bool equal(const std::string& x, const std::string& y) {
  const Graph a = parse(x, test::wild_functions()), b = parse(y, test::wild_functions());
  EXPECT_EQ(structurally_equal(a, b), structurally_equal(b, a));
  return structurally_equal(a, b);
}

TEST(StructuralEquality, NumberingAndNamesDoNotCount) {
  EXPECT_TRUE(equal("h = acc + 1\nstore relu(h) as y", "store relu(acc + 1) as y"));
  EXPECT_TRUE(equal("a = exp(acc)\nb = sin(acc)\nstore a + b as y", "b = sin(acc)\na = exp(acc)\nstore a + b as y"));
}

TEST(StructuralEquality, SharingCounts) {
  EXPECT_FALSE(equal("h = exp(acc)\nstore h * h as y", "store exp(acc) * exp(acc) as y"));
  EXPECT_FALSE(equal("a = exp(acc)\nb = exp(acc)\nstore a * b as y\nstore a as z",
                     "a = exp(acc)\nb = exp(acc)\nstore a * a as y\nstore b as z"));
}

TEST(StructuralEquality, OrderOfInputsStoresAndEffectsCounts) {
  EXPECT_FALSE(equal("store exp(acc) * sin(acc) as y", "store sin(acc) * exp(acc) as y"));
  EXPECT_FALSE(equal("store acc as x\nstore acc as y", "store acc as y\nstore acc as x"));
  EXPECT_FALSE(equal("probe(acc)\nprobe(-acc)", "probe(-acc)\nprobe(acc)"));
}

TEST(StructuralEquality, StoresCount) {
  EXPECT_FALSE(equal("store acc as x", "store acc as y"));
  EXPECT_FALSE(equal("store acc as x : f32", "store acc as x : bf16"));
  EXPECT_FALSE(equal("store acc as x", "store acc as x\nstore acc as y"));
}

TEST(StructuralEquality, AttributesCount) {
  EXPECT_FALSE(equal("store leaky_relu(acc, 0.1)", "store leaky_relu(acc, 0.2)"));
  EXPECT_FALSE(equal("store sum(acc, over=m)", "store sum(acc, over=n)"));
  EXPECT_FALSE(equal("store acc + 0", "store acc + -0"));
  EXPECT_TRUE(equal("store acc + nan", "store acc + -nan"));
  EXPECT_FALSE(equal("store warp(acc)", "store sin(acc)"));
  EXPECT_FALSE(equal("store cast(acc, bf16) : f32", "store cast(acc, f16) : f32"));
}

TEST(StructuralEquality, OperandsCountEvenUnused) {
  EXPECT_FALSE(equal("store acc + bias[n]", "store acc + gamma[n]"));
  EXPECT_FALSE(equal("operand x : f16\nstore acc * x", "operand x : bf16\nstore acc * x"));
  EXPECT_FALSE(equal("operand x\nstore acc", "store acc"));
  EXPECT_FALSE(equal("operand x\nstore acc", "operand x = 1\nstore acc"));
}

TEST(StructuralEquality, DeadValuesCount) {
  EXPECT_FALSE(equal("h = exp(acc)\nstore acc as y", "store acc as y"));
  EXPECT_FALSE(equal("h = exp(acc)\nstore acc as y", "h = sin(acc)\nstore acc as y"));
  EXPECT_TRUE(equal("h = exp(sin(acc))\nstore acc as y", "a = sin(acc)\nb = exp(a)\nstore acc as y"));
  EXPECT_FALSE(equal("a = sin(acc)\nb = exp(a)\nstore a as y", "a = sin(acc)\nc = sin(acc)\nb = exp(c)\nstore a as y"));
}

TEST(StructuralEquality, RepeatedLeavesDoNotCount) {
  const Graph g = parse("store (acc + 1) * (acc + 1) as y");
  Graph twice = g;
  twice.nodes.push_back(g.nodes[0]);
  EXPECT_TRUE(structurally_equal(g, twice));
  EXPECT_TRUE(structurally_equal(twice, g));
}

TEST(StructuralEquality, TellsRandomGraphsApart) {
  int equal_pairs = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Graph g = test::without_dead_values(test::wild_graph(seed));
    EXPECT_TRUE(structurally_equal(g, test::shuffled(g, seed)));
    equal_pairs += structurally_equal(g, test::wild_graph(seed + 1)) ? 1 : 0;
  }
  EXPECT_LE(equal_pairs, 2);  // tiny graphs may agree
}

TEST(StructuralEquality, DeepGraphsNeedNoStack) {
  std::string text = "h0 = acc\n";
  for (int i = 1; i < 50000; ++i) text += "h" + std::to_string(i) + " = sin(h" + std::to_string(i - 1) + ")\n";
  text += "store h49999";
  EXPECT_TRUE(equal(text, text));
}

}  // namespace
}  // namespace unisono
