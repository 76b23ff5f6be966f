// Attributes that are values: what the operation is written out in, its dtype and axes, numbers beside values.

#include "ir/attribute_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "ir/op_table.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;

std::string printed(const std::string& text) { return print(parse(text)); }

TEST(AttributeValues, AreWrittenOut) {
  EXPECT_EQ(printed("store leaky_relu(acc, slope=s[]) as y"), "y = select(acc > 0, acc, acc * s[])\nstore y : f32\n");
  EXPECT_EQ(printed("store elu(acc, a[]) as y"), "y = select(acc > 0, acc, a[] * elu(acc))\nstore y : f32\n");
  EXPECT_EQ(printed("store hardsigmoid(acc, alpha=a[], beta=b[]) as y"),
            "y = clamp(acc * a[] + b[], lower=0, upper=1)\nstore y : f32\n");
  EXPECT_EQ(printed("store clamp(acc, lo[], hi[]) as y"), "y = min(max(acc, lo[]), hi[])\nstore y : f32\n");
}

// A number beside a value stays one; a limit that limits nothing is left out
TEST(AttributeValues, NumbersBesideThem) {
  EXPECT_EQ(printed("store clamp(acc, 0, hi[]) as y"), "y = min(max(acc, 0), hi[])\nstore y : f32\n");
  EXPECT_EQ(printed("store clamp(acc, upper=hi[]) as y"), "y = min(acc, hi[])\nstore y : f32\n");
  EXPECT_EQ(printed("store clamp(acc, lower=lo[]) as y"), "y = max(acc, lo[])\nstore y : f32\n");
  EXPECT_EQ(printed("store hardsigmoid(acc, beta=b[], alpha=0.2) as y"),
            "y = clamp(acc * 0.2 + b[], lower=0, upper=1)\nstore y : f32\n");
}

TEST(AttributeValues, AreExpressionsOfAnyAxes) {
  const Graph g =
      parse("gain = s[] * 2\nstore leaky_relu(bias[n], slope=gain + 1) as y\nstore elu(bias, rows[m]) as z");
  EXPECT_EQ(g[g.stores[0].value].axes, axes::n);
  EXPECT_EQ(g[g.stores[1].value].axes, axes::mn);
  EXPECT_TRUE(structurally_equal(g, parse(print(g)))) << print(g);
}

// The number of a constant is a number, however it is given
TEST(AttributeValues, ConstantsAreNumbers) {
  EXPECT_EQ(printed("store leaky_relu(acc, slope=(0.25)) as y"), "y = leaky_relu(acc, slope=0.25)\nstore y : f32\n");
  EXPECT_EQ(printed("k = -6\nstore clamp(acc, k, inf) as y"), "y = clamp(acc, lower=-6)\nstore y : f32\n");
  GraphBuilder g;
  EXPECT_EQ(leaky_relu(g.acc(), g.constant(0.25)).node().op, Op::leaky_relu);
}

// Computed in f32, rounded once: what the operation itself does
TEST(AttributeValues, KeepTheDtypeOfTheOperation) {
  EXPECT_EQ(printed("h = cast(acc, bf16)\nstore leaky_relu(h, slope=s[]) as y"),
            "h = cast(acc, bf16)\n"
            "t0 = cast(h, f32)\n"
            "y = cast(select(t0 > 0, t0, t0 * s[]), bf16)\nstore y : bf16\n");
  EXPECT_EQ(printed("store clamp(index(m), lower=l[]) as y"), "y = max(cast(index(m), f32), l[])\nstore y : f32\n");
  for (const char* type : {"f64", "f32", "tf32", "f16", "bf16", "i32", "bool"})
    for (const char* parameter : {"f64", "f32", "i32", "bool"}) {
      const std::string declared = std::string("operand p : ") + parameter + "\nx = cast(acc, " + type + ")\n";
      for (const char* name : {"leaky_relu", "elu", "hardsigmoid", "clamp"}) {
        const Graph number = parse(declared + "y = " + name + "(x)\nstore y\nstore p"),
                    value = parse(declared + "y = " + name + "(x, p)\nstore y\nstore p");
        EXPECT_EQ(value[value.stores[0].value].dtype, number[number.stores[0].value].dtype)
            << name << " of " << type << " with " << parameter;
      }
    }
}

// Every attribute of every function of one value may be one, by the builder and by the text alike
TEST(AttributeValues, OfEveryFunctionInBothLanguages) {
  int written_out = 0;
  const auto expect = [&](Op op, const std::function<Value(GraphBuilder&)>& build, const std::string& text) {
    GraphBuilder g;
    const Value y = build(g);
    EXPECT_NE(y.node().op, op) << text;
    g.store(y, DType::f32, "y");
    EXPECT_TRUE(structurally_equal(g.build(), parse("store " + text + " as y"))) << text << "\n" << print(g.build());
    ++written_out;
  };
#define UNISONO_FUNCTION_1(NAME, P, ...) \
  expect(                                \
      Op::NAME, [](GraphBuilder& g) { return NAME(g.acc(), g.operand("v")); }, #NAME "(acc, " #P "=v[])");
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, ...)                                \
  expect(                                                                                      \
      Op::NAME, [](GraphBuilder& g) { return NAME(g.acc(), g.operand("v"), g.operand("w")); }, \
      #NAME "(acc, v[], w[])");                                                                \
  expect(                                                                                      \
      Op::NAME, [](GraphBuilder& g) { return NAME(g.acc(), 0.5, g.operand("w")); }, #NAME "(acc, 0.5, " #Q "=w[])");
#include "unisono/operations.def"
  EXPECT_GE(written_out, 6);
}

TEST(AttributeValues, MistakesAreRefused) {
  GraphBuilder g, other;
  const Value x = g.acc();
  const auto message = [](const auto& build) -> std::string {
    try {
      build();
    } catch (const UserError& e) {
      return e.what();
    }
    return "not refused";
  };
  EXPECT_THAT(message([&] { leaky_relu(x, other.operand("s")); }), HasSubstr("a value of another GraphBuilder"));
  EXPECT_THAT(message([&] { hardsigmoid(x, g.operand("a"), std::numeric_limits<double>::infinity()); }),
              HasSubstr("hardsigmoid was given beta=inf; expected a finite number"));
  EXPECT_THAT(message([&] { clamp(x, 2, 1); }), HasSubstr("lower=2 and upper=1"));
}

}  // namespace
}  // namespace unisono
