// A plan of a family that the library does not know, from text to PlanOverride and back.

#include <gtest/gtest.h>

#include "unisono/explain.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

const Gemm product{.m = 24, .n = 16, .k = 40, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};

TEST(ToyFamily, ItsFieldsAreRead) {
  const PlanOverride read = parse_plan("family=scalar_gemm threads=64");
  EXPECT_EQ(read, (PlanOverride{.fields = {{"family", "scalar_gemm"}, {"threads", "64"}}}));
  EXPECT_EQ(to_string(read), "family=scalar_gemm threads=64");
}

// What explain_kernel() says fixes all of the plan, not only the family
TEST(ToyFamily, AnExplainedPlanIsFixedAgain) {
  const Graph graph = parse("store silu(acc + bias[n]) as y : bf16");
  for (const char* threads : {"64", "128", "256"}) {
    const PlanOverride wanted{.fields = {{"threads", threads}}};
    const KernelExplanation by_key = explain_kernel(product, graph, {.plan_override = wanted});
    EXPECT_EQ(to_string(by_key.plan_override), std::string("family=scalar_gemm threads=") + threads);
    EXPECT_NE(to_string(by_key).find("fixed by: --plan '" + to_string(by_key.plan_override) + "'\n"),
              std::string::npos);
    const KernelExplanation by_text = explain_kernel(product, graph, {.plan = to_string(by_key.plan_override)});
    const KernelExplanation again = explain_kernel(product, graph, {.plan_override = by_key.plan_override});
    for (const KernelExplanation* e : {&by_text, &again}) {
      EXPECT_EQ(e->plan, by_key.plan);
      EXPECT_EQ(e->plan_override, by_key.plan_override);
      EXPECT_EQ(e->source, by_key.source);
    }
  }
}

}  // namespace
}  // namespace unisono
