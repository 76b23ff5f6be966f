#include "passes/fuse_multiply_add.hpp"

#include <gtest/gtest.h>

#include "rewriting.hpp"

namespace unisono::passes {
namespace {

const std::vector<Rewrite> rewrites{
    {"acc * c[m,n] + bias[n]", "fma(acc, c[m,n], bias[n])"},
    {"bias[n] + acc * 3", "fma(acc, 3, bias[n])"},
    {"square(acc) + 1", "fma(acc, acc, 1)"},
    {"c[m,n] - acc * 3", "fma(acc, -3, c[m,n])"},
    {"c[m,n] - acc * bias[n]", "fma(acc, -bias[n], c[m,n])"},
    {"bias[n] - acc * c[m,n]", "fma(acc, -c[m,n], bias[n])"},
    {"acc * c[m,n] - bias[n]", "fma(acc, c[m,n], -bias[n])"},
    {"-(acc * bias[n])", "acc * -bias[n]"},
    {"acc * bias[n] * scale[n] + shift[n]", "fma(acc * bias[n], scale[n], shift[n])"},
    {"x = cast(acc, f64)\nstore x * 2 + 1 as y : f64", "x = cast(acc, f64)\nstore fma(x, 2, 1) as y : f64"},
};

TEST(FuseMultiplyAdd, Rewrites) { expect_rewrites(fuse_multiply_add, rewrites); }
TEST(FuseMultiplyAdd, EveryRowHasACase) { expect_all_rows_fire(multiply_add_rows(), rewrites); }

TEST(FuseMultiplyAdd, NotWhereItWouldDropARoundingOrComputeMore) {
  expect_unchanged(fuse_multiply_add, {
                                          "x = cast(acc, bf16)\nstore x * x + 1 : f32",
                                          "x = cast(acc, f16)\nstore x * 3 + 1 : f32",
                                          "cast(acc * 3, f64) + 1",
                                          "cast(acc * 3, bf16) + c[m,n]",
                                          "t = acc * 3\nstore t + bias[n] : f32\nstore t : f32",
                                          "acc + bias[n] * scale[n]",  // the product is taken once a column
                                          "index(m) * 2 + 1",
                                      });
}

}  // namespace
}  // namespace unisono::passes
