// What the text form accepts. Its error messages stand in tests/errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op_table.hpp"
#include "unisono/builder.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

const Node& stored(const Graph& g, std::size_t i = 0) { return g[g.stores.at(i).value]; }

bool equal(const std::string& x, const std::string& y) { return structurally_equal(parse(x), parse(y)); }

TEST(Parser, TheExampleOfTheDesign) {
  const Graph text = parse(R"(
h = acc + bias[n] + temb[b,n]                                   # broadcast by subscript
y = mish(group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5))
store y : bf16                                                  # the output D
store h : bf16                                                  # a second output of the same kernel
store sum(h, over=m) : f32                                      # a column reduction
)");
  GraphBuilder g;
  const auto h = (g.acc() + g.operand("bias", axes::n) + g.operand("temb", axes::bn)).named("h");
  const auto gamma = g.operand("gamma", axes::n), beta = g.operand("beta", axes::n);
  const auto y = mish(group_norm(h, {.groups = 32, .scale = gamma, .shift = beta, .eps = 1e-5})).named("y");
  g.store(y, DType::bf16);
  g.store(h, DType::bf16);
  g.store(sum(h, over_m), DType::f32);
  EXPECT_TRUE(structurally_equal(text, g.build()));
  EXPECT_EQ(text.stores[0].name, "y");
  EXPECT_EQ(text.stores[1].name, "h");
  EXPECT_EQ(text.stores[2].name, "out2");
}

TEST(Parser, LinesAndComments) {
  EXPECT_TRUE(equal("store acc", "\n\n # nothing\n\tstore acc # \xc3\xa9\r\n\r\n"));
  EXPECT_TRUE(equal("store max(acc, 1)", "store max(acc, # the first\n   1 # the second\n)"));
  EXPECT_TRUE(equal("store (acc + 1)", "store (acc\n+ 1)"));
  EXPECT_TRUE(equal("h = exp(acc)\nstore h", "h = exp(acc); store h;; # the end"));
  EXPECT_TRUE(equal("store acc + b[b,n]", "store acc + b[b,\nn]"));
  EXPECT_THROW(parse("store acc +\n1"), UserError);
  EXPECT_THROW(parse("store acc store acc"), UserError);
}

TEST(Parser, Precedence) {
  EXPECT_TRUE(equal("store acc - 1 - 2 * acc / 3", "store (acc - 1) - ((2 * acc) / 3)"));
  EXPECT_TRUE(equal("store acc < 1 & acc > 0 | acc == 3", "store ((acc < 1) & (acc > 0)) | (acc == 3)"));
  EXPECT_TRUE(equal("store -acc * 2", "store (-acc) * 2"));
  EXPECT_TRUE(equal("store !(acc < 1) & acc < 2", "store (!(acc < 1)) & (acc < 2)"));
  EXPECT_TRUE(equal("store acc + 1 < acc * 2", "store (acc + 1) < (acc * 2)"));
  EXPECT_FALSE(equal("store acc - (1 - 2)", "store acc - 1 - 2"));
}

TEST(Parser, MinusBeforeANumberIsPartOfTheNumber) {
  EXPECT_EQ(stored(parse("store -2")).op, Op::constant);
  EXPECT_EQ(stored(parse("store - inf")).attr.value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(stored(parse("store -(2)")).op, Op::neg);
  EXPECT_EQ(stored(parse("store --2")).op, Op::neg);
  EXPECT_TRUE(equal("store acc -2", "store acc - 2"));
  EXPECT_TRUE(equal("store acc*-2", "store acc * (-2)"));
}

TEST(Parser, NamesOfContextStayFree) {
  EXPECT_NO_THROW(
      parse("m = acc\nn = m + over[n]\nbf16 = cast(n, bf16)\nscale = layer_norm(bf16, scale=m)\nstore scale"));
  EXPECT_TRUE(equal("h = acc + 1\nstore sum(h, over=m, per=b)", "b = acc + 1\nstore sum(b, over=m, per=b)"));
}

TEST(Parser, AnOperandIsKnownByItsBareNameOnceItStood) {
  EXPECT_TRUE(equal("h = acc + bias[n]\nstore h * bias", "h = acc + bias[n]\nstore h * bias[n]"));
  EXPECT_TRUE(equal("store alpha[] * acc + alpha as y", "operand alpha\nstore alpha * acc + alpha[] as y"));
}

TEST(Parser, AliasesShareTheirValue) {
  const Graph g = parse("h = exp(acc)\ny = h\nstore y\nstore h");
  EXPECT_EQ(g.stores[0].value, g.stores[1].value);
  EXPECT_EQ(g.stores[0].name, "y");
  EXPECT_EQ(stored(g).name, "h");
  EXPECT_EQ(parse("half = 0.5\nstore acc * half as y").nodes.size(), 3u);
}

TEST(Parser, DtypesOfStores) {
  EXPECT_EQ(parse("store acc").stores[0].dtype, DType::f32);
  EXPECT_EQ(parse("store acc < 1").stores[0].dtype, DType::boolean);
  EXPECT_EQ(parse("store cast(acc, bf16)").stores[0].dtype, DType::bf16);
  EXPECT_EQ(parse("store acc as y : tf32").stores[0].dtype, DType::tf32);
}

TEST(Parser, NamesOfStores) {
  const auto name = [](const std::string& text) { return parse(text).stores[0].name; };
  EXPECT_EQ(name("store acc as y"), "y");
  EXPECT_EQ(name("store bias[n]"), "bias");
  EXPECT_EQ(name("store bias[n] + x[m]"), "out0");
  EXPECT_EQ(name("store bias[n] * (acc) + bias[n]"), "out0");
  EXPECT_EQ(name("store acc"), "out0");
  EXPECT_EQ(name("store (acc)"), "out0");
  EXPECT_EQ(name("store -inf"), "out0");
}

TEST(Parser, ArgumentsInAnyPlace) {
  EXPECT_TRUE(equal("store group_norm(acc, groups=4, eps=0, scale=g[n])",
                    "store group_norm(acc, scale=g[n], eps=0, groups=4)"));
  EXPECT_TRUE(equal("store clamp(acc, -1, 1)", "store clamp(acc, upper=1, lower=-1)"));
  EXPECT_TRUE(equal("store clamp(acc, -1, upper=1)", "store clamp(acc, -1, 1,)"));
  EXPECT_TRUE(equal("store sum(acc, groups=4, per=b, over=(n,m))", "store sum(acc, over=all, per=b, groups=4)"));
}

TEST(Parser, DefaultsAreThoseOfTheBuilder) {
  for (int i = 0; i < op_count; ++i) {
    const auto& row = ir::info(static_cast<Op>(i));
    for (const auto& p : row.parameters) {
      const std::string groups = row.op == Op::group_norm ? ", groups=1" : "";
      const Graph g = parse("store " + std::string(row.name) + "(acc" + groups + ")");
      EXPECT_EQ(stored(g).attr.*p.field, p.fallback) << row.name << " " << p.name;
    }
  }
}

TEST(Parser, UserFunctions) {
  const std::vector<UserFunction> functions{
      {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "x", .cpu = {}},
      {.name = "tick", .arity = 0, .returns_value = false, .cuda_source = "x", .cpu = {}}};
  const Graph g = parse("tick()\nstore warp(acc, index(h))\ntick()", functions);
  EXPECT_EQ(g.effects.size(), 2u);
  EXPECT_EQ(stored(g).attr.name, "warp");
  EXPECT_EQ(g.functions.size(), 2u);
  EXPECT_THROW(parse("tick = acc\nstore tick", functions), UserError);
  EXPECT_THROW(parse("store tick[n]", functions), UserError);
  EXPECT_THROW(parse("store acc", {functions[0], functions[0]}), UserError);
}

}  // namespace
}  // namespace unisono
