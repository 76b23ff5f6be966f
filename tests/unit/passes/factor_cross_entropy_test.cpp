#include "passes/factor_cross_entropy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "passes/passes.hpp"
#include "passes/prune.hpp"
#include "reference/reference.hpp"
#include "rewriting.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> rewrites{
    {"(1 - c[m,n]) * softplus(acc) - c[m,n] * logsigmoid(acc)", "(relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc))"},
    {"logsigmoid(acc) * c[m,n] - softplus(acc) * (1 - c[m,n])", "-((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"c[m,n] * logsigmoid(acc) + (c[m,n] + -1) * softplus(acc)",
     "-((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"-((c[m,n] + -1) * softplus(acc)) - c[m,n] * logsigmoid(acc)",
     "(relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc))"},
    {"sum((1 - c[m,n]) * softplus(acc), over=n) - sum(c[m,n] * logsigmoid(acc), over=n)",
     "sum((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)), over=n)"},
    {"sum(c[m,n] * logsigmoid(acc)) - sum((1 - c[m,n]) * softplus(acc))",
     "-sum((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"sum(c[m,n] * logsigmoid(acc)) + sum(-((1 - c[m,n]) * softplus(acc)))",
     "-sum((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"sum(c[m,n] * logsigmoid(acc)) + sum((c[m,n] + -1) * softplus(acc))",
     "-sum((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"mean((1 - c[m,n]) * softplus(acc), over=n) - mean(c[m,n] * logsigmoid(acc), over=n)",
     "mean((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)), over=n)"},
    {"mean(c[m,n] * logsigmoid(acc)) - mean((1 - c[m,n]) * softplus(acc))",
     "-mean((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"mean(c[m,n] * logsigmoid(acc)) + mean(-((1 - c[m,n]) * softplus(acc)))",
     "-mean((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
    {"mean(c[m,n] * logsigmoid(acc)) + mean((c[m,n] + -1) * softplus(acc))",
     "-mean((relu(acc) - c[m,n] * acc) - logsigmoid(abs(acc)))"},
};

// p is read elsewhere, so that fuse_operators leaves log(p) and log(1 - p) as they are
std::vector<Rewrite> shared_probability_rewrites() {
  static std::deque<std::string> texts;
  std::vector<Rewrite> r;
  const auto add = [&](const std::string& before, const std::string& after) {
    const std::string head = "p = sigmoid(acc)\nt = c[m,n]\nl = (relu(acc) - t * acc) - logsigmoid(abs(acc))\n";
    const std::string tail = " as y : f32\nstore p - t as gradient : f32";
    const auto& x = texts.emplace_back(head + "store " + before + tail);
    const auto& y = texts.emplace_back(head + "store " + after + tail);
    r.push_back({x, y});
  };
  for (const std::string miss : {"log(1 - p)", "log1p(-p)"}) {
    add("t * log(p) + (1 - t) * " + miss, "-l");
    add("(t + -1) * " + miss + " - t * log(p)", "l");
    add("t * log(p) - (t + -1) * " + miss, "-l");
    add("-(t * log(p)) - (1 - t) * " + miss, "l");
    for (const std::string f : {"sum", "mean"}) {
      add(f + "(t * log(p)) + " + f + "((1 - t) * " + miss + ")", "-" + f + "(l)");
      add(f + "((t + -1) * " + miss + ") - " + f + "(t * log(p))", f + "(l)");
    }
  }
  return r;
}

TEST(FactorCrossEntropy, Rewrites) { expect_rewrites(factor_cross_entropy, rewrites); }
TEST(FactorCrossEntropy, WithTheGradientBesideIt) {
  expect_rewrites([](const Graph& g) { return prune(factor_cross_entropy(g)); }, shared_probability_rewrites());
}
TEST(FactorCrossEntropy, EveryRowHasACase) {
  auto all = rewrites;
  for (const auto& r : shared_probability_rewrites()) all.push_back(r);
  expect_all_rows_fire(cross_entropy_rows(), all);
}

// Loss and gradient from one kernel, as training wants them
TEST(FactorCrossEntropy, LossAndGradient) {
  const Graph result =
      run_pipeline(graph_of("p = sigmoid(acc)\nt = c[m,n]\nstore p - t as gradient : bf16\n"
                            "store mean(-(t * log(p) + (1 - t) * log(1 - p))) as loss : f32"));
  const Graph expected = graph_of(
      "store sigmoid(acc) - c[m,n] as gradient : bf16\n"
      "store mean(fma(acc, -c[m,n], relu(acc)) - logsigmoid(abs(acc))) as loss : f32");
  EXPECT_EQ(print(normal(result)), print(normal(expected)));
}

TEST(FactorCrossEntropy, NotForOtherValues) {
  expect_unchanged(factor_cross_entropy,
                   {
                       "(1 - c[m,n]) * softplus(acc) - x[m,n] * logsigmoid(acc)",     // two targets
                       "(1 - c[m,n]) * softplus(acc) - c[m,n] * logsigmoid(x[m,n])",  // two logits
                       "(2 - c[m,n]) * softplus(acc) - c[m,n] * logsigmoid(acc)",     // no complement
                       "(1 - c[m,n]) * softplus(acc) + c[m,n] * logsigmoid(acc)",     // another sign
                       "sum((1 - c[m,n]) * softplus(acc), over=n) - sum(c[m,n] * logsigmoid(acc), over=m)",
                       "t = cast(c[m,n], bf16)\nstore (1 - t) * softplus(acc) - t * logsigmoid(acc) : f32",
                       "s = softplus(acc)\nstore (1 - c[m,n]) * s - c[m,n] * logsigmoid(acc) : f32\nstore s : f32",
                   });
}

// Every spelling of the loss comes out of the whole pipeline in the same stable form
TEST(FactorCrossEntropy, PapersFormulaInEverySpelling) {
  const std::string prefix = "p = sigmoid(acc)\nt = c[m,n]\n";
  const Graph expected = graph_of("store fma(acc, -c[m,n], relu(acc)) - logsigmoid(abs(acc)) as y : f32");
  for (const char* loss : {
           "-(t * log(p) + (1 - t) * log(1 - p))",
           "-((1 - t) * log(1 - p) + t * log(p))",
           "-(log(p) * t + log(1 - p) * (1 - t))",
           "-t * log(p) - (1 - t) * log(1 - p)",
           "-(t * log(p)) - (1 - t) * log(1 - p)",
           "t * -log(p) + (1 - t) * -log(1 - p)",
           "(t - 1) * log(1 - p) - t * log(p)",
           "-1 * (t * log(p) + (1 - t) * log(1 - p))",
           "-(t * log(1 / (1 + exp(-acc))) + (1 - t) * log(1 - 1 / (1 + exp(-acc))))",
       }) {
    SCOPED_TRACE(loss);
    const Graph result = run_pipeline(graph_of(prefix + "store " + loss + " as y : f32"));
    EXPECT_EQ(print(normal(result)), print(normal(expected)));
  }
}

TEST(FactorCrossEntropy, SummedOrAveraged) {
  const std::string prefix = "p = sigmoid(acc)\nt = c[m,n]\n";
  for (const char* reduction : {"sum", "mean"}) {
    const std::string f = reduction;
    const Graph expected =
        graph_of("store " + f + "(fma(acc, -c[m,n], relu(acc)) - logsigmoid(abs(acc)), over=all) as y : f32");
    for (const std::string& loss : {
             f + "(-(t * log(p) + (1 - t) * log(1 - p)))",
             "-" + f + "(t * log(p) + (1 - t) * log(1 - p))",
             f + "(-t * log(p) - (1 - t) * log(1 - p))",
             "-(" + f + "(t * log(p)) + " + f + "((1 - t) * log(1 - p)))",
             "-" + f + "(t * log(p)) - " + f + "((1 - t) * log(1 - p))",
         }) {
      SCOPED_TRACE(loss);
      const Graph result = run_pipeline(graph_of(prefix + "store " + loss + " as y : f32"));
      EXPECT_EQ(print(normal(result)), print(normal(expected)));
    }
  }
}

TEST(FactorCrossEntropy, OneLogarithmIsLeft) {
  const Graph result =
      run_pipeline(graph_of("p = sigmoid(acc)\nt = c[m,n]\nl = -(t*log(p) + (1-t)*log(1-p))\n"
                            "store l : f32\nstore sum(l, over=m) : f32\nstore mean(l) : f32"));
  const auto logarithms = std::count_if(result.nodes.begin(), result.nodes.end(), [](const Node& x) {
    return x.op == Op::log || x.op == Op::log1p || x.op == Op::softplus || x.op == Op::logsigmoid;
  });
  EXPECT_EQ(logarithms, 1);
}

// For hard targets the loss of a confident and correct logit is tiny; relu(x) - t·x cancels exactly there. The
// reference's bound for f32, relative to the value, shows that.
TEST(FactorCrossEntropy, IsAccurateWhereTheFormulaIsNot) {
  const Graph written = graph_of("p = sigmoid(acc)\nt = c[m,n]\nstore -(t*log(p) + (1-t)*log(1-p)) as y : f32");
  const Graph stable = run_pipeline(written);
  const Gemm gemm{.m = 1, .n = 6, .k = 1};
  const std::vector<float> logits{-60, -20, -5, 5, 20, 60}, targets{0, 0, 0, 1, 1, 1}, one{1};
  Arguments arguments;
  arguments.left = {one.data(), DType::f32, {1, 1, 1}, {}};
  arguments.right = {logits.data(), DType::f32, {1, 1, 6}, {}};
  arguments.operands["c"] = {targets.data(), DType::f32, {1, 1, 6}, {}};
  const auto y = reference::run(gemm, stable, arguments).at("y");
  for (std::size_t i = 0; i < 6; ++i) {
    const double expected = std::log1p(std::exp(-std::abs(static_cast<double>(logits[i]))));
    EXPECT_NEAR(y.value[i], expected, 1e-12 * expected);
    EXPECT_LT(y.bound[i], 2e-6 * expected) << logits[i];
  }
}

}  // namespace
}  // namespace unisono::passes
