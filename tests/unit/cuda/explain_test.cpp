// What `unisono explain --device cuda` shows, with and without a GPU.

#include <gmock/gmock.h>

#include "explain.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::cuda {
namespace {

using ::testing::HasSubstr;

const Conv2d conv{.n = 8,
                  .h = 64,
                  .w = 64,
                  .c = 320,
                  .k = 320,
                  .r = 3,
                  .s = 3,
                  .pad = {1, 1, 1, 1},
                  .dtype_x = DType::bf16,
                  .dtype_w = DType::bf16};
constexpr const char* block =
    "operand r[m,n] : bf16\n"
    "h = acc * alpha[] + bias[n]\n"
    "store silu(group_norm(h, groups=32, scale=gamma[n], shift=beta[n])) + r as y : bf16\n"
    "store mean(h, over=(m,n), per=b, groups=32) as mu : f32\n";

CompileOptions with_plan(const std::string& plan) {
  CompileOptions options;
  options.device = Device::cuda;
  options.plan = plan;
  return options;
}

TEST(CudaExplain, PlanFieldsAndSource) {
  const Explanation e = explain(conv, parse(block), with_plan("tile=128x128 order=cooperative mode=resident"));
  EXPECT_EQ(e.contraction, "conv2d 8x64x64x320 -> 320, 3x3, pad 1, bf16");
  EXPECT_THAT(e.plan, HasSubstr("128x128"));
  EXPECT_THAT(e.plan, HasSubstr("resident"));
  EXPECT_GT(e.predicted_us, 10);
  EXPECT_GT(e.workspace_bytes, 0u);
  std::vector<std::string> fields;
  for (const codegen::Field& f : e.fields) fields.push_back(f.name + to_string(f.axes));
  EXPECT_THAT(fields,
              ::testing::UnorderedElementsAre("r[m,n]", "alpha[]", "bias[n]", "gamma[n]", "beta[n]", "mu[b,g32]"));
  EXPECT_THAT(e.source, HasSubstr("unisono/sm90/conv_fprop.cuh"));

  const std::string text = to_text(e);
  for (const char* words : {"conv2d 8x64x64x320", "for ", "128x128", "operand alpha[] : f32, by value",
                            "operand r[m,n] : bf16", "store mu[b,g32] : f32"})
    EXPECT_THAT(text, HasSubstr(words));
  if (e.device_note.empty())
    EXPECT_THAT(text, ::testing::Not(HasSubstr("this machine does not")));
  else
    EXPECT_THAT(text, Says("for NVIDIA H200, which this machine … (" + e.device_note + ")"));
}

TEST(CudaExplain, TheSameTextEachTime) {
  const auto options = with_plan("");
  EXPECT_EQ(explain(conv, parse(block), options).source, explain(conv, parse(block), options).source);
}

TEST(CudaExplain, WrongRequests) {
  EXPECT_THROW(explain(conv, parse(block), with_plan("tiel=128x160")), UserError);
  EXPECT_THROW(explain(conv, parse("store acc : f64\n"), with_plan("")), Unsupported);
  EXPECT_THROW(explain(Gemm{.m = 8, .n = 8, .k = 8, .dtype_a = DType::f64, .dtype_b = DType::f64},
                       parse("store acc : bf16\n"), with_plan("")),
               Unsupported);
  auto options = with_plan("");
  options.storage["gama"] = DType::bf16;
  EXPECT_THROW(explain(conv, parse(block), options), UserError);
}

}  // namespace
}  // namespace unisono::cuda
