#include <gtest/gtest.h>

#include <set>

#include "passes/passes.hpp"
#include "rewriting.hpp"
#include "support/random_graph.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

std::string after_all(std::string_view text) { return print(normal(run_pipeline(graph_of(text)))); }
std::string as_written(std::string_view text) { return print(normal(graph_of(text))); }

TEST(Pipeline, EveryPassHasANameAndAPurpose) {
  for (const Pass& pass : pipeline()) {
    EXPECT_FALSE(pass.name.empty());
    EXPECT_FALSE(pass.purpose.empty());
    EXPECT_NE(pass.run, nullptr);
  }
}

TEST(Pipeline, TheObserverSeesEveryPassInOrder) {
  std::vector<std::string_view> names;
  Graph last = graph_of("acc * sigmoid(acc)");
  run_pipeline(last, [&](const Pass& pass, const Graph& before, const Graph& after) {
    names.push_back(pass.name);
    EXPECT_TRUE(structurally_equal(before, last));
    last = after;
  });
  ASSERT_EQ(names.size(), pipeline().size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], pipeline()[i].name);
}

TEST(Pipeline, Examples) {
  EXPECT_EQ(after_all("x = acc + bias[n]\nstore x * (1 / (1 + exp(-x))) as y : bf16"),
            as_written("store silu(acc + bias[n]) as y : bf16"));
  EXPECT_EQ(after_all("x = acc\nstore x * tanh(log(1 + exp(x))) as y : f32"), as_written("mish(acc)"));
  EXPECT_EQ(after_all("group_norm(acc, groups=2, scale=gamma[n], shift=beta[n], eps=0.1)"),
            as_written("fma(acc - mean(acc, over=(m,n), per=b, groups=2), "
                       "rsqrt(variance(acc, over=(m,n), per=b, groups=2) + 0.1) * gamma[n], beta[n])"));
  // layer_norm by hand
  EXPECT_EQ(after_all("mu = mean(acc, over=n)\nd = acc - mu\nstore d / sqrt(mean(d * d, over=n) + 0.1) as y : f32"),
            as_written("(acc - mean(acc, over=n)) * rsqrt(variance(acc, over=n) + 0.1)"));
  EXPECT_EQ(after_all("(acc - mean(acc, over=n)) * pow(variance(acc, over=n) + 0.1, -0.5)"),
            as_written("(acc - mean(acc, over=n)) * rsqrt(variance(acc, over=n) + 0.1)"));
  EXPECT_EQ(after_all("acc * min(max(acc + 3, 0), 6) / 6"), as_written("hardswish(acc)"));
}

// With the normalisation of the same value, a mean that is asked for costs nothing
TEST(Pipeline, SharesReductions) {
  const Graph g =
      run_pipeline(graph_of("y = layer_norm(acc)\nstore y : f32\nstore mean(acc, over=n) as mu : f32\n"
                            "store variance(acc, over=n) as var : f32"));
  int reductions = 0;
  for (const Node& x : g.nodes) reductions += x.op == Op::mean || x.op == Op::variance ? 1 : 0;
  EXPECT_EQ(reductions, 2);
}

TEST(Pipeline, CastsOfTheUserAllStay) {
  const char* text = "x = cast(acc, bf16)\ny = cast(x * x, f32)\nz = cast(cast(y + 1, f16), f32)\nstore z : f32";
  const Graph g = run_pipeline(graph_of(text));
  int short_nodes = 0;
  for (const Node& x : g.nodes) short_nodes += x.dtype == DType::bf16 || x.dtype == DType::f16 ? 1 : 0;
  EXPECT_EQ(short_nodes, 3);  // cast, product, cast
}

TEST(Pipeline, SecondRunChangesLittle) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Graph once = run_pipeline(test::random_case(seed).graph);
    const Graph twice = run_pipeline(once);
    EXPECT_LE(twice.nodes.size(), once.nodes.size()) << seed;
  }
}

TEST(Pipeline, LeavesNoNormalisationAndNothingDead) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Graph g = run_pipeline(test::random_case(seed).graph);
    verify(g);
    std::set<ValueId> read;
    for (const Store& s : g.stores) read.insert(s.value);
    for (const ValueId e : g.effects) read.insert(e);
    for (const Node& x : g.nodes) read.insert(x.inputs.begin(), x.inputs.end());
    EXPECT_EQ(read.size(), g.nodes.size()) << seed;
    for (const Node& x : g.nodes)
      EXPECT_FALSE(x.op == Op::softmax || (x.op >= Op::group_norm && x.op <= Op::batch_norm));
  }
}

}  // namespace
}  // namespace unisono::passes
