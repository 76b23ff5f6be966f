#include "passes/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "passes/passes.hpp"
#include "rewriting.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {
namespace {

std::vector<Op> ops(const Graph& g, const std::vector<ValueId>& ids) {
  std::vector<Op> r;
  for (const ValueId id : ids) r.push_back(g[id].op);
  return r;
}

using Ops = std::vector<Op>;

TEST(Partition, WithoutReductionsThereIsOneStage) {
  const Graph g = graph_of("store mish(acc + bias[n]) : bf16");
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 1u);
  EXPECT_EQ(ops(g, p.stages[0].values), (Ops{Op::add, Op::mish}));
  EXPECT_TRUE(p.uniform.empty());
  EXPECT_TRUE(p.stages[0].kept.empty());
  EXPECT_EQ(p.stages[0].stores, (std::vector<std::size_t>{0}));
}

// What the passes promise for GroupNorm: one value is kept between the two stages
TEST(Partition, GroupNormKeepsOneValue) {
  const Graph g =
      run_pipeline(graph_of("h = acc + bias[n] + temb[b,n]\n"
                            "y = mish(group_norm(h, groups=32, scale=gamma[n], shift=beta[n]))\n"
                            "store y : bf16\nstore h : bf16\nstore sum(h, over=m) : f32"));
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::add}));
  EXPECT_EQ(p.stages[0].reductions.size(), 3u);
  EXPECT_TRUE(p.stages[1].reductions.empty());
  EXPECT_EQ(p.stages[0].stores, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(p.stages[1].stores, (std::vector<std::size_t>{0}));
}

TEST(Partition, TheAccumulatorItselfIsKept) {
  const Graph g = run_pipeline(graph_of("instance_norm(acc)"));
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::acc}));
}

TEST(Partition, WholeRowsNeedNoStageForAReductionOverColumns) {
  const Graph g = run_pipeline(graph_of("layer_norm(acc + bias[n])"));
  EXPECT_EQ(partition(g, {.whole_rows = true}).stages.size(), 1u);
  EXPECT_TRUE(partition(g, {.whole_rows = true}).stages[0].reductions.empty());
  const Partition parts = partition(g, {.whole_rows = false});
  EXPECT_EQ(parts.stages.size(), 2u);
  EXPECT_EQ(parts.stages[0].reductions.size(), 2u);
}

TEST(Partition, UniformValuesAreComputedOnce) {
  const Graph g = graph_of("s = exp(a[]) * sqrt(t[b])\nstore acc * s + bias[n] * 2 : f32");
  const Partition p = partition(g);
  EXPECT_EQ(ops(g, p.uniform), (Ops{Op::exp, Op::sqrt, Op::mul}));
}

TEST(Partition, AReductionOfScalarsIsNotUniform) {
  const Graph g = graph_of("store acc * sum(a[], over=m) : f32");
  const Partition p = partition(g);
  EXPECT_TRUE(p.uniform.empty());
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(p.stages[0].reductions.size(), 1u);
}

// h is kept for the residual anyway: silu(h) is computed in the second stage from it instead of being kept too
TEST(Partition, ComputesLaterWhatCostsMoreToKeep) {
  const Graph g = graph_of("h = acc + bias[n]\nstore silu(h) * (h - mean(h, over=m)) : f32");
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::add}));
  EXPECT_EQ(ops(g, p.stages[0].values), (Ops{Op::add, Op::mean}));
}

// Operands can be read again: nothing of c + d is kept
TEST(Partition, LoadsOperandsAgain) {
  const Graph g = graph_of("r = c[m,n] * d[m,n]\nstore r + mean(acc, over=m) : f32");
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_TRUE(p.stages[0].kept.empty());
  EXPECT_EQ(ops(g, p.stages[0].values), (Ops{Op::mean}));
}

// One byte a value instead of four
TEST(Partition, KeepsTheSmallerOfTwoEquivalentValues) {
  const Graph g = graph_of("mask = acc + c[m,n] > 0\nstore select(mask, mean(acc, over=m), 0) : f32");
  const Partition p = partition(g);
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::greater}));
  // … and the product instead of its two factors; between equals, what is computed already
  const Graph h = graph_of("a = sin(acc)\nb = cos(acc)\nstore a * b + mean(a + b, over=m) : f32");
  EXPECT_EQ(ops(h, partition(h).stages[0].kept), (Ops{Op::mul}));
}

TEST(Partition, StoresOfLeavesAndUniformValuesBelongToTheFirstStage) {
  const Graph g =
      graph_of("store exp(a[]) as u : f32\nstore c[m,n] as copy : f32\nstore acc - mean(acc, over=m) as y : f32");
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(p.stages[0].stores, (std::vector<std::size_t>{0, 1}));
  const Graph only = graph_of("store exp(a[]) as u : f32");
  ASSERT_EQ(partition(only).stages.size(), 1u);
  EXPECT_EQ(partition(only).stages[0].stores.size(), 1u);
}

TEST(Partition, EffectsKeepTheirOrder) {
  const Graph g = graph_of("observe(mean(acc, over=m))\nobserve(acc)");
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_TRUE(p.stages[0].effects.empty());
  EXPECT_EQ(p.stages[1].effects, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::acc}));
}

TEST(Partition, ChainsOfNormalisationsMakeAStageEach) {
  const Graph g = run_pipeline(graph_of("instance_norm(relu(group_norm(acc, groups=2))) + acc"));
  const Partition p = partition(g);
  ASSERT_EQ(p.stages.size(), 3u);
  EXPECT_EQ(ops(g, p.stages[0].kept), (Ops{Op::acc}));
  EXPECT_EQ(ops(g, p.stages[1].kept), (Ops{Op::relu}));
}

TEST(Partition, DeadValuesAppearNowhere) {
  const Graph g = graph_of("t = layer_norm(acc)\nstore acc + bias[n] : f32");
  const Partition p = partition(g);
  EXPECT_EQ(ops(g, p.stages[0].values), (Ops{Op::add}));
}

TEST(Partition, RefusesANormalisation) { EXPECT_THROW(partition(graph_of("layer_norm(acc)")), InternalError); }

// Brute force over all assignments of small graphs: no other one keeps fewer bytes in the same number of stages
std::int64_t kept_bytes(const Graph& g, const std::vector<int>& stage, const std::vector<bool>& tiled) {
  std::int64_t bytes = 0;
  for (ValueId v = 0; v < g.nodes.size(); ++v) {
    if (!tiled[v]) continue;
    bool later = false;
    for (ValueId user = v + 1; user < g.nodes.size(); ++user)
      for (const ValueId in : g[user].inputs) later |= in == v && stage[user] > stage[v];
    if (later) bytes += (g[v].axes.col == ColAxis::n ? 64 : 1) * static_cast<std::int64_t>(size_of(g[v].dtype));
  }
  return bytes;
}

TEST(Partition, KeepsTheFewestBytesOfAllAssignments) {
  for (const char* text : {
           "h = acc + bias[n]\na = sin(h)\nb = cos(h)\nd = a * b\nstore d + mean(h, over=m) * a : f32",
           "h = acc * c[m,n]\na = exp(h)\nb = tanh(a)\nd = a + b\nstore (a - mean(a, over=m)) * d : f32",
           "a = sin(acc)\nb = cos(c[m,n])\nd = a * b\nm1 = d > 0\nstore select(m1, a, b) * mean(acc, over=m) : f32",
           "r = mean(acc, over=n)\nd = acc - r\ne = d * d\nstore e * mean(e, over=m) * r : f32",
           "a = sin(acc)\nb = cos(acc)\nd = a + b\ne = a - b\nf1 = d * e\nstore f1 * mean(d, over=m) + a : f32",
       }) {
    SCOPED_TRACE(text);
    const Graph g = graph_of(text);
    const Partition p = partition(g);
    ASSERT_EQ(p.stages.size(), 2u);
    std::vector<int> found(g.nodes.size(), 0), free;
    std::vector<bool> tiled(g.nodes.size());
    for (const ValueId v : p.stages[1].values) found[v] = 1;
    std::vector<int> earliest(g.nodes.size(), 0);
    std::vector<ValueId> movable;
    for (ValueId v = 0; v < g.nodes.size(); ++v) {
      const bool leaf = ir::info(g[v].op).op_class == ir::OpClass::leaf;
      tiled[v] = g[v].axes.row == RowAxis::m && (!leaf || g[v].op == Op::acc);
      for (const ValueId in : g[v].inputs)
        earliest[v] =
            std::max(earliest[v], earliest[in] + (ir::is_reduction(g[in].op) && g[in].attr.domain.rows ? 1 : 0));
      if (!leaf && earliest[v] == 0 && !(ir::is_reduction(g[v].op) && g[v].attr.domain.rows)) movable.push_back(v);
    }
    ASSERT_LT(movable.size(), 12u);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (unsigned bits = 0; bits < 1u << movable.size(); ++bits) {
      auto stage = earliest;
      for (std::size_t i = 0; i < movable.size(); ++i) stage[movable[i]] = (bits >> i) & 1;
      bool legal = true;
      for (ValueId v = 0; v < g.nodes.size(); ++v)
        for (const ValueId in : g[v].inputs) legal &= stage[in] <= stage[v];
      if (legal) least = std::min(least, kept_bytes(g, stage, tiled));
    }
    EXPECT_EQ(kept_bytes(g, found, tiled), least);
  }
}

}  // namespace
}  // namespace unisono::passes
