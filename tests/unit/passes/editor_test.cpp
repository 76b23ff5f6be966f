#include "passes/editor.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/canonicalise.hpp"
#include "passes/fuse_operators.hpp"
#include "rewriting.hpp"
#include "support/random_graph.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {
namespace {

ValueId find(const Editor& g, Op op) {
  for (ValueId id = 0; id < g.size(); ++id)
    if (g[id].op == op && !g.dead(id)) return id;
  ADD_FAILURE() << "no " << to_string(op);
  return 0;
}

TEST(Editor, WithoutEditsReturnsTheSourceAsItIs) {
  const Graph source = graph_of("t = unused[m] + 1\nstore acc as y : f32");
  EXPECT_EQ(Editor(source).finish().nodes.size(), source.nodes.size());
}

TEST(Editor, CountsUsesOfLiveNodesOnly) {
  Editor g(graph_of("a = exp(acc)\ndead = sin(a)\nstore a + a : f32\nstore a : f32"));
  EXPECT_EQ(g.uses(find(g, Op::exp)), 3);
  for (ValueId id = 0; id < g.size(); ++id) EXPECT_EQ(g.dead(id), g[id].op == Op::sin);
  g.add(Op::tanh, {find(g, Op::exp)});
  EXPECT_EQ(g.uses(find(g, Op::exp)), 3);
}

TEST(Editor, ReplacesAndSorts) {
  Editor g(graph_of("a = exp(acc)\nb = a * bias[n]\nstore b as y : f32\nstore tanh(a) as z : f32"));
  const ValueId old = find(g, Op::exp);
  g.replace(old, g.add(Op::sigmoid, {g.add(Op::abs, {find(g, Op::acc)})}));
  EXPECT_TRUE(g.dead(old));
  const Graph result = std::move(g).finish();
  verify(result);
  EXPECT_TRUE(structurally_equal(
      normal(result),
      normal(graph_of("a = sigmoid(abs(acc))\nstore a * bias[n] as y : f32\nstore tanh(a) as z : f32"))));
  EXPECT_EQ(result[result.stores[0].value].name, "b");
}

TEST(Editor, TheNameGoesToTheReplacement) {
  Editor g(graph_of("a = exp(acc)\nstore a * 2 as y : f32"));
  g.replace(find(g, Op::exp), g.add(Op::sin, {find(g, Op::acc)}));
  EXPECT_EQ(g[find(g, Op::sin)].name, "a");
}

TEST(Editor, RefusesAnotherType) {
  Editor g(graph_of("exp(acc) + c[m,n]"));
  const ValueId e = find(g, Op::exp);
  EXPECT_THROW(g.replace(e, g.add(Op::cast, {e}, {}, DType::bf16)), InternalError);
  EXPECT_THROW(g.replace(e, g.add(Op::exp, {g.extent(Coordinate::n)})), InternalError);
}

TEST(Editor, ConstantsFitWhereNoTypeChanges) {
  Editor g(graph_of("x = exp(a[])\nstore acc * x as y : f32"));
  EXPECT_TRUE(g.constant_fits(find(g, Op::exp), 0.5));
  Editor stored(graph_of("exp(acc)"));  // [m,n] in memory would become a scalar
  EXPECT_FALSE(stored.constant_fits(find(stored, Op::exp), 0.5));
  Editor promoted(graph_of("x = exp(a[])\nstore cast(acc, bf16) * x as y : f32"));  // f32 would become bf16
  EXPECT_FALSE(promoted.constant_fits(find(promoted, Op::exp), 0.5));
  Editor compared(graph_of("x = exp(a[])\nstore index(m) < x as y : f32"));  // compared in f32, not as integers
  EXPECT_FALSE(compared.constant_fits(find(compared, Op::exp), 2));
  Editor condition(graph_of("select(a[] < 2, acc, c[m,n])"));
  EXPECT_FALSE(condition.constant_fits(find(condition, Op::less), 1));
}

TEST(Editor, AddsWhatHasAType) {
  Editor g(graph_of("exp(acc)"));
  const ValueId size = g.size(), e = find(g, Op::exp);
  EXPECT_EQ(g.try_add(Op::sin, {e}), size);
  EXPECT_EQ(g.try_add(Op::select, {e, e, e}), std::nullopt);
  EXPECT_EQ(g.size(), size + 1);
  EXPECT_THROW(g.add(Op::select, {e, e, e}), UserError);
}

TEST(Editor, RollsBack) {
  const Graph source = graph_of("exp(acc)");
  Editor g(source);
  const ValueId first = g.size();
  g.add(Op::sin, {0});
  g.roll_back(first);
  EXPECT_FALSE(g.changed());
  EXPECT_TRUE(structurally_equal(std::move(g).finish(), source));
}

// What the editor keeps up to date by steps is what it counts afresh
TEST(Editor, CountsStayRight) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Editor g(test::random_case(seed).graph);
    apply(canonical_rows(), g);
    apply(fusion_rows(), g);
    const Editor counted(g.graph());
    for (ValueId id = 0; id < g.size(); ++id) {
      ASSERT_EQ(g.uses(id), counted.uses(id)) << "seed " << seed << ", node " << id;
      auto x = g.users(id), y = counted.users(id);
      std::sort(x.begin(), x.end());
      std::sort(y.begin(), y.end());
      ASSERT_EQ(x, y) << "seed " << seed << ", node " << id;
    }
  }
}

}  // namespace
}  // namespace unisono::passes
