#include "passes/split_normalisations.hpp"

#include <gtest/gtest.h>

#include "rewriting.hpp"

namespace unisono::passes {
namespace {

TEST(SplitNormalisations, Rewrites) {
  expect_rewrites(
      split_normalisations,
      {
          {"group_norm(acc, groups=4, scale=gamma[n], shift=beta[n], eps=1e-5)",
           "(acc - mean(acc, over=(m,n), per=b, groups=4)) * (rsqrt(variance(acc, over=(m,n), per=b, groups=4) + 1e-5) "
           "* "
           "gamma[n]) + beta[n]"},
          {"instance_norm(acc, eps=0.1)",
           "(acc - mean(acc, over=m, per=b)) * rsqrt(variance(acc, over=m, per=b) + 0.1)"},
          {"batch_norm(acc, scale=gamma[n], eps=0.1)",
           "(acc - mean(acc, over=m)) * (rsqrt(variance(acc, over=m) + 0.1) * gamma[n])"},
          // [m] times [n] is no smaller than the result: the scale is applied to the elements
          {"layer_norm(acc, scale=gamma[n], shift=beta[n], eps=0.1)",
           "(acc - mean(acc, over=n)) * rsqrt(variance(acc, over=n) + 0.1) * gamma[n] + beta[n]"},
          {"layer_norm(acc, scale=gamma[m,n], eps=0.1)",
           "(acc - mean(acc, over=n)) * rsqrt(variance(acc, over=n) + 0.1) * gamma[m,n]"},
          {"rms_norm(acc, scale=gamma[n], eps=0.1)", "acc * rsqrt(mean(square(acc), over=n) + 0.1) * gamma[n]"},
          {"rms_norm(acc, eps=0)", "acc * rsqrt(mean(square(acc), over=n))"},
          {"softmax(acc, over=n)", "e = exp(acc - max(acc, over=n))\nstore e * reciprocal(sum(e, over=n)) as y : f32"},
          {"softmax(acc, over=n, groups=4)",
           "e = exp(acc - max(acc, over=n, groups=4))\nstore e * reciprocal(sum(e, over=n, groups=4)) as y : f32"},
      });
}

TEST(SplitNormalisations, ComputesInTheDtypeOfTheNormalisation) {
  expect_rewrites(
      split_normalisations,
      {
          // the square of a bf16 value would be rounded
          {"rms_norm(cast(acc, bf16), eps=0.1)",
           "x = cast(cast(acc, bf16), f32)\nstore x * rsqrt(mean(square(x), over=n) + 0.1) as y : f32"},
          // bf16 meets f32 statistics: nothing is rounded
          {"layer_norm(cast(acc, bf16), eps=0.1)",
           "x = cast(acc, bf16)\nstore (x - mean(x, over=n)) * rsqrt(variance(x, over=n) + 0.1) as y : f32"},
          // integers would wrap in x - max(x)
          {"softmax(index(n), over=n)",
           "x = cast(index(n), f32)\ne = exp(x - max(x, over=n))\nstore e * reciprocal(sum(e, over=n)) as y : f32"},
          // an f64 scale makes it an f64 norm
          {"operand gamma[n] : f64\nstore layer_norm(acc, scale=gamma[n], eps=0.1) as y : f64",
           "operand gamma[n] : f64\nx = cast(acc, f64)\n"
           "store (x - mean(x, over=n)) * rsqrt(variance(x, over=n) + 0.1) * gamma[n] as y : f64"},
      });
}

const std::vector<Rewrite> log_softmax{
    {"log(softmax(acc, over=n))", "d = acc - max(acc, over=n)\nstore d - log(sum(exp(d), over=n)) as y : f32"},
    // the probabilities themselves share everything
    {"p = softmax(acc, over=n)\nstore log(p) as y : f32\nstore p : f32",
     "d = acc - max(acc, over=n)\ne = exp(d)\ns = sum(e, over=n)\nstore d - log(s) as y : f32\n"
     "store e * reciprocal(s) as p : f32"},
    {"log(cast(softmax(acc, over=n), bf16))",
     "e = exp(acc - max(acc, over=n))\nstore log(cast(e * reciprocal(sum(e, over=n)), bf16)) as y : f32"},
};

TEST(SplitNormalisations, TheLogarithmOfASoftmaxDoesNotUnderflow) {
  expect_rewrites(split_normalisations, log_softmax);
  expect_all_rows_fire(softmax_rows(), log_softmax);
}

TEST(SplitNormalisations, LeavesTheRest) { expect_unchanged(split_normalisations, {"mish(acc) + mean(acc, over=n)"}); }

TEST(SplitNormalisations, KeepsTheName) {
  const Graph g = split_normalisations(graph_of("h = layer_norm(acc)\nstore silu(h) as y : f32"));
  bool found = false;
  for (const Node& x : g.nodes) found |= x.name == "h";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace unisono::passes
