#include "passes/common_subexpressions.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>

#include "ir/attributes.hpp"
#include "passes/split_normalisations.hpp"
#include "rewriting.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

auto count(const Graph& g, Op op) {
  return std::count_if(g.nodes.begin(), g.nodes.end(), [op](const Node& x) { return x.op == op; });
}

TEST(CommonSubexpressions, Merges) {
  const Graph g = common_subexpressions(
      graph_of("store exp(acc) * bias[n] : f32\nstore bias[n] * exp(acc) as z : f32\nstore exp(acc) as w : f32"));
  verify(g);
  EXPECT_EQ(count(g, Op::exp), 1);
  EXPECT_EQ(count(g, Op::mul), 1);
  EXPECT_EQ(g.stores[0].value, g.stores[1].value);
}

TEST(CommonSubexpressions, SharesTheMeanOfANormalisation) {
  const Graph g = common_subexpressions(split_normalisations(graph_of(
      "h = acc + bias[n]\nstore group_norm(h, groups=4) : f32\nstore mean(h, over=(m,n), per=b, groups=4) as mu : f32\n"
      "store variance(h, over=(m,n), per=b, groups=4) as var : f32")));
  EXPECT_EQ(count(g, Op::mean), 1);
  EXPECT_EQ(count(g, Op::variance), 1);
}

TEST(CommonSubexpressions, KeepsWhatDiffers) {
  expect_unchanged(common_subexpressions, {
                                              "leaky_relu(acc, 0.1) + leaky_relu(acc, 0.2)",
                                              "sum(acc, over=m) + sum(acc, over=all)",
                                              "mean(acc, over=n, groups=2) + mean(acc, over=n, groups=4)",
                                              "cast(acc, bf16) * cast(acc, f16)",
                                              "acc / c[m,n] - c[m,n] / acc",
                                              "max(acc, c[m,n]) - max(c[m,n], acc)",  // differ for 0 and -0
                                              "acc / 0 + acc / -0",
                                              "g(acc, c[m,n]) + g(c[m,n], acc)",
                                          });
}

TEST(CommonSubexpressions, CallsOfFunctionsMergeAndEffectsDoNot) {
  const Graph g = common_subexpressions(graph_of("store f(acc) + f(acc) : f32\nobserve(acc)\nobserve(acc)"));
  verify(g);
  EXPECT_EQ(g.effects.size(), 2u);
  EXPECT_EQ(count(g, Op::call), 3);
}

// Constants that all differ, and their uses
Graph long_graph(int lines) {
  std::string text = "t0 = acc\n";
  for (int i = 1; i <= lines; ++i) text += fmt::format("t{} = t{} + {}.5\n", i, i - 1, i);
  return unisono::parse(text + fmt::format("store t{} as y : f32\n", lines));
}

double fastest_of_three(const Graph& g) {
  std::clock_t least = std::numeric_limits<std::clock_t>::max();
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    EXPECT_EQ(common_subexpressions(g).nodes.size(), g.nodes.size());
    least = std::min(least, std::clock() - begin);
  }
  return static_cast<double>(std::max<std::clock_t>(least, 1));
}

// 16 times as long: comparing each constant with all others takes 256 times as long
TEST(CommonSubexpressions, LongTextsTakeTimeInProportion) {
  EXPECT_LT(fastest_of_three(long_graph(32000)), 100 * fastest_of_three(long_graph(2000)));
}

std::size_t hash_of_number(double x) {
  Attributes a;
  a.value = x;
  return ir::hash_of(a);
}

TEST(CommonSubexpressions, NumbersThatAreOneAndThoseThatAreNot) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(hash_of_number(nan), hash_of_number(-nan));
  EXPECT_EQ(hash_of_number(2), hash_of_number(2));
  EXPECT_NE(hash_of_number(0.0), hash_of_number(-0.0));
  EXPECT_NE(hash_of_number(1), hash_of_number(2));
}

}  // namespace
}  // namespace unisono::passes
