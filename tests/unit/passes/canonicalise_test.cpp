#include "passes/canonicalise.hpp"

#include <gtest/gtest.h>

#include "passes/exact_casts.hpp"
#include "rewriting.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> rewrites{
    // signs
    {"-(-acc)", "acc"},
    {"(-acc) * (-c[m,n])", "acc * c[m,n]"},
    {"(-acc) * 3", "acc * -3"},
    {"-(acc * 3)", "acc * -3"},
    {"(-acc) * c[m,n]", "-(acc * c[m,n])"},
    {"(-acc) / (-c[m,n])", "acc / c[m,n]"},
    {"-(acc / 3)", "acc / -3"},
    {"-(3 / acc)", "-3 / acc"},
    {"(-acc) / c[m,n]", "-(acc / c[m,n])"},
    {"acc / (-c[m,n])", "-(acc / c[m,n])"},
    {"acc - 3", "acc + -3"},
    {"acc + (-c[m,n])", "acc - c[m,n]"},
    {"(-acc) + c[m,n]", "c[m,n] - acc"},
    {"acc - (-c[m,n])", "acc + c[m,n]"},
    {"abs(-acc)", "abs(acc)"},
    {"square(-acc)", "square(acc)"},
    {"cos(-acc)", "cos(acc)"},
    {"acc * -1", "-acc"},
    // identities
    {"acc * 1", "acc"},
    {"1 * acc", "acc"},
    {"acc / 1", "acc"},
    {"acc - 0", "acc"},
    {"acc + -0", "acc"},
    {"index(m) - 0", "index(m)"},
    {"index(m) + 0", "index(m)"},
    {"pow(acc, 1)", "acc"},
    {"acc * acc", "square(acc)"},
    {"acc / 4", "acc * 0.25"},
    {"cast(acc, bf16) / 4", "cast(acc, bf16) * 0.25"},
    {"min(acc, acc)", "acc"},
    {"max(acc, acc)", "acc"},
    {"select(acc < c[m,n], acc, acc)", "acc"},
    {"select(!(acc < c[m,n]), acc, c[m,n])", "select(acc < c[m,n], c[m,n], acc)"},
    {"clamp(clamp(acc, -2, 1), -1, 3)", "clamp(acc, -1, 1)"},
    {"clamp(clamp(acc, -2, -1), 0.5, 3)", "clamp(acc, 0.5, 0.5)"},
    {"clamp(clamp(acc, 0, 1), -1, 0)", "clamp(acc, 0, 0)"},
    {"relu6(relu6(acc))", "relu6(acc)"},
    {"abs(abs(acc))", "abs(acc)"},
    {"abs(relu(acc))", "relu(acc)"},
    {"abs(exp(acc))", "exp(acc)"},
    {"abs(square(acc))", "square(acc)"},
    {"abs(sigmoid(acc))", "sigmoid(acc)"},
    {"relu(abs(acc))", "abs(acc)"},
    {"relu(relu(acc))", "relu(acc)"},
    {"relu(exp(acc))", "exp(acc)"},
    {"relu(square(acc))", "square(acc)"},
    {"relu(sigmoid(acc))", "sigmoid(acc)"},
    // comparisons
    {"2 < acc", "acc > 2"},
    {"2 <= acc", "acc >= 2"},
    {"2 > acc", "acc < 2"},
    {"2 >= acc", "acc <= 2"},
    {"acc > c[m,n]", "c[m,n] < acc"},
    {"acc >= c[m,n]", "c[m,n] <= acc"},
    {"!(!(acc < 2))", "acc < 2"},
    {"!(acc == 2)", "acc != 2"},
    {"!(acc != 2)", "acc == 2"},
    {"!(index(m) < 3)", "index(m) >= 3"},
    {"!(index(m) <= 3)", "index(m) > 3"},
    {"!(index(m) > 3)", "index(m) <= 3"},
    {"!(index(m) >= 3)", "index(m) < 3"},
    {"t = acc < 2\nstore t & t as y : f32", "acc < 2"},
    {"t = acc < 2\nstore t | t as y : f32", "acc < 2"},
    // casts that round nothing
    {"cast(acc, f32)", "acc"},
    {"cast(cast(acc, f64), f32)", "acc"},
    {"cast(cast(acc, f64), bf16)", "cast(acc, bf16)"},
    {"cast(cast(cast(acc, bf16), f32), bf16)", "cast(acc, bf16)"},
    {"cast(cast(acc < 2, f32), i32)", "cast(acc < 2, i32)"},
    // several at once
    {"-((-acc) * (-c[m,n]) * 2)", "acc * c[m,n] * -2"},
    {"(-acc) * c[m,n] + bias[n]", "bias[n] - acc * c[m,n]"},
};

TEST(Canonicalise, Rewrites) { expect_rewrites(canonicalise, rewrites); }

TEST(Canonicalise, EveryRowHasACase) { expect_all_rows_fire(canonical_rows(), rewrites); }

TEST(Canonicalise, LeavesWhatWouldChangeBits) {
  expect_unchanged(canonicalise, {
                                     "acc / 3",          // 1/3 is not exact
                                     "acc / 65536",      // 2^-16 is subnormal in f16
                                     "acc + 0",          // -0 + 0 = 0
                                     "acc * 0",          // NaN, infinity, -0
                                     "-(acc - c[m,n])",  // -(x - x) = -0
                                     "!(acc < 2)",       // a NaN
                                     "!(index(m) < nan)",
                                     "max(acc, 0)",
                                     "max(0, acc)",  // which zero wins depends on the position
                                     "acc + 1 + 2",
                                     "clamp(clamp(acc, -2, -1), 0, 3)",  // 0 for -0
                                     "pow(acc, 2)",
                                     "acc + bias[n]",
                                 });
}

TEST(Canonicalise, KeepsRoundingCasts) {
  expect_unchanged(canonicalise, {
                                     "cast(cast(acc, bf16), f32)",
                                     "cast(cast(acc, f16), bf16)",
                                     "cast(cast(acc, i32), f32)",
                                     "cast(cast(acc, bf16), f64)",
                                     "cast(cast(index(m), f32), i32)",  // above 2^24 f32 rounds
                                     "x[m,n] + cast(cast(acc, tf32), f32)",
                                 });
}

TEST(Canonicalise, DoesNotMoveASignOutOfAValueThatIsReadElsewhere) {
  expect_unchanged(canonicalise, {"t = acc * c[m,n]\nu = -t\nstore u * bias[n] : f32\nstore u as v : f32"});
}

TEST(Canonicalise, KeepsAxesOfAStore) {
  // 1 and the value agree, but the output would shrink from [m,n] to [n]
  expect_unchanged(canonicalise, {"select(acc < c[m,n], bias[n], bias[n])"});
}

TEST(Canonicalise, KeepsDtypes) {
  // i32 · bool: the product of bools is f32
  expect_unchanged(canonicalise, {"(acc < 2) * 1"});
}

TEST(ExactCasts, Widening) {
  using enum DType;
  for (const DType t : {f64, f32, tf32, f16, bf16, i32, boolean}) {
    EXPECT_TRUE(is_widening(t, t));
    EXPECT_TRUE(is_widening(boolean, t));
    EXPECT_TRUE(is_widening(t, f64));
  }
  EXPECT_TRUE(is_widening(bf16, tf32));
  EXPECT_TRUE(is_widening(f16, tf32));
  EXPECT_TRUE(is_widening(tf32, f32));
  EXPECT_FALSE(is_widening(i32, f32));
  EXPECT_FALSE(is_widening(f16, bf16));
  EXPECT_FALSE(is_widening(bf16, f16));
  EXPECT_FALSE(is_widening(f32, tf32));
  EXPECT_FALSE(is_widening(f64, f32));
  EXPECT_FALSE(is_widening(bf16, i32));
}

}  // namespace
}  // namespace unisono::passes
