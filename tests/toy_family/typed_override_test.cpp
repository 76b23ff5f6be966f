// A plan of a family that the library does not know, from text to PlanOverride and back.

#include <gtest/gtest.h>

#include "unisono/explain.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

const Gemm product{.m = 24, .n = 16, .k = 40, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};

TEST(ToyFamily, FieldsWithoutATypeAreKept) {
  const PlanOverride read = parse_plan("family=scalar_gemm threads=64");
  EXPECT_EQ(read, (PlanOverride{.family = "scalar_gemm", .others = {{"threads", "64"}}}));
  EXPECT_EQ(to_string(read), "family=scalar_gemm threads=64");
  EXPECT_EQ(parse_plan("threads=64 tile=128x64"), (PlanOverride{.tile = {{128, 64}}, .others = {{"threads", "64"}}}));
}

// What explain_kernel() says fixes all of the plan, not only the family
TEST(ToyFamily, AnExplainedPlanIsFixedAgain) {
  const Graph graph = parse("store silu(acc + bias[n]) as y : bf16");
  for (const char* threads : {"64", "128", "256"}) {
    const PlanOverride wanted{.others = {{"threads", threads}}};
    const KernelExplanation by_type = explain_kernel(product, graph, {.plan_override = wanted});
    EXPECT_EQ(to_string(by_type.plan_override), std::string("family=scalar_gemm threads=") + threads);
    EXPECT_NE(to_string(by_type).find("fixed again by: " + to_string(by_type.plan_override) + "\n"), std::string::npos);
    const KernelExplanation by_text = explain_kernel(product, graph, {.plan = to_string(by_type.plan_override)});
    const KernelExplanation again = explain_kernel(product, graph, {.plan_override = by_type.plan_override});
    for (const KernelExplanation* e : {&by_text, &again}) {
      EXPECT_EQ(e->plan, by_type.plan);
      EXPECT_EQ(e->plan_override, by_type.plan_override);
      EXPECT_EQ(e->source, by_type.source);
    }
  }
}

}  // namespace
}  // namespace unisono
