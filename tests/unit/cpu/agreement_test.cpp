// Contractions of every kind, with epilogues of one and more stages, against the float64 reference.

#include <fmt/format.h>

#include <vector>

#include "ir/op_table.hpp"
#include "unit/cpu/problem.hpp"

namespace unisono::test {
namespace {

const std::string block =
    "y = mish(group_norm(acc + bias[n], groups=2, scale=gamma[n], shift=beta[n]))\nstore y : f32\n";

std::vector<Conv3d> volumes_of_all_kinds() {
  Conv3d causal{.n = 2, .d = 5, .h = 7, .w = 6, .c = 6, .k = 10, .t = 3, .r = 3, .s = 3};
  causal.before = {2, 1, 1}, causal.after = {0, 1, 1};
  Conv3d strided{.n = 1, .d = 9, .h = 8, .w = 11, .c = 8, .k = 12, .t = 3, .r = 2, .s = 3, .groups = 4};
  strided.stride = {2, 3, 1}, strided.dilation = {2, 1, 2}, strided.after = {1, 0, 2};
  Conv3d frames{.n = 3, .d = 6, .h = 5, .w = 4, .c = 3, .k = 4, .t = 3};  // along the planes alone
  frames.before = {1, 0, 0};
  Conv3d padding{.n = 1, .d = 1, .h = 1, .w = 1, .c = 2, .k = 2, .t = 2, .r = 3, .s = 3};
  padding.before = padding.after = {5, 4, 4}, padding.stride = {3, 1, 1};  // some results see nothing else
  Conv3d deep{.n = 1, .d = 3, .h = 4, .w = 5, .c = 256, .k = 8, .t = 3, .r = 3, .s = 3};  // channels in parts
  deep.before = deep.after = 1;
  Conv3d depthwise{.n = 2, .d = 4, .h = 6, .w = 13, .c = 16, .k = 16, .t = 3, .r = 3, .s = 3, .groups = 16};
  Conv3d halves{.n = 1, .d = 4, .h = 9, .w = 8, .c = 16, .k = 32, .t = 2, .r = 3, .s = 3};
  halves.dtype_x = halves.dtype_w = DType::bf16;
  return {causal, strided, frames, padding, deep, depthwise, halves};
}

std::vector<Contraction> contractions() {
  std::vector<Contraction> list;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      list.push_back(Gemm{.batch = 2, .m = 37, .n = 22, .k = 19, .transpose_a = ta, .transpose_b = tb});
  list.push_back(Gemm{.m = 1, .n = 2, .k = 1});
  list.push_back(Gemm{.m = 300, .n = 130, .k = 65, .dtype_a = DType::bf16, .dtype_b = DType::bf16});
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    list.push_back(
        Conv2d{.n = 2, .h = 19, .w = 23, .c = 6, .k = 10, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .layout = layout});
    list.push_back(Conv2d{.n = 1,
                          .h = 9,
                          .w = 8,
                          .c = 3,
                          .k = 8,
                          .r = 5,
                          .s = 2,
                          .stride = {2, 3},
                          .pad = {3, 0, 1, 2},
                          .layout = layout});
    list.push_back(Conv2d{.n = 3,
                          .h = 12,
                          .w = 7,
                          .c = 8,
                          .k = 12,
                          .r = 3,
                          .s = 3,
                          .pad = {2, 2, 2, 2},
                          .dilation = {2, 2},
                          .groups = 4,
                          .layout = layout});
    list.push_back(Conv2d{
        .n = 1, .h = 6, .w = 6, .c = 16, .k = 16, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .groups = 16, .layout = layout});
    list.push_back(ConvTranspose2d{.n = 2,
                                   .h = 5,
                                   .w = 6,
                                   .c = 4,
                                   .k = 6,
                                   .r = 3,
                                   .s = 2,
                                   .stride = {2, 2},
                                   .pad = {1, 0, 0, 1},
                                   .output_pad = {1, 0},
                                   .groups = 2,
                                   .layout = layout});
  }
  list.push_back(Conv2d{
      .n = 1, .h = 1, .w = 1, .c = 1, .k = 2, .r = 7, .s = 7, .pad = {9, 9, 9, 9}});  // some strips see padding only
  list.push_back(
      Conv2d{.n = 1, .h = 40, .w = 33, .c = 64, .k = 48, .r = 1, .s = 1, .dtype_x = DType::f16, .dtype_w = DType::f16});
  list.push_back(Conv2d{.n = 1,
                        .h = 20,
                        .w = 20,
                        .c = 16,
                        .k = 32,
                        .r = 3,
                        .s = 3,
                        .pad = {1, 1, 1, 1},
                        .dtype_x = DType::bf16,
                        .dtype_w = DType::bf16});
  const auto volumes = volumes_of_all_kinds();
  list.insert(list.end(), volumes.begin(), volumes.end());
  return list;
}

TEST(CpuAgreement, EveryContractionBehindABlock) {
  std::uint64_t seed = 1;
  for (const Contraction& contraction : contractions()) {
    RandomCase c = problem(contraction, block, ++seed);
    expect_agreement(c, 2);
  }
}

TEST(CpuAgreement, OperandsOfAllAxesAndOutputsOfAllAxes) {
  const std::string text =
      "operand r[m,n] : bf16\nh = acc * alpha[] + bias[n] + temb[b,n] + row[m] + r + image[b]\n"
      "store gelu(h) as y : f16\nstore h as raw : bf16\nstore sum(h, over=m) as column\nstore mean(h, over=n) as rows\n"
      "store max(h, over=(m,n), per=b, groups=3) as peaks\nstore sum_squares(h, over=all) as energy : f64\nstore "
      "variance(h, over=m, per=b) as spread\n";
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    RandomCase c = problem(
        Conv2d{.n = 3, .h = 17, .w = 13, .c = 5, .k = 12, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .layout = layout}, text,
        7);
    expect_agreement(c, 3);
  }
}

TEST(CpuAgreement, VolumesWithOperandsOfAllAxes) {
  const std::string text =
      "operand r[m,n] : bf16\nh = acc + bias[n] + temb[b,n] + row[m] + r\nstore gelu(h) as y : f16\nstore h as raw : "
      "bf16\nstore sum(h, over=m) as column\nstore max(h, over=(m,n), per=b, groups=2) as peaks\n"
      "store softmax(h * 0.01, over=n) as z : f32\n";
  std::uint64_t seed = 20;
  for (const Conv3d& volume : volumes_of_all_kinds()) {
    RandomCase c = problem(volume, text, ++seed);
    expect_agreement(c, 3);
  }
}

// Lane-wise instructions read values of rows as scalars; with few columns these are repeated first
TEST(CpuAgreement, ValuesOfRowsBesideColumns) {
  for (const std::int64_t columns : {1, 31, 32, 49, 96, 197, 1031}) {
    RandomCase c = problem(Gemm{.batch = 2, .m = 37, .n = columns, .k = 8},
                           "h = layer_norm(acc + bias[n] + row[m], scale=s[n], shift=t[n])\n"
                           "store gelu(h) as y : f32\nstore softmax(h * row[m], over=n) as z : f32\n"
                           "store rms_norm(h) + image[b] as w : f32\nstore h - max(h, over=n) as v : f32\n",
                           static_cast<std::uint64_t>(columns));
    expect_agreement(c, 2);
  }
}

TEST(CpuAgreement, ValuesOfRowsAreNotRepeated) {
  const auto instructions = [](std::int64_t columns) {
    RandomCase c = problem(Gemm{.m = 37, .n = columns, .k = 8}, "store softmax(acc, over=n) as y : f32\n", 5);
    const std::string text = compile(c.contraction, c.graph, options_of(c, 1)).describe();
    const std::size_t at = text.find("stage 1: ");
    return at == std::string::npos ? 0 : std::stoi(text.substr(at + 9));
  };
  EXPECT_EQ(instructions(96) + 2, instructions(24));  // the largest element and the sum
}

TEST(CpuAgreement, EveryNormalisation) {
  for (const std::string norm :
       {"instance_norm(acc, scale=s[n])", "layer_norm(acc, scale=s[n], shift=t[n])", "rms_norm(acc, scale=s[n])",
        "batch_norm(acc, shift=t[n])", "softmax(acc, over=n, groups=2)", "softmax(acc, over=m, per=b)",
        "group_norm(silu(group_norm(acc, groups=4)), groups=2)"}) {
    RandomCase c =
        problem(Conv2d{.n = 2, .h = 21, .w = 18, .c = 4, .k = 8, .r = 3, .s = 3}, "store " + norm + " as y : f32\n", 3);
    expect_agreement(c, 2);
  }
}

// The statistics come from differences: with a mean of 1000 and a deviation of about 0.02 the error of the result is
// that of rounding the input, 1000·u/0.02 = 0.003 and a few times that, where sums of squares would leave nothing
TEST(CpuAgreement, LargeOffset) {
  RandomCase c =
      problem(Gemm{.m = 4096, .n = 8, .k = 4}, "store group_norm(acc * 0.01 + 1000, groups=2, eps=0) as y : f32\n", 5);
  poison_outputs(c);
  compile(c.contraction, c.graph, options_of(c, 2)).run(c.arguments);
  const auto expected = reference::run(c.contraction, c.graph, c.arguments).at("y");
  const auto found = reference::compare(expected, c.contraction, c.arguments.outputs.at("y"));
  EXPECT_EQ(found.elements, 4096 * 8);
  EXPECT_LT(found.largest_error, 0.03);
}

TEST(CpuAgreement, ConstantFilterIsPackedOnce) {
  RandomCase c =
      problem(Conv2d{.n = 1, .h = 14, .w = 14, .c = 24, .k = 40, .r = 3, .s = 3, .pad = {1, 1, 1, 1}}, block, 4);
  poison_outputs(c);
  CompileOptions options = options_of(c, 2);
  options.constant_filter = c.arguments.filter;
  const Executable kernel = compile(c.contraction, c.graph, options);
  const auto expected = reference::run(c.contraction, c.graph, c.arguments, {.function_ulps = cpu::function_ulps});
  Arguments without_filter = c.arguments;
  without_filter.filter = {};
  kernel.run(without_filter);
  EXPECT_TRUE(reference::compare(expected.at("y"), c.contraction, c.arguments.outputs.at("y")).ok());
}

TEST(Agreement, EveryFunctionOfTheTable) {
  std::string text = "x = abs(tanh(acc)) + 0.5\n";
  int count = 0;
  for (int i = 0; i < op_count; ++i) {
    const ir::OpInfo& row = ir::info(static_cast<Op>(i));
    if (row.op_class != ir::OpClass::unary || row.op == Op::cast || row.op == Op::one_hot) continue;
    text += fmt::format("store {}(x) as y{}\n", row.name, count++);
  }
  EXPECT_GE(count, 26);
  RandomCase c = problem(Gemm{.m = 37, .n = 22, .k = 5}, text);
  expect_agreement(c, 1);
}

}  // namespace
}  // namespace unisono::test
