// Vector forms of user functions: which a text has, where calls use them, and what is wrong with others.

#include "ir/function_forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::ir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* scalar = "__device__ float gain(float x, int n, float by, const float4* table) { return x; }\n";

UserFunction gain(const std::string& more) {
  return {.name = "gain",
          .arity = 2,
          .cuda_source = scalar + more,
          .cpu = {},
          .parameters = {ParameterType::float32, ParameterType::int32},
          .scalars = {"by"},
          .pointers = {{"table", "const float4*"}}};
}

TEST(FunctionForms, AreOverloads) {
  EXPECT_EQ(vector_forms(gain("")), 0);
  EXPECT_EQ(vector_forms(gain("__device__ float4 gain(float4 x, int n, float by, const float4* table) { return x; }")),
            4);
  EXPECT_EQ(
      vector_forms(gain("__device__ __forceinline__ unisono::float8 gain(\n    const unisono::float8& x, int, float, "
                        "const float4 *table);\n"
                        "__device__ inline float2 gain(float2 x, int n, float by, const float4* table) { return x; }")),
      10);
  // Helpers, comments, literals, other names, and what is called are none
  EXPECT_EQ(vector_forms(gain("// __device__ float4 gain(float4 x)\n/* __device__ float2 gain(float2) */\n"
                              "__device__ float4 again(float4 x) { return x; }\n"
                              "__device__ float other(float x) { return gain(x, 1, x, nullptr) + x; }")),
            0);
  EXPECT_EQ(widest_of(10, 8), 8);
  EXPECT_EQ(widest_of(10, 4), 2);
  EXPECT_EQ(widest_of(4, 2), 1);
}

TEST(FunctionForms, OfNoResultAndOfSeveral) {
  UserFunction f{.name = "see",
                 .arity = 1,
                 .returns_value = false,
                 .cuda_source = "__device__ void see(float x) {}\n__device__ void see(float2 x) {}",
                 .cpu = {}};
  EXPECT_EQ(vector_forms(f), 2);
  f = {.name = "split",
       .arity = 1,
       .cuda_source = "__device__ void split(float x, float* r) {}\n__device__ void split(float4 x, float4* r) {}",
       .cpu = {},
       .results = 2};
  EXPECT_EQ(vector_forms(f), 4);
  const Graph g = parse("store split_0(acc) as y\nstore split_1(acc) as z", {f});
  EXPECT_EQ(vector_forms(*g.functions.at("split_1")), 4);
  EXPECT_EQ(all_call_forms(g), 4);
}

std::string refusal(const UserFunction& f) {
  try {
    parse("store acc as y", {f});
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FunctionForms, RefusedWithTheirPlace) {
  EXPECT_EQ(
      refusal(gain("__device__ float4 gain(float4 x, float by) { return x; }")),
      "line 2, column 12: function gain: its vector form has 2 parameters; expected 4, as the scalar form: 2 inputs, "
      "1 captured scalars, 1 captured pointers\n"
      "  2 | __device__ float4 gain(float4 x, float by) { return x; }\n"
      "    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^");
  const auto said = [](const std::string& head) { return refusal(gain("__device__ " + head + " { return {}; }")); };
  EXPECT_THAT(said("float3 gain(float3 x, int n, float by, const float4* t)"),
              HasSubstr("takes vectors of 3 elements; expected 2, 4 or 8: float2, float4, unisono::float8"));
  EXPECT_THAT(said("float4 gain(float4 x, int4 n, float by, const float4* t)"),
              HasSubstr("takes int4 as input 2; expected int, the first element's"));
  EXPECT_THAT(said("float4 gain(float4 x, int n, float4 by, const float4* t)"),
              HasSubstr("takes float4 as the captured scalar by; expected float"));
  EXPECT_THAT(said("float4 gain(float4 x, int n, float by, float4 t)"),
              HasSubstr("takes float4 where table is captured; expected const float4*"));
  EXPECT_THAT(said("float gain(float4 x, int n, float by, const float4* t)"),
              HasSubstr("returns float; expected float4"));
  EXPECT_THAT(refusal(gain("__device__ float2 gain(float2 x, int n, float by, const float4* t) { return x; }\n"
                           "__device__ float2 gain(float2 y, int n, float by, const float4* t) { return y; }")),
              Says("line 3, column 12: function gain … 2 elements"));
  UserFunction alone = gain("");
  alone.cuda_source = "__device__ float4 gain(float4 x, int n, float by, const float4* table) { return x; }";
  EXPECT_THAT(refusal(alone), Says("function gain … expected … single element"));
  const UserFunction two{.name = "mix",
                         .arity = 2,
                         .cuda_source =
                             "__device__ float mix(float x, float y) { return x; }\n"
                             "__device__ float4 mix(float4 x, float2 y) { return x; }",
                         .cpu = {}};
  EXPECT_THAT(refusal(two), StartsWith("line 2, column 33: function mix: its vector form takes float2 as input 2"));
}

TEST(FunctionForms, ServeCallsOfWhichIntegersAreTheFirstElements) {
  const UserFunction f = gain("__device__ float2 gain(float2 x, int n, float by, const float4* table) { return x; }");
  const auto forms = [&](const char* text) { return all_call_forms(parse(text, {f})); };
  EXPECT_EQ(forms("store gain(acc, index(n)) as y"), 2);
  EXPECT_EQ(forms("store gain(acc, index(m)) as y"), 2);
  EXPECT_EQ(forms("store gain(acc, 3) as y"), 2);
  EXPECT_EQ(forms("store gain(acc, index(n) + 1) as y"), 0);
  EXPECT_EQ(forms("store acc + gain(bias[n], index(n)) as y"), 0);  // [n]
}

TEST(FunctionForms, AlignPointers) {
  EXPECT_EQ(alignment_of_pointer("const float*"), 1u);
  EXPECT_EQ(alignment_of_pointer("const float2*"), 8u);
  EXPECT_EQ(alignment_of_pointer("float4 *"), 16u);
  EXPECT_EQ(alignment_of_pointer("const unisono::float8*"), 16u);
  EXPECT_EQ(alignment_of_pointer("float4**"), 1u);
}

}  // namespace
}  // namespace unisono::ir
