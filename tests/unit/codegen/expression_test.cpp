#include "codegen/expression.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "ir/op_table.hpp"
#include "unisono/builder.hpp"

namespace unisono::codegen {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Literal, IsExact) {
  EXPECT_EQ(literal(2, DType::f32), "2.f");
  EXPECT_EQ(literal(0.1, DType::f32), "0.1f");
  EXPECT_EQ(literal(-0.0, DType::f32), "(-0.f)");
  EXPECT_EQ(literal(-1e-5, DType::f32), "(-1e-05f)");
  EXPECT_EQ(literal(infinity, DType::f32), "__int_as_float(0x7f800000)");
  EXPECT_EQ(literal(-infinity, DType::f32), "-__int_as_float(0x7f800000)");
  EXPECT_EQ(literal(1e300, DType::f32), literal(infinity, DType::f32));
  EXPECT_EQ(literal(std::numeric_limits<double>::quiet_NaN(), DType::f32), "__int_as_float(0x7fc00000)");
  EXPECT_EQ(literal(-7, DType::i32), "-7");
  EXPECT_EQ(literal(-2147483648.0, DType::i32), "int(0x80000000u)");
  EXPECT_EQ(literal(1, DType::boolean), "true");
  for (const float x : {0x1.fffffep127f, 0x1p-126f, 3.14159274f, 1.f / 3, 16777216.f, 1e-30f, 123456792.f})
    EXPECT_EQ(std::stof(literal(x, DType::f32)), x);
}

TEST(Converted, BetweenAllTypes) {
  EXPECT_EQ(converted("x", DType::f32, DType::bf16), "x");
  EXPECT_EQ(converted("x", DType::i32, DType::f32), "float(x)");
  EXPECT_EQ(converted("x", DType::boolean, DType::i32), "int(x)");
  EXPECT_EQ(converted("x", DType::f32, DType::i32), "math::to_i32(x)");
  EXPECT_EQ(converted("x", DType::f32, DType::boolean), "(x != 0.f)");
  EXPECT_EQ(converted("x", DType::i32, DType::boolean), "(x != 0)");
}

// One expression over x (f32), h (bf16), i, j (i32) and p (bool)
struct Case {
  Value (*build)(Value x, Value h, Value i, Value j, Value p);
  const char* text;
};

class Expression : public testing::TestWithParam<Case> {};

TEST_P(Expression, IsAsExpected) {
  GraphBuilder g;
  const Value x = g.operand("x", axes::mn), h = cast(x, DType::bf16).named("h"),
              i = g.operand("i", axes::mn, {.storage = DType::i32}),
              j = g.operand("j", axes::mn, {.storage = DType::i32}),
              p = g.operand("p", axes::mn, {.storage = DType::boolean});
  const Value y = GetParam().build(x, h, i, j, p);
  g.store(y, DType::f32, "y");
  const Graph graph = g.build();
  std::vector<std::string> inputs;
  for (const ValueId in : graph[y.id()].inputs)
    inputs.push_back(graph[in].op == Op::operand ? graph[in].attr.name : graph[in].name);
  EXPECT_EQ(expression(graph, y.id(), inputs, false), GetParam().text);
}

#define CASE(EXPRESSION, TEXT)                                                                                 \
  Case {                                                                                                       \
    []([[maybe_unused]] Value x, [[maybe_unused]] Value h, [[maybe_unused]] Value i, [[maybe_unused]] Value j, \
       [[maybe_unused]] Value p) { return EXPRESSION; },                                                       \
        TEXT                                                                                                   \
  }
INSTANTIATE_TEST_SUITE_P(
    Codegen, Expression,
    testing::Values(
        CASE(x + 0.1, "x + 0.1f"), CASE(i + j, "math::add(i, j)"), CASE(i + 1, "math::add(i, 1)"),
        CASE(i + 0.5, "float(i) + 0.5f"), CASE(i* x, "float(i) * x"), CASE(h + h, "math::round_bf16(h + h)"),
        CASE(h + x, "h + x"), CASE(i / j, "math::div(float(i), float(j))"), CASE(x / 4, "x * 0.25f"),
        CASE(x / 0, "math::div(x, 0.f)"), CASE(x / x, "math::div(x, x)"),
        CASE(pow(i, j), "math::pow(float(i), float(j))"), CASE(i < j, "i < j"), CASE(i < 2.5, "float(i) < 2.5f"),
        CASE(p == p, "float(p) == float(p)"), CASE(min(h, h), "math::min(h, h)"),
        CASE(max(h, 0.1), "math::round_bf16(math::max(h, 0.1f))"), CASE(relu(h), "math::relu(h)"),
        CASE(square(i), "math::square(i)"), CASE(abs(p), "math::abs(float(p))"), CASE(-i, "math::neg(i)"),
        CASE(-x, "-x"), CASE(fma(i, j, i), "math::fma(i, j, i)"), CASE(fma(x, i, h), "math::fma(x, float(i), h)"),
        CASE(select(p, x, i), "p ? x : float(i)"), CASE(select(p, h, h), "p ? h : h"),
        CASE(select(p, i, x.builder().constant(3)), "p ? i : 3"), CASE(logical_and(p, p), "p && p"),
        CASE(logical_not(p), "!p"), CASE(cast(x, DType::i32), "math::to_i32(x)"),
        CASE(cast(i, DType::bf16), "math::round_bf16(float(i))"), CASE(cast(x, DType::boolean), "(x != 0.f)"),
        CASE(cast(h, DType::f32), "h"), CASE(cast(x, DType::tf32), "math::round_tf32(x)"),
        CASE(cast(h, DType::f16), "math::round_f16(h)"), CASE(clamp(x, -1, 1), "math::clamp(x, (-1.f), 1.f)"),
        CASE(clamp(x, -infinity, 1), "math::min(x, 1.f)"), CASE(clamp(x, 0, infinity), "math::max(x, 0.f)"),
        CASE(leaky_relu(x, 0.1), "math::leaky_relu_below_1(x, 0.1f)"),
        CASE(leaky_relu(x, -2), "math::leaky_relu(x, (-2.f))"), CASE(leaky_relu(x, 0), "math::leaky_relu(x, 0.f)"),
        CASE(elu(x, 2), "math::elu(x, 2.f)"), CASE(hardsigmoid(x, 0.25, 0.5), "math::hardsigmoid(x, 0.25f, 0.5f)"),
        CASE(gelu_tanh(h), "math::round_bf16(math::gelu_tanh(h))"), CASE(exp(i), "math::exp(float(i))")));
#undef CASE

}  // namespace
}  // namespace unisono::codegen
