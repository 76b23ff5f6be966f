#include "passes/pattern.hpp"

#include <gtest/gtest.h>

#include "rewriting.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {
namespace {

const Pattern x = any(0), y = any(1), z = any(2), c = number(3);

bool fires(const Row& row, std::string_view text) {
  Editor g(graph_of(text));
  const RowTable table({{row}});
  return apply(table, g);
}

TEST(Pattern, HolesMatchTheSameValue) {
  const Row row{"", exp(x) - x, tanh(x)};
  EXPECT_TRUE(fires(row, "exp(acc) - acc"));
  EXPECT_FALSE(fires(row, "exp(acc) - c[m,n]"));
}

TEST(Pattern, CommutativeOperandsMatchInEveryOrder) {
  // needs backtracking: which product comes first is only known once the factor in common is
  const Row row{"", x * y + x * sin(z), x};
  for (const char* text : {"acc * c[m,n] + acc * sin(d[m,n])", "acc * sin(d[m,n]) + c[m,n] * acc",
                           "sin(d[m,n]) * acc + acc * c[m,n]", "c[m,n] * acc + sin(d[m,n]) * acc"})
    EXPECT_TRUE(fires(row, text)) << text;
  EXPECT_FALSE(fires(row, "acc * c[m,n] + d[m,n] * sin(e[m,n])"));
  EXPECT_FALSE(fires(Row{"", x - exp(y), y}, "exp(acc) - c[m,n]"));
}

TEST(Pattern, Numbers) {
  EXPECT_TRUE(fires(Row{"", x * 2, x}, "2 * acc"));
  EXPECT_FALSE(fires(Row{"", x * 2, x}, "2.0000001 * acc"));
  EXPECT_TRUE(fires(Row{"", x * about(1.0 / 3), x}, "acc * 0.33333334"));
  EXPECT_FALSE(fires(Row{"", x * about(1.0 / 3), x}, "acc * 0.3333"));
  EXPECT_FALSE(fires(Row{"", x + exactly(0), x}, "acc + -0"));
  EXPECT_TRUE(fires(Row{"", x * c, x}, "7 * acc"));
  EXPECT_FALSE(fires(Row{"", x * c, x}, "acc * c[m,n]"));
}

Attributes reciprocal_slope(const Match& m) {
  Attributes a;
  a.alpha = 1 / m.number(3);
  return a;
}

// The root of the replacement, or a part of it, has an attribute that is not legal: the graph stays as it is
TEST(Pattern, ReplacementsThatAreNotLegalDoNotFire) {
  const Pattern leaky = with(reciprocal_slope, Op::leaky_relu, {x});
  for (const Row& row : {Row{"", exp(x) * c, leaky}, Row{"", exp(x) * c, tanh(leaky) + sin(x)}}) {
    EXPECT_TRUE(fires(row, "exp(acc) * 4"));
    EXPECT_FALSE(fires(row, "exp(acc) * 0"));
    const Graph source = graph_of("exp(acc) * 0");
    Editor g(source);
    apply(RowTable({{row}}), g);
    EXPECT_FALSE(g.changed());
    EXPECT_EQ(g.size(), source.nodes.size());
  }
}

TEST(Pattern, InnerValuesMustNotBeReadElsewhere) {
  const Row strict{"", exp(sin(x)), tanh(x)}, tolerant{"", exp(shared(sin(x))), tanh(x)};
  const char* text = "s = sin(acc)\nstore exp(s) : f32\nstore s : f32";
  EXPECT_FALSE(fires(strict, text));
  EXPECT_TRUE(fires(tolerant, text));
  // twice inside the pattern is not elsewhere
  EXPECT_TRUE(fires(Row{"", exp(x) - sin(exp(x)), x}, "e = exp(acc)\nstore e - sin(e) : f32"));
}

TEST(Pattern, DtypesMustAgree) {
  const Row row{"", exp(x) * y, tanh(x) * y};
  EXPECT_TRUE(fires(row, "exp(acc) * c[m,n]"));
  EXPECT_FALSE(fires(row, "exp(cast(acc, bf16)) * c[m,n]"));  // the exponential is rounded to bf16
  EXPECT_FALSE(fires(row, "x = cast(acc, bf16)\nstore exp(x) * x : f32"));
  Row floats = row;
  floats.dtypes = Dtypes::floats;
  EXPECT_TRUE(fires(floats, "x = cast(acc, bf16)\nstore exp(x) * x : f32"));
  EXPECT_FALSE(fires(floats, "exp(cast(acc, bf16)) * c[m,n]"));
}

TEST(Pattern, TheTypeOfTheResultStays) {
  EXPECT_FALSE(fires(Row{"", x + y, x}, "bias[n] + acc"));  // x would be bias: [n] instead of [m,n]
  EXPECT_FALSE(fires(Row{"", x - y, x}, "bias[n] - acc"));
  EXPECT_TRUE(fires(Row{"", x - y, x}, "acc - bias[n]"));
  EXPECT_FALSE(fires(Row{"", x - y, x}, "cast(acc, bf16) - c[m,n]"));
}

TEST(Pattern, AttributesMustAgree) {
  const Row row{"", with_attributes(0, Op::sum, {x}) + with_attributes(0, Op::sum, {y}),
                with_attributes(0, Op::sum, {x + y})};
  EXPECT_TRUE(fires(row, "sum(acc, over=m) + sum(c[m,n], over=m)"));
  EXPECT_FALSE(fires(row, "sum(acc, over=m) + sum(c[m,n], over=m, per=b)"));
}

TEST(Pattern, RowsThatDoNotEndAreFound) {
  Editor g(graph_of("acc + c[m,n]"));
  const RowTable table({{Row{"x + y -> y + x", x + y, y + x}}});
  EXPECT_THROW(apply(table, g), InternalError);
}

TEST(Pattern, ARowMustStartAtAnOperation) { EXPECT_THROW(RowTable({{Row{"", x, x}}}), InternalError); }

}  // namespace
}  // namespace unisono::passes
