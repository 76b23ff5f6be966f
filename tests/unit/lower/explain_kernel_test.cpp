// What a GPU would run, told without one.

#include "unisono/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Gemm product{.m = 512, .n = 4096, .k = 1024, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};

TEST(ExplainKernel, PlanReasonsAndSource) {
  const auto e = explain_kernel(product, parse("store gelu(acc + bias[n]) as y : bf16"));
  EXPECT_EQ(e.contraction, "gemm 512x4096x1024, B transposed, bf16");
  EXPECT_GT(e.predicted_us, 1);
  EXPECT_THAT(e.arguments, ElementsAre("operand bias[n] : f32"));
  EXPECT_THAT(e.source, HasSubstr("__global__"));
  for (const auto& part : {e.contraction, e.device, "plan: " + e.plan, e.origin, std::string("bias[n] : f32")})
    EXPECT_THAT(to_string(e), HasSubstr(part));
}

TEST(ExplainKernel, APlanMayBeFixedAndAFunctionIsShown) {
  UserFunction gain;
  gain.name = "gain";
  gain.arity = 1;
  gain.cuda_source = "__device__ float gain(float x) { return 1.25f * x; }";
  const auto e =
      explain_kernel(product, parse("store gain(acc) as y : bf16", {gain}), {.plan = "tile=128x64 order=pingpong"});
  EXPECT_EQ(e.plan.rfind("128x64", 0), 0u) << e.plan;
  EXPECT_THAT(e.source, HasSubstr("return 1.25f * x;"));
}

TEST(ExplainKernel, WhatCompileRefusesIsRefused) {
  EXPECT_THROW(explain_kernel(Gemm{.m = 0, .n = 1, .k = 1}, parse("store acc as y : bf16")), UserError);
  EXPECT_THROW(explain_kernel(product, parse("store acc as y : f64")), Unsupported);
  EXPECT_THROW(explain_kernel(product, parse("store acc as y : bf16"), {.plan = "tiel=1"}), UserError);
}

}  // namespace
}  // namespace unisono
