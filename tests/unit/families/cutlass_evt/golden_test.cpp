// The text for tests/golden/cutlass_evt/<name>.epi is <name>.cu, from the visitors' type to the arguments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "families/cutlass_evt/builtin_fusion.hpp"
#include "families/cutlass_evt/generate.hpp"
#include "support/golden.hpp"
#include "support/sources.hpp"
#include "unit/families/cutlass_evt/problems.hpp"

namespace unisono::families::cutlass_evt {
namespace {

constexpr std::array cases{"linear_combination", "bias_gelu_aux", "three_residuals", "cross_entropy", "cast_select"};

class EvtGolden : public testing::TestWithParam<const char*> {};

TEST_P(EvtGolden, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/") + GetParam();
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"));
  const Config config{.columns_b = true, .atomic = true};
  const codegen::Kernel kernel = generate(e, config, {});
  unisono::test::expect_golden(stem + ".cu", kernel.source);
  EXPECT_EQ(generate(e, config, {}).source, kernel.source);
  EXPECT_EQ(kernel.library, codegen::Library{"sm_90a"});
}

// The same graphs by the visitors of CUTLASS 2.x: <name>.sm80.cu
TEST_P(EvtGolden, IsAsRecordedForSm80) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/") + GetParam();
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"));
  const Config config{.arch = Arch::sm80, .columns_b = true, .tile_k = 32, .stages = 4, .atomic = true};
  const codegen::Kernel kernel = generate(e, config, {});
  unisono::test::expect_golden(stem + ".sm80.cu", kernel.source);
  EXPECT_EQ(kernel.library, codegen::Library{"compute_80"});
}

TEST(EvtGoldenSm100, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/cast_select");
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"));
  const Config config{.arch = Arch::sm100a, .columns_b = true, .schedule = Schedule::warp_specialized, .atomic = true};
  const codegen::Kernel kernel = generate(e, config, {});
  unisono::test::expect_golden(stem + ".sm100a.cu", kernel.source);
  EXPECT_EQ(kernel.library, codegen::Library{"sm_100a"});
}

// A graph behind a convolution, with D of 16 bits ahead of its store: conv.cu and conv.sm80.cu
TEST(EvtGoldenConvolution, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/conv");
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"), test::convolution());
  Config config{.convolution = true, .schedule = Schedule::warp_specialized, .atomic = true};
  unisono::test::expect_golden(stem + ".cu", generate(e, config, {}).source);
  config.transposed = true;
  unisono::test::expect_golden(stem + ".dgrad.cu", generate(e, config, {}).source);
  config.transposed = false, config.arch = Arch::sm100a;
  unisono::test::expect_golden(stem + ".sm100a.cu", generate(e, config, {}).source);
  config = {.arch = Arch::sm80, .convolution = true, .tile_k = 32, .stages = 4, .atomic = true};
  unisono::test::expect_golden(stem + ".sm80.cu", generate(e, config, {}).source);
}

// What a gradient of filters is added to, and its norm: gradient.cu
TEST(EvtGoldenGradient, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/gradient");
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"), test::gradient());
  const Config config{
      .convolution = true, .gradient = true, .tile_n = 64, .schedule = Schedule::warp_specialized, .atomic = true};
  unisono::test::expect_golden(stem + ".cu", generate(e, config, {}).source);
}

// Groups of rows with a B each: grouped.cu
TEST(EvtGoldenGrouped, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/grouped");
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"), test::grouped());
  const Config config{.grouped = true, .atomic = true};
  unisono::test::expect_golden(stem + ".cu", generate(e, config, {}).source);
}

// The collective of sm_90 takes fragments of D's element or of f32, which it rounds to D itself
TEST(EvtTreeOfSm90, GivesFragmentsOfF32OrOfD) {
  const auto converts = [](const std::string& text) {
    const std::string source = generate(test::epilogue_of(text), {.atomic = true}, {}).source;
    return source.find(
               "Visitors = fusion::Sm90EVT<\n    fusion::Sm90Compute<thread::Identity, float, float, kRound>") !=
           std::string::npos;
  };
  EXPECT_TRUE(converts("store cast(acc + bias[n], f16) as y : bf16"));
  EXPECT_TRUE(converts("store cast(acc + bias[n], bf16) as y : f32"));
  EXPECT_FALSE(converts("store cast(acc + bias[n], bf16) as y : bf16"));
  EXPECT_TRUE(converts("h = cast(acc, bf16)\nstore relu(h) * h as y : f32")) << "the root is topological";
  const std::string sink = "h = cast(acc + bias[n], f16)\nstore h : f32\n";
  EXPECT_TRUE(converts(sink + "store h as z : bf16")) << "stores pass f16 on";
  EXPECT_TRUE(converts(sink + "store max(h, over=n) as peak : f32")) << "so do reductions over columns";
  EXPECT_TRUE(converts(sink + "store max(h, over=m) as peak : f32")) << "and over rows";
  EXPECT_TRUE(converts(sink + "store sum(h) as total : f32")) << "and over both";
  EXPECT_TRUE(converts("operand r[m,n] : bf16\nstore r as y : f32\nstore r as z : f32")) << "the source is of bf16";
  EXPECT_FALSE(converts("store relu(acc + bias[n]) as y : bf16"));
  EXPECT_FALSE(converts("store relu(cast(acc + bias[n], f16) * t[n]) as y : bf16"));
  EXPECT_FALSE(converts("h = relu(acc + bias[n])\nstore h : f32\nstore max(h, over=m) as peak : f32"));
}

// Two products of one A: dual.sm80.cu
TEST(EvtGoldenDual, IsAsRecorded) {
  const std::string stem = unisono::test::source_path("tests/golden/cutlass_evt/dual");
  Gemm of = test::product();
  of.products = 2;
  const auto e = test::epilogue_of(unisono::test::text_of(stem + ".epi"), of);
  const Config config{.arch = Arch::sm80,
                      .products = 2,
                      .columns_b = true,
                      .tile_m = 128,
                      .tile_n = 64,
                      .tile_k = 32,
                      .stages = 4,
                      .atomic = true};
  unisono::test::expect_golden(stem + ".sm80.cu", generate(e, config, {}).source);
}

INSTANTIATE_TEST_SUITE_P(Cases, EvtGolden, testing::ValuesIn(cases),
                         [](const auto& of) { return std::string(of.param); });

std::string builtin(const std::string& text) { return builtin_fusion(test::visitors(text).value()).value_or(""); }

TEST(EvtBuiltinFusion, IsRecognisedWhereItMatchesExactly) {
  const std::string scope = "cutlass::epilogue::fusion::", c = "operand c[m,n] : bf16\n";
  EXPECT_EQ(builtin("store alpha[] * acc as y : bf16"), scope + "ScaledAcc");
  EXPECT_EQ(builtin(c + "store alpha[] * acc + beta[] * c as y : bf16"), scope + "LinearCombination");
  EXPECT_EQ(builtin(c + "store relu(alpha[] * acc + beta[] * c) as y : bf16"), scope + "LinCombEltAct<thread::ReLu>");
  EXPECT_EQ(builtin("store acc + bias[n] as y : bf16"), scope + "LinCombPerColBias");
  EXPECT_EQ(builtin("store silu(acc + bias[m]) as y : bf16"), scope + "LinCombPerRowBiasEltAct<thread::SiLu>");
  EXPECT_EQ(builtin("h = acc + bias[n]\nstore gelu(h) as y : bf16\nstore h : bf16"),
            scope + "LinCombPerColBiasEltActAux<thread::GELU>");
}

TEST(EvtBuiltinFusion, IsNotClaimedForMore) {
  EXPECT_EQ(builtin("store acc as y : bf16"), "");
  EXPECT_EQ(builtin("store acc + bias[n] + bias2[n] as y : bf16"), "");
  EXPECT_EQ(builtin("store mish(acc + bias[n]) as y : bf16"), "") << "the activation is none of CUTLASS's";
  EXPECT_EQ(builtin("store relu(cast(acc + bias[n], bf16)) as y : bf16"), "") << "rounded ahead of the activation";
  EXPECT_EQ(builtin("operand r[m,n] : bf16\noperand s[m,n] : bf16\nstore acc + r + s as y : bf16"), "");
}

}  // namespace
}  // namespace unisono::families::cutlass_evt
