#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ir/number.hpp"
#include "unisono/builder.hpp"
#include "unisono/text.hpp"
#include "wild_graph.hpp"

namespace unisono {
namespace {

using testing::HasSubstr;

// The text of `input` after reading and printing it
std::string printed(const std::string& input) { return print(parse(input, test::wild_functions())); }

TEST(Print, TheExampleOfTheDesign) {
  EXPECT_EQ(
      printed("h = acc + bias[n] + temb[b,n]                                   # broadcast by subscript\n"
              "y = mish(group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5))\n"
              "store y : bf16                                                  # the output D\n"
              "store h : bf16                                                  # a second output of the same kernel\n"
              "store sum(h, over=m) : f32                                      # a column reduction\n"),
      "h = acc + bias[n] + temb[b,n]\n"
      "y = mish(group_norm(h, groups=32, scale=gamma[n], shift=beta[n]))\n"
      "store y : bf16\n"
      "store h : bf16\n"
      "store sum(h, over=m) : f32\n");
}

// What prints as it was written
TEST(Print, KeepsPrecedence) {
  for (const std::string e : {"acc + 1 - 2",
                              "acc - (1 - 2)",
                              "(acc - 1) * 2",
                              "acc * 2 + 1",
                              "acc / (2 * acc)",
                              "acc * 2 / 3",
                              "-(acc + 1)",
                              "-acc * 2",
                              "-(acc * 2)",
                              "-(-acc)",
                              "-sin(acc)",
                              "acc - -1",
                              "acc * -2",
                              "neg(2) * acc",
                              "neg(-2)",
                              "-2 * acc",
                              "!(acc < 1)",
                              "!(acc < 1 & acc > 0)",
                              "(acc < 1 | acc > 2) & acc > 0",
                              "acc < 1 | acc > 2 & acc > 0",
                              "acc < 1 & (acc > 0 & acc < 2)",
                              "(acc < 1) == (acc < 2)",
                              "acc + 1 < acc * 2",
                              "!(!(acc < 1))",
                              "max(acc, -1)",
                              "max(acc, over=m)",
                              "select(acc < 0, -acc, acc)",
                              "pow(acc + 1, -0)",
                              "(acc + 1) * (acc - 1)"}) {
    const std::string text =
        "store " + e + " : " + (e.find_first_of("<>") != e.npos && e[0] != 's' ? "bool\n" : "f32\n");
    EXPECT_EQ(printed(text), text);
  }
}

TEST(Print, Numbers) {
  EXPECT_EQ(ir::number_text(2), "2");
  EXPECT_EQ(ir::number_text(-0.0), "-0");
  EXPECT_EQ(ir::number_text(0.1), "0.1");
  EXPECT_EQ(ir::number_text(1e-5), "1e-5");
  EXPECT_EQ(ir::number_text(1e300), "1e300");
  EXPECT_EQ(ir::number_text(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(ir::number_text(5e-324), "5e-324");
  EXPECT_EQ(ir::number_text(1.5e-10), "1.5e-10");
  EXPECT_EQ(ir::number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(ir::number_text(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Print, HexadecimalNumbersAreReadExactly) {
  EXPECT_EQ(printed("store acc * 0x1.8p-3 as y"), "y = acc * 0.1875\nstore y : f32\n");
  EXPECT_EQ(printed("store acc * 0X10 as y"), "y = acc * 16\nstore y : f32\n");
}

TEST(Print, Operands) {
  EXPECT_EQ(printed("operand unused[b,n]\noperand alpha : f16 = -0.5\nstore acc * alpha + x[m] + beta[] as y"),
            "operand unused[b,n]\noperand alpha : f16 = -0.5\ny = acc * alpha + x[m] + beta[]\nstore y : f32\n");
  EXPECT_EQ(printed("operand bias[n] : bf16\nstore bias"), "operand bias[n] : bf16\nstore bias[n] : f32\n");
}

TEST(Print, Reductions) {
  EXPECT_EQ(printed("store sum(acc)"), "store sum(acc, over=all) : f32\n");
  EXPECT_EQ(printed("store mean(acc, over=all, groups=4, per=b)"),
            "store mean(acc, over=(m,n), per=b, groups=4) : f32\n");
  EXPECT_EQ(printed("store softmax(acc)"), "store softmax(acc, over=n) : f32\n");
}

TEST(Print, LeavesOutDefaults) {
  EXPECT_EQ(printed("store leaky_relu(acc, 0.01)"), "store leaky_relu(acc) : f32\n");
  EXPECT_EQ(printed("store clamp(acc, lower=0, upper=inf)"), "store clamp(acc, lower=0) : f32\n");
  EXPECT_EQ(printed("store group_norm(acc, eps=1e-5, groups=1)"), "store group_norm(acc, groups=1) : f32\n");
  EXPECT_EQ(printed("store group_norm(acc, eps=0, scale=g[n], groups=2)"),
            "store group_norm(acc, groups=2, scale=g[n], eps=0) : f32\n");
}

TEST(Print, NamesOfStores) {
  EXPECT_EQ(printed("h = exp(acc)\nstore h as y\nstore h"), "h = exp(acc)\nstore h as y : f32\nstore h : f32\n");
  EXPECT_EQ(printed("store acc\nstore exp(acc)"), "store acc : f32\nstore exp(acc) : f32\n");
  EXPECT_EQ(printed("store acc as out1\nstore acc as out0"), "store acc as out1 : f32\nstore acc as out0 : f32\n");
  EXPECT_EQ(printed("store bias[n] as b\nstore bias[n]"), "store bias[n] as b : f32\nstore bias[n] : f32\n");
}

TEST(Print, GivesNamesThatClashWithNone) {
  GraphBuilder g;
  const Value shared = sin(g.acc() + g.operand("t0", axes::n));
  g.store(shared * shared, DType::f32, "t1");
  const Value first = exp(shared).named("h"), second = exp(shared).named("h");
  g.store(first + second, DType::f32, "h_1");
  g.store(cos(shared).named("t0"), DType::f32, "z");
  const Graph graph = g.build();
  EXPECT_EQ(print(graph),
            "t2 = sin(acc + t0[n])\n"
            "t1 = t2 * t2\n"
            "h = exp(t2)\n"
            "h_1 = exp(t2)\n"
            "t0_1 = cos(t2)\n"
            "store t1 : f32\n"
            "store h + h_1 as h_1 : f32\n"
            "store t0_1 as z : f32\n");
  EXPECT_TRUE(structurally_equal(graph, parse(print(graph))));
}

TEST(Print, NamesFromPassesNeedNotBeIdentifiers) {
  Graph g = parse("h = exp(acc)\nstore h + h as y");
  for (Node& x : g.nodes) x.name = "a b\n";
  EXPECT_EQ(print(g), "t0 = exp(acc)\ny = t0 + t0\nstore y : f32\n");
  for (Node& x : g.nodes) x.name = "relu";
  EXPECT_TRUE(structurally_equal(g, parse(print(g)))) << print(g);
}

TEST(Print, EffectsInTheirOrder) {
  Graph g = parse("probe(exp(acc))\nprobe(acc)\n", test::wild_functions());
  EXPECT_EQ(print(g), "probe(exp(acc))\nprobe(acc)\n");
  std::swap(g.effects[0], g.effects[1]);
  EXPECT_EQ(print(g), "probe(acc)\nprobe(exp(acc))\n");
}

TEST(Print, DeadValuesStay) {
  EXPECT_EQ(printed("h = exp(sin(acc))\nstore acc"), "h = exp(sin(acc))\nstore acc : f32\n");
}

TEST(Print, LongExpressionsAreCut) {
  std::string sum = "acc";
  for (int i = 0; i < 1000; ++i) sum += " + x" + std::to_string(i) + "[n]";
  std::string nest = "acc";
  for (int i = 0; i < 150; ++i) nest = "1 - (" + nest + ")";
  for (const auto& e : {sum, nest}) {
    const std::string text = printed("store " + e);
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      EXPECT_LT(end - at, 120u);
      at = end + 1;
    }
    EXPECT_TRUE(structurally_equal(parse(text), parse("store " + e)));
  }
}

TEST(Print, DeepGraphsNeedNoStack) {
  GraphBuilder g;
  Value x = g.acc();
  for (int i = 0; i < 50000; ++i) x = sin(x);
  g.store(x, DType::f32, "y");
  const Graph graph = g.build();
  EXPECT_TRUE(structurally_equal(graph, parse(print(graph))));
}

}  // namespace
}  // namespace unisono
