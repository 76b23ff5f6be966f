// What a GPU would run, told without one.

#include "unisono/explain.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/says.hpp"
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
  EXPECT_THAT(e.tensors, ElementsAre("left", "right", "output"));
  EXPECT_THAT(e.arguments, ElementsAre("operand bias[n] : f32"));
  EXPECT_THAT(e.source, HasSubstr("__global__"));
  for (const auto& part : {e.contraction, e.device, "plan: " + e.plan, e.origin, std::string("bias[n] : f32")})
    EXPECT_THAT(to_string(e), HasSubstr(part));
}

TEST(ExplainKernel, NamesTheSecondFilter) {
  const Conv2d conv{.h = 32, .w = 32, .c = 64, .k = 64, .dtype_x = DType::bf16, .dtype_w = DType::bf16, .products = 2};
  const auto e = explain_kernel(conv, parse("store sigmoid(acc0) * acc1 as y : bf16"));
  EXPECT_THAT(to_string(e), HasSubstr("a launch hands over: image, filter, right1, output"));
}

TEST(ExplainKernel, SaysWhetherPixelsMayLieApart) {
  Conv2d conv{.n = 8, .h = 64, .w = 64, .c = 64, .k = 64, .r = 3, .s = 3, .pad = 1};
  conv.dtype_x = conv.dtype_w = DType::bf16;
  const Graph graph = parse("store silu(acc + bias[n]) as y : bf16");
  EXPECT_TRUE(explain_kernel(conv, graph).takes_slices);
  conv.layout = Layout::nchw;
  EXPECT_FALSE(explain_kernel(conv, graph).takes_slices);
  conv.layout = Layout::nhwc, conv.c = 3;  // rows of 3 channels are no multiple of 16 bytes
  EXPECT_FALSE(explain_kernel(conv, graph).takes_slices);
}

TEST(ExplainKernel, RefusesWhatCompileRefuses) {
  // (2^16)^2 does not fit an i32
  EXPECT_THROW(explain_kernel(Gemm{.m = 65536, .n = 64, .k = 64, .dtype_a = DType::bf16, .dtype_b = DType::bf16},
                              parse("store sum(acc / (extent(m)*extent(m)), over=m) as y : f32")),
               UserError);
  // more operands than the kernel's parameter holds
  std::string text = "h0 = acc\n";
  for (int i = 0; i < 600; ++i) text += fmt::format("h{} = h{} + v{}[n]\n", i + 1, i, i);
  try {
    explain_kernel(product, parse(text + "store h600 as y : bf16"));
    ADD_FAILURE() << "600 operands are explained";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("operands; a kernel's parameters hold"));
  }
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

TEST(ExplainKernel, AnOverrideByKey) {
  const Graph graph = parse("store relu(acc) as y : bf16");
  const PlanOverride wanted{.fields = {{"tile", "128x64"}, {"order", "cooperative"}}};
  const auto by_key = explain_kernel(product, graph, {.plan_override = wanted});
  const auto by_text = explain_kernel(product, graph, {.plan = "tile=128x64 order=cooperative"});
  EXPECT_EQ(by_key.plan, by_text.plan);
  EXPECT_EQ(by_key.source, by_text.source);
  const auto by_both =
      explain_kernel(product, graph, {.plan = "tile=128x64", .plan_override = {{{"order", "cooperative"}}}});
  EXPECT_EQ(by_both.plan, by_text.plan);
  // what is taken is told, and gives the same again
  EXPECT_EQ(by_key.plan_override.fields.at("tile"), "128x64");
  EXPECT_TRUE(by_key.plan_override.fields.contains("stages"));
  const auto again = explain_kernel(product, graph, {.plan_override = by_key.plan_override});
  EXPECT_EQ(again.plan, by_key.plan);
  EXPECT_THAT(to_string(by_key), HasSubstr("fixed by: --plan 'family=sm90_conv tile=128x64 depth="));
}

TEST(ExplainKernel, AnOverrideThatIsIllegalIsRefusedWithAReason) {
  const Graph graph = parse("store relu(acc) as y : bf16");
  const auto refusal = [&](const CompileOptions& options) -> std::string {
    try {
      explain_kernel(product, graph, options);
    } catch (const UserError& e) {
      return std::string("user: ") + e.what();
    } catch (const Unsupported& e) {
      return std::string("unsupported: ") + e.what();
    }
    return "served";
  };
  EXPECT_THAT(refusal({.plan_override = {{{"tile", "0x64"}}}}), HasSubstr("user: plan override: tile=0x64: expected"));
  EXPECT_THAT(refusal({.plan_override = {{{"depth", "48"}}}}),
              HasSubstr("user: plan override: depth=48: expected 128, 64"));
  EXPECT_THAT(refusal({.plan_override = {{{"schedule", "pingpong"}}}}),
              HasSubstr("user: plan override: unknown field 'schedule'; known are family, tile, "));
  EXPECT_THAT(refusal({.plan_override = {{{"fetch", "-1"}}}}),
              HasSubstr("user: plan override: fetch=-1: expected 0 to 8"));
  EXPECT_THAT(refusal({.plan = "tile=128x64", .plan_override = {{{"tile", "128x64"}}}}),
              HasSubstr("user: CompileOptions::plan says tile=128x64 and CompileOptions::plan_override 128x64"));
  EXPECT_THAT(refusal({.plan_override = {{{"mode", "resident"}}}}), Says("mode: … no normalisation"));
  EXPECT_THAT(refusal({.plan_override = {{{"load", "im2col_smem"}}}}), HasSubstr("load=im2col_smem"));
}

TEST(ExplainKernel, WhatCompileRefusesIsRefused) {
  EXPECT_THROW(explain_kernel(Gemm{.m = 0, .n = 1, .k = 1}, parse("store acc as y : bf16")), UserError);
  EXPECT_THROW(explain_kernel(product, parse("store acc as y : f64")), Unsupported);
  EXPECT_THROW(explain_kernel(product, parse("store acc as y : bf16"), {.plan = "tiel=1"}), UserError);
}

}  // namespace
}  // namespace unisono
