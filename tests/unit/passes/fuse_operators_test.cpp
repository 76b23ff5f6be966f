#include "passes/fuse_operators.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>

#include "rewriting.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> rewrites{
    // exponentials
    {"1 / (1 + exp(-acc))", "sigmoid(acc)"},
    {"1 / (exp(-acc) + 1)", "sigmoid(acc)"},
    {"reciprocal(1 + exp(-acc))", "sigmoid(acc)"},
    {"1 / (1 + exp(acc))", "sigmoid(-acc)"},
    {"reciprocal(1 + exp(acc))", "sigmoid(-acc)"},
    {"e = exp(acc)\nstore e / (1 + e) as y : f32", "sigmoid(acc)"},
    {"0.5 * (1 + tanh(0.5 * acc))", "sigmoid(acc)"},
    {"acc / (1 + exp(-acc))", "silu(acc)"},
    {"acc * sigmoid(acc)", "silu(acc)"},
    {"sigmoid(acc) * acc", "silu(acc)"},
    {"acc * (1 / (1 + exp(-acc)))", "silu(acc)"},
    {"log(1 + exp(acc))", "softplus(acc)"},
    {"log1p(exp(acc))", "softplus(acc)"},
    {"log(sigmoid(acc))", "logsigmoid(acc)"},
    {"log(1 - sigmoid(acc))", "-softplus(acc)"},
    {"log1p(-sigmoid(acc))", "-softplus(acc)"},
    {"log(acc + 1)", "log1p(acc)"},
    {"softplus(-acc)", "-logsigmoid(acc)"},
    {"logsigmoid(-acc)", "-softplus(acc)"},
    {"tanh(softplus(acc)) * acc", "mish(acc)"},
    {"acc * tanh(log(1 + exp(acc)))", "mish(acc)"},
    {"p = sigmoid(acc)\nstore c[m,n] * log(p) + log(1 - p) as y : f32", "c[m,n] * logsigmoid(acc) + (-softplus(acc))"},
    // arithmetic
    {"acc + 0", "acc"},
    {"(-acc) - c[m,n]", "-(acc + c[m,n])"},
    {"-(acc - c[m,n])", "c[m,n] - acc"},
    {"(acc + 1) + 2", "acc + 3"},
    {"(acc * 3) * 0.5", "acc * 1.5"},
    {"1 / sqrt(acc)", "rsqrt(acc)"},
    {"reciprocal(sqrt(acc))", "rsqrt(acc)"},
    {"sqrt(reciprocal(square(acc)))", "rsqrt(square(acc))"},
    {"acc / sqrt(bias[n])", "acc * rsqrt(bias[n])"},
    {"pow(acc, 2)", "square(acc)"},
    {"pow(acc, 3)", "square(acc) * acc"},
    {"pow(acc, -1)", "reciprocal(acc)"},
    {"pow(abs(acc), 0.5)", "sqrt(abs(acc))"},
    {"pow(variance(acc, over=n) + 1e-5, -0.5)", "rsqrt(variance(acc, over=n) + 1e-5)"},
    {"1 / acc", "reciprocal(acc)"},
    {"acc / 5", "acc * 0.2"},
    {"acc / bias[n]", "acc * reciprocal(bias[n])"},
    // select
    {"select(acc > 0, acc, acc * 0.1)", "leaky_relu(acc, 0.1)"},
    {"select(acc >= 0, acc, 0.1 * acc)", "leaky_relu(acc, 0.1)"},
    {"select(acc < 0, acc * 0.1, acc)", "leaky_relu(acc, 0.1)"},
    {"select(acc <= 0, acc * 0.1, acc)", "leaky_relu(acc, 0.1)"},
    {"select(acc > 0, acc, exp(acc) + -1)", "elu(acc)"},
    {"select(acc >= 0, acc, exp(acc) + -1)", "elu(acc)"},
    {"select(acc < 0, exp(acc) + -1, acc)", "elu(acc)"},
    {"select(acc <= 0, exp(acc) + -1, acc)", "elu(acc)"},
    {"select(acc > 0, acc, 0.5 * (exp(acc) + -1))", "elu(acc, 0.5)"},
    {"select(acc >= 0, acc, 0.5 * (exp(acc) + -1))", "elu(acc, 0.5)"},
    {"select(acc < 0, 0.5 * (exp(acc) + -1), acc)", "elu(acc, 0.5)"},
    {"select(acc <= 0, 0.5 * (exp(acc) + -1), acc)", "elu(acc, 0.5)"},
    {"select(acc > 0, acc, -acc)", "abs(acc)"},
    {"select(acc >= 0, acc, -acc)", "abs(acc)"},
    {"select(acc < 0, -acc, acc)", "abs(acc)"},
    {"select(acc <= 0, -acc, acc)", "abs(acc)"},
    {"select(acc < 0, 0, acc)", "relu(acc)"},
    {"select(acc <= 0, 0, acc)", "relu(acc)"},
    // bounds
    {"max(acc, 0)", "relu(acc)"},
    {"max(0, acc)", "relu(acc)"},
    {"max(max(acc, 1), 2)", "max(acc, 2)"},
    {"min(min(acc, 1), 2)", "min(acc, 1)"},
    {"min(max(acc, -1), 2)", "clamp(acc, -1, 2)"},
    {"max(min(acc, 2), -1)", "clamp(acc, -1, 2)"},
    {"min(relu(acc), 5)", "clamp(acc, 0, 5)"},
    {"relu(min(acc, 5))", "clamp(acc, 0, 5)"},
    {"min(max(acc, 0), 6)", "relu6(acc)"},
    {"max(clamp(acc, -1, 2), 0.5)", "clamp(acc, 0.5, 2)"},
    {"min(clamp(acc, -1, 2), 0.5)", "clamp(acc, -1, 0.5)"},
    {"relu(clamp(acc, -1, 2))", "clamp(acc, 0, 2)"},
    {"relu(relu6(acc))", "relu6(acc)"},
    {"relu6(relu(acc))", "relu6(acc)"},
    {"clamp(acc, 0, 6)", "relu6(acc)"},
    {"clamp(acc * 0.2 + 0.5, 0, 1)", "hardsigmoid(acc, 0.2, 0.5)"},
    {"acc * hardsigmoid(acc)", "hardswish(acc)"},
    {"acc * relu6(acc + 3) / 6", "hardswish(acc)"},
    {"acc * (relu6(acc + 3) / 6)", "hardswish(acc)"},
    {"(acc / 6) * relu6(acc + 3)", "hardswish(acc)"},
    {"acc * clamp(acc + 3, 0, 6) / 6", "hardswish(acc)"},
};

// gelu in all groupings of the factors, as canonicalise leaves them
std::vector<Rewrite> gelu_rewrites() {
  static std::deque<std::string> texts;
  std::vector<Rewrite> r;
  const auto add = [&](const std::string& f, const char* result) {
    for (const char* form : {"acc * 0.5 * ({0})", "0.5 * (({0}) * acc)", "(0.5 * ({0})) * acc"})
      r.push_back({texts.emplace_back(fmt::format(fmt::runtime(form), f)), result});
  };
  add("1 + erf(acc / 1.4142135623730951)", "gelu(acc)");
  add("erf(acc * 0.7071067811865476) + 1", "gelu(acc)");
  for (const char* argument :
       {"acc + 0.044715 * (square(acc) * acc)", "acc + 0.044715 * pow(acc, 3)", "acc + square(acc) * (acc * 0.044715)",
        "acc + (square(acc) * 0.044715) * acc", "acc + acc * 0.044715 * acc * acc"})
    add(fmt::format("1 + tanh(0.7978845608028654 * ({}))", argument), "gelu_tanh(acc)");
  for (const char* argument : {"0.7978845608028654 * (acc * (1 + 0.044715 * square(acc)))",
                               "0.7978845608028654 * acc * (1 + 0.044715 * square(acc))",
                               "acc * (0.7978845608028654 * (1 + 0.044715 * square(acc)))"})
    add(fmt::format("1 + tanh({})", argument), "gelu_tanh(acc)");
  return r;
}

TEST(FuseOperators, Rewrites) { expect_rewrites(fuse_operators, rewrites); }
TEST(FuseOperators, RecognisesGelu) { expect_rewrites(fuse_operators, gelu_rewrites()); }

TEST(FuseOperators, EveryRowHasACase) {
  auto all = rewrites;
  for (const auto& r : gelu_rewrites()) all.push_back(r);
  expect_all_rows_fire(fusion_rows(), all);
}

TEST(FuseOperators, NotAcrossRoundings) {
  expect_unchanged(fuse_operators, {
                                       "x = cast(acc, bf16)\nstore x * sigmoid(x) : f32",  // both round to bf16
                                       "acc * cast(sigmoid(acc), bf16)",
                                       "acc * cast(cast(sigmoid(acc), bf16), f32)",
                                       "log(cast(cast(sigmoid(acc), f16), f32))",
                                       "x = cast(acc, f16)\nstore x + 1 + 2 : f32",
                                       "cast(sigmoid(acc), f64) * acc",  // the sigmoid is rounded to f32
                                       "x = cast(acc, tf32)\nstore pow(x, 2) : f32",
                                   });
}

TEST(FuseOperators, NotWhereAnInnerValueIsReadElsewhere) {
  expect_unchanged(fuse_operators, {
                                       "p = sigmoid(acc)\nstore acc * p : f32\nstore p : f32",
                                       "p = sigmoid(acc)\nstore log(p) : f32\nstore p : f32",
                                       "p = sigmoid(acc)\nstore log(1 - p) : f32\nstore p : f32",
                                       "p = sigmoid(acc)\nstore log(p) : f32\nstore sum(p, over=m) : f32",
                                       "p = sigmoid(acc)\nq = 1 - p\nstore log(q) : f32\nstore q : f32",
                                       "p = sigmoid(acc)\nq = 1 - p\nstore square(q) * log(p) : f32",  // focal loss
                                       "s = softplus(acc)\nstore acc * tanh(s) : f32\nstore s : f32",
                                       "s = sqrt(acc)\nstore reciprocal(s) : f32\nstore s : f32",
                                       "p = sigmoid(acc)\nstore acc * p : f32\nobserve(p)",
                                   });
}

TEST(FuseOperators, NotWithOtherValuesAxesOrNumbers) {
  expect_unchanged(fuse_operators, {
                                       "acc * sigmoid(c[m,n])",
                                       "acc * sigmoid(bias[n])",
                                       "reciprocal(2 + exp(-acc))",
                                       "log(2 - sigmoid(acc))",
                                       "acc * tanh(softplus(c[m,n]))",
                                       "acc * 0.5 * (erf(acc * 0.7071) + 1)",  // not 1/sqrt(2) within f32
                                       "acc * 0.5 * (erf(acc * 0.7071067811865476) + 2)",
                                       "acc * hardsigmoid(acc, 0.2, 0.5)",
                                       "acc * relu6(acc + 2.5)",
                                       "max(min(acc, -1), 2)",  // the bounds cross
                                       "max(acc, -0)",
                                       "(acc + 0.1) + 0.2",  // f32 cannot hold the sum of the two
                                       "acc * 0.1 * 0.2",
                                       "pow(acc, 0.5)",  // sqrt(-0) = -0, sqrt(-inf) is NaN
                                       "pow(acc, -0.5)",
                                       "acc / c[m,n]",  // nothing to share along an axis
                                       "select(acc > 0, acc, c[m,n] * 0.1)",
                                       "select(acc > 0.5, acc, acc * 0.1)",
                                   });
}

TEST(FuseOperators, KeepsNaN) {
  // NaN > 0 is false, so the first is 0 for a NaN; relu(NaN) is NaN
  expect_unchanged(fuse_operators, {"select(acc > 0, acc, 0)", "max(acc, nan)", "min(max(acc, nan), 1)"});
}

TEST(FuseOperators, RefusesAttributesThatNoActivationHas) {
  expect_unchanged(fuse_operators, {"select(acc > 0, acc, acc * inf)", "clamp(acc * inf + 0.5, 0, 1)"});
}

TEST(FuseOperators, InF64TheNumbersMustBeRightInF64) {
  expect_unchanged(fuse_operators, {"x = cast(acc, f64)\nstore x * 0.5 * (erf(x * 0.70710678) + 1) : f64"});
  expect_rewrites(fuse_operators, {{"acc * 0.5 * (erf(acc * 0.70710678) + 1)", "gelu(acc)"},
                                   {"x = cast(acc, f64)\nstore x * 0.5 * (erf(x * 0.70710678118654752) + 1) as y : f64",
                                    "store gelu(cast(acc, f64)) as y : f64"}});
}

}  // namespace
}  // namespace unisono::passes
