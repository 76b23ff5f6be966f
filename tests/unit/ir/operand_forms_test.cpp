// Operands that lack coordinates of rows or are strided, defaults of vectors, rounding of stores, and what user
// functions capture.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ir/check_graph.hpp"
#include "support/says.hpp"
#include "unisono/builder.hpp"
#include "unisono/contraction.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;

const Node& operand(const Graph& g, const std::string& name) {
  for (const Node& x : g.nodes)
    if (x.op == Op::operand && x.attr.name == name) return x;
  throw InternalError("no operand " + name);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(OperandForms, GroupsOfColumns) {
  const Graph g = parse("store acc * s[b,g4] + t[g12] as y");
  EXPECT_EQ(to_string(operand(g, "s").axes), "[b,g4]");
  EXPECT_EQ(to_string(operand(g, "t").axes), "[g12]");
  EXPECT_TRUE(structurally_equal(g, parse(print(g))));
  const auto checked = [](const std::string& text) {
    return error_of([&] { ir::check_graph(parse(text), Gemm{.m = 6, .n = 36, .k = 8}); });
  };
  EXPECT_EQ(checked("store acc * s[b,g4] + t[g12] as y"), "none");
  EXPECT_EQ(checked("store acc * s[b,g5] as y"),
            "operand s[b,g5] was given groups=5 over 36 columns; expected a divisor of 36");
  EXPECT_EQ(checked("store group_norm(acc, groups=5) as y"),
            "group_norm was given groups=5 over 36 columns; expected a divisor of 36");
  EXPECT_EQ(checked("store sum(acc, over=n, groups=7) as y"),
            "sum was given groups=7 over 36 columns; expected a divisor of 36");
  for (const char* axes : {"[g]", "[g1]", "[g4x]", "[m,g4]", "[b,g0]", "[g4,b]", "[g99999999999]"})
    EXPECT_THAT(error_of([&] { parse("store acc + s" + std::string(axes) + " as y"); }), HasSubstr("unknown axes"));
}

TEST(OperandForms, CoordinatesOfRowsGiveValuesOfRowsAndElements) {
  const Graph g = parse("store acc + a[h] + b0[w] + c[h,w] + d[h,n] + e[w,n] + f[h,w,n] as y");
  using enum RowCoordinates;
  for (const auto& [name, axes, rows] : {std::tuple{"a", axes::m, h},
                                         {"b0", axes::m, w},
                                         {"c", axes::m, hw},
                                         {"d", axes::mn, h},
                                         {"e", axes::mn, w},
                                         {"f", axes::mn, hw}}) {
    EXPECT_EQ(operand(g, name).axes, axes) << name;
    EXPECT_EQ(operand(g, name).attr.rows, rows) << name;
  }
}

TEST(OperandForms, TextAndBuilderAgree) {
  const Graph text = parse(
      "operand pos[h,w] : bf16 = 0.5 strided\noperand c[m,n] : f16 strided\noperand bias[n] = 2\n"
      "store acc * pos + c + bias + d[h,n] as y : bf16 strided");
  GraphBuilder g;
  const Value pos = g.operand(
      "pos", axes::m, {.storage = DType::bf16, .default_value = 0.5, .rows = RowCoordinates::hw, .strided = true});
  const Value c = g.operand("c", axes::mn, {.storage = DType::f16, .strided = true});
  const Value bias = g.operand("bias", axes::n, {.default_value = 2});
  g.store(g.acc() * pos + c + bias + g.operand("d", axes::mn, {.rows = RowCoordinates::h}), DType::bf16, "y",
          {.strided = true});
  EXPECT_TRUE(structurally_equal(text, g.build()));
}

TEST(OperandForms, DifferFromOneAnother) {
  const auto equal = [](const char* x, const char* y) { return structurally_equal(parse(x), parse(y)); };
  EXPECT_FALSE(equal("store acc + c[h,n]", "store acc + c[m,n]"));
  EXPECT_FALSE(equal("store acc + c[h,n]", "store acc + c[w,n]"));
  EXPECT_FALSE(equal("operand c[m,n] strided\nstore acc + c", "store acc + c[m,n]"));
  EXPECT_FALSE(equal("store acc as y : bf16 strided", "store acc as y : bf16"));
  EXPECT_FALSE(equal("store acc as y : bf16 toward_zero", "store acc as y : bf16"));
  EXPECT_FALSE(equal("operand bias[n] = 1\nstore acc + bias", "store acc + bias[n]"));
}

TEST(OperandForms, ArePrintedAsTheyAreRead) {
  for (const char* text :
       {"y = acc + pos[h,w]\nstore y : bf16\n", "operand c[h,w,n] : f16\ny = acc + c[h,w,n]\nstore y : bf16\n",
        "operand c[m,n] : bf16 strided\ny = acc + c[m,n]\nstore y : bf16 strided\n",
        "operand bias[n] = 0.5\ny = acc + bias[n]\nstore y : f32\n"})
    EXPECT_EQ(print(parse(text)), text);
  const Graph rounded = parse("store acc as y : bf16 stochastic(seed)\nstore acc as z : f16 toward_zero");
  EXPECT_EQ(print(rounded),
            "operand seed : i32\ny = round_stochastic_bf16(acc, seed, index(m), index(n), 0)\n"
            "z = round_toward_zero_f16(acc)\nstore y : bf16\nstore z : f16\n");
  EXPECT_TRUE(structurally_equal(parse(print(rounded)), rounded));
}

TEST(OperandForms, StoresHaveRandomBitsOfTheirOwn) {
  const Graph g = parse("store acc as y : bf16 stochastic(seed)\nstore acc as z : bf16 stochastic(seed)");
  EXPECT_NE(g.stores[0].value, g.stores[1].value);
  EXPECT_THAT(print(g), HasSubstr("z = round_stochastic_bf16(acc, seed, index(m), index(n), 1)"));
}

UserFunction scaled() {
  return {
      .name = "scaled",
      .arity = 1,
      .cuda_source = "__device__ float scaled(float x, float gain, const float* table) { return x * gain * table[0]; }",
      .cpu = {},
      .scalars = {"gain"},
      .pointers = {{"table", "const float*"}}};
}

TEST(UserFunctions, CapturedScalarsAreOperandsOfEachCall) {
  const Graph g = parse("store scaled(acc) + scaled(2 * acc) as y", {scaled()});
  int calls = 0;
  for (const Node& x : g.nodes)
    if (x.op == Op::call) {
      ++calls;
      ASSERT_EQ(x.inputs.size(), 2u);
      EXPECT_EQ(g[x.inputs[1]].attr.name, "gain");
    }
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(structurally_equal(parse(print(g), {scaled()}), g));
  EXPECT_THAT(error_of([] { parse("store scaled(acc, 2) as y", {scaled()}); }), HasSubstr("takes 1 input"));
  EXPECT_THAT(error_of([] { parse("operand gain[n]\nstore scaled(acc + gain) as y", {scaled()}); }),
              HasSubstr("captures the scalar gain, which is an operand [n]"));
}

TEST(UserFunctions, OfSeveralResultsAreCalledByTheirResults) {
  const UserFunction both{
      .name = "both",
      .arity = 1,
      .cuda_source = "__device__ void both(float x, float* r) { r[0] = x, r[1] = 2 * x; }",
      .cpu = {},
      .results = 2,
      .cpu_results = [](std::span<const double> x, std::span<double> r) { r[0] = x[0], r[1] = 2 * x[0]; }};
  const Graph g = parse("store both_0(acc) as y\nstore both_1(acc) as z", {both});
  ASSERT_EQ(g.functions.size(), 2u);
  const double x[] = {3};
  EXPECT_EQ(g.functions.at("both_1")->cpu(x), 6);
  EXPECT_EQ(g.functions.at("both_0")->shared_source, both.cuda_source);
  EXPECT_THAT(g.functions.at("both_1")->cuda_source, HasSubstr("return results[1];"));
  EXPECT_THAT(error_of([&] { parse("store both(acc) as y", {both}); }), HasSubstr("no operation 'both'"));
}

TEST(UserFunctions, AreRefusedWithTheReason) {
  const auto refused = [](UserFunction f) { return error_of([&] { GraphBuilder().define(f); }); };
  UserFunction f = scaled();
  f.pointers[0].type = "float";
  EXPECT_THAT(refused(f), Says("the pointer table as 'float'; expected … pointer"));
  f = scaled(), f.scalars = {"gain", "gain"};
  EXPECT_THAT(refused(f), HasSubstr("captures gain twice"));
  f = scaled(), f.parameters.resize(3);
  EXPECT_THAT(refused(f), HasSubstr("types of 3 parameters; it has 2"));
  f = scaled(), f.arity = 16;
  EXPECT_THAT(refused(f), HasSubstr("arity 16 and captures 1 scalars; expected 0 to 16"));
  f = scaled(), f.results = 9;
  EXPECT_THAT(refused(f), HasSubstr("9 results; expected 1 to 8"));
  f = scaled(), f.results = 2, f.returns_value = false;
  EXPECT_THAT(refused(f), HasSubstr("2 results and returns nothing"));
}

}  // namespace
}  // namespace unisono
