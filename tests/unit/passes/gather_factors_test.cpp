#include "passes/gather_factors.hpp"

#include <gtest/gtest.h>

#include "passes/passes.hpp"
#include "rewriting.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> rewrites{
    {"acc * r[b] * scale[n]", "acc * (r[b] * scale[n])"},
    {"scale[n] * (r[b] * acc)", "acc * (r[b] * scale[n])"},
    {"acc * r[b] * scale[n] * t[b,n]", "acc * (t[b,n] * (r[b] * scale[n]))"},
    {"fma(acc * r[b], scale[n], shift[n])", "fma(acc, r[b] * scale[n], shift[n])"},
};

TEST(GatherFactors, Rewrites) { expect_rewrites(gather_factors, rewrites); }
TEST(GatherFactors, EveryRowHasACase) { expect_all_rows_fire(factor_rows(), rewrites); }

TEST(GatherFactors, NotWhereElementsWouldBeMultipliedOrARoundingMoved) {
  expect_unchanged(gather_factors, {
                                       "acc * c[m,n] * scale[n]",
                                       "acc * r[m] * scale[n]",  // r[m] * scale[n] has as many elements as acc
                                       "t = acc * r[b]\nstore t * scale[n] : f32\nstore t : f32",
                                       "x = cast(acc, bf16)\nstore x * cast(r[b], bf16) * cast(scale[n], bf16) : f32",
                                       "acc * (r[b] * scale[n])",
                                   });
}

// What an author writes and what the library makes of a normalisation meet
TEST(GatherFactors, GivesTheLibrarysOwnSpellingOfAGroupNorm) {
  const Graph own = run_pipeline(parse("store silu(group_norm(acc, groups=8, scale=g[n], shift=h[n])) as y : bf16"));
  const Graph written = run_pipeline(parse(R"(
v = variance(acc, over=(m,n), per=b, groups=8)
x = (acc - mean(acc, over=(m,n), per=b, groups=8)) * rsqrt(v + 1e-5) * g[n] + h[n]
store silu(x) as y : bf16)"));
  EXPECT_FALSE(structurally_equal(own, written));
  EXPECT_TRUE(structurally_equal(own, gather_factors(written))) << print(own) << print(gather_factors(written));
}

}  // namespace
}  // namespace unisono::passes
