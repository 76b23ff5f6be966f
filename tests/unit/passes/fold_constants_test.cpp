#include "passes/fold_constants.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rewriting.hpp"
#include "unisono/builder.hpp"

namespace unisono::passes {
namespace {

TEST(FoldConstants, Rewrites) {
  expect_rewrites(fold_constants,
                  {
                      {"acc * (2 + 3)", "acc * 5"},
                      {"acc * (7 - 3 * 2)", "acc * 1"},
                      {"acc + sqrt(2) * sqrt(2)", "acc + 2.0000000000000004"},  // float64, as the reference
                      {"acc + min(2, 3) * max(2, 3)", "acc + 6"},
                      {"acc + pow(2, 10)", "acc + 1024"},
                      {"acc + square(3) + abs(-2) + reciprocal(4)", "acc + 9 + 2 + 0.25"},
                      {"acc + exp(0) + log(1) + log1p(0)", "acc + 1 + 0 + 0"},
                      {"acc + tanh(0) + erf(0) + sin(0) + cos(0)", "acc + 0 + 0 + 0 + 1"},
                      {"acc + 1 / 0", "acc + inf"},
                      {"acc + (0 - 1) / 0", "acc + -inf"},
                      {"acc + 0 / 0", "acc + nan"},
                      {"select(2 < 3, acc, c[m,n])", "acc"},
                      {"select(!(2 < 3), acc, c[m,n])", "c[m,n]"},
                      {"select((2 < 3) & (3 <= 3) | (1 == 2), acc, c[m,n])", "acc"},
                      {"select((2 > 3) | (3 >= 4), acc, c[m,n])", "c[m,n]"},
                      {"acc + select(2 != 3, 4, 5)", "acc + 4"},
                  });
}

TEST(FoldConstants, RoundsInTheDtypeOfTheNode) {
  expect_rewrites(fold_constants, {
                                      {"acc + cast(0.1, bf16)", "acc + 0.10009765625"},
                                      {"acc + cast(2.9, i32)", "acc + 2"},
                                      {"acc + cast(1e20, i32)", "acc + 2147483647"},
                                      {"acc + cast(0.1, tf32)", "acc + 0.0999755859375"},
                                      {"acc + cast(70000, f16)", "acc + inf"},
                                      // 1 + 2^-8 is a tie in bf16 and goes to the even neighbour 1
                                      {"acc + (cast(1, bf16) + 0.00390625)", "acc + 1"},
                                  });
}

TEST(FoldConstants, ATypeThatUsersRelyOnStays) {
  // a bare constant takes the dtype of what it meets: the sum would be bf16 instead of f32
  expect_rewrites(fold_constants, {{"cast(acc, bf16) + (cast(1, f32) + 2)", "cast(acc, bf16) + cast(3, f32)"}});
  expect_unchanged(fold_constants, {"cast(acc, bf16) + cast(3, f32)", "index(m) + cast(3, f32)"});
  // f64 arithmetic is asked for
  expect_unchanged(fold_constants, {"acc + cast(0.5, f64)"});
}

TEST(FoldConstants, LeavesTheRest) {
  expect_unchanged(fold_constants, {
                                       "acc * 0",
                                       "mish(2) + acc",  // no one definition to the last bit
                                       "acc + extent(n) * 2",
                                       "acc + cast(2147483647, i32) * 2",  // wraps
                                       "acc + a[] * 2", "select(acc < 2, 1, 2)",
                                       "select(cast(1, bool), bias[n], acc)",  // the output has axes [m,n]
                                   });
}

TEST(FoldConstants, SignsOfZero) {
  GraphBuilder g;
  g.store(g.acc() / (g.constant(0.0) * g.constant(-1.0)), DType::f32, "y");
  const Graph folded = fold_constants(g.build());
  bool found = false;
  for (const Node& x : folded.nodes)
    if (x.op == Op::constant) found |= x.attr.value == 0 && std::signbit(x.attr.value);
  EXPECT_TRUE(found);
}

TEST(FoldConstants, AConstantOutputStays) {
  const Graph folded = fold_constants(graph_of("store cast(2, f32) + 3 as y : f32"));
  verify(folded);
  EXPECT_EQ(folded.nodes.size(), 1u);
  EXPECT_EQ(folded[folded.stores[0].value].attr.value, 5);
}

}  // namespace
}  // namespace unisono::passes
