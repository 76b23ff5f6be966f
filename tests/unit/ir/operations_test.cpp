// The builder expresses everything the text form can: every operation of the table, built both ways, is the same graph.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "ir/op_table.hpp"
#include "unisono/builder.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

struct TwoWays {
  Op op;
  std::string text;
  std::function<Value(GraphBuilder&)> build;
};

UserFunction warp() {
  return {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "float warp(float x, float y);"};
}

Value acc(GraphBuilder& g) { return g.acc(); }
Value scale(GraphBuilder& g) { return g.operand("gamma", axes::n); }
Value shift(GraphBuilder& g) { return g.operand("beta", axes::n); }

#define BOTH_WAYS(OP, TEXT, EXPRESSION)                               \
  TwoWays {                                                           \
    Op::OP, TEXT, [](GraphBuilder& g) -> Value { return EXPRESSION; } \
  }
#define UNARY(OP) BOTH_WAYS(OP, #OP "(acc)", OP(acc(g)))

const std::vector<TwoWays>& all() {
  static const std::vector<TwoWays> rows{
      BOTH_WAYS(acc, "acc", g.acc()),
      BOTH_WAYS(operand, "bias[n]", g.operand("bias", axes::n)),
      BOTH_WAYS(operand, "c[m,n]", g.operand("c", axes::mn)),
      BOTH_WAYS(operand, "temb[b,n]", g.operand("temb", axes::bn)),
      BOTH_WAYS(operand, "x[m]", g.operand("x", axes::m)),
      BOTH_WAYS(operand, "per_image[b]", g.operand("per_image", axes::b)),
      BOTH_WAYS(operand, "alpha[]", g.operand("alpha")),
      BOTH_WAYS(constant, "1e-5", g.constant(1e-5)),
      BOTH_WAYS(index, "index(m)", g.index(Coordinate::m)),
      BOTH_WAYS(index, "index(n)", g.index(Coordinate::n)),
      BOTH_WAYS(index, "index(b)", g.index(Coordinate::b)),
      BOTH_WAYS(index, "index(h)", g.index(Coordinate::h)),
      BOTH_WAYS(index, "index(w)", g.index(Coordinate::w)),
      BOTH_WAYS(extent, "extent(w)", g.extent(Coordinate::w)),
      BOTH_WAYS(add, "acc + 2", acc(g) + 2),
      BOTH_WAYS(sub, "2 - acc", 2 - acc(g)),
      BOTH_WAYS(mul, "acc * acc", acc(g) * acc(g)),
      BOTH_WAYS(div, "acc / 3.5", acc(g) / 3.5),
      BOTH_WAYS(min, "min(acc, 0)", min(acc(g), 0)),
      BOTH_WAYS(max, "max(0, acc)", max(0, acc(g))),
      BOTH_WAYS(pow, "pow(acc, 3)", pow(acc(g), 3)),
      BOTH_WAYS(less, "acc < 1", acc(g) < 1),
      BOTH_WAYS(less_equal, "acc <= 1", acc(g) <= 1),
      BOTH_WAYS(greater, "acc > 1", acc(g) > 1),
      BOTH_WAYS(greater_equal, "acc >= 1", acc(g) >= 1),
      BOTH_WAYS(equal, "acc == 1", acc(g) == 1),
      BOTH_WAYS(not_equal, "acc != 1", acc(g) != 1),
      BOTH_WAYS(logical_and, "acc < 1 & acc > 0", logical_and(acc(g) < 1, acc(g) > 0)),
      BOTH_WAYS(logical_or, "acc < 1 | acc > 0", logical_or(acc(g) < 1, acc(g) > 0)),
      BOTH_WAYS(fma, "fma(acc, acc, gamma[n])", fma(acc(g), acc(g), scale(g))),
      BOTH_WAYS(select, "select(acc < 1, acc, gamma[n])", select(acc(g) < 1, acc(g), scale(g))),
      BOTH_WAYS(logical_not, "!(acc < 1)", logical_not(acc(g) < 1)),
      BOTH_WAYS(neg, "-acc", -acc(g)),
#define UNISONO_FUNCTION(NAME, ...) UNARY(NAME),
#define UNISONO_FUNCTION_1(NAME, ...) UNARY(NAME),
#define UNISONO_FUNCTION_2(NAME, ...) UNARY(NAME),
#include "unisono/operations.def"
      BOTH_WAYS(leaky_relu, "leaky_relu(acc, slope=0.2)", leaky_relu(acc(g), 0.2)),
      BOTH_WAYS(leaky_relu, "leaky_relu(acc, -0.2)", leaky_relu(acc(g), -0.2)),
      BOTH_WAYS(elu, "elu(acc, alpha=0.5)", elu(acc(g), 0.5)),
      BOTH_WAYS(hardsigmoid, "hardsigmoid(acc, alpha=0.2)", hardsigmoid(acc(g), 0.2)),
      BOTH_WAYS(hardsigmoid, "hardsigmoid(acc, 0.2, beta=0.4)", hardsigmoid(acc(g), 0.2, 0.4)),
      BOTH_WAYS(clamp, "clamp(acc, -1, 6)", clamp(acc(g), -1, 6)),
      BOTH_WAYS(clamp, "clamp(acc, lower=-1, upper=6)", clamp(acc(g), -1, 6)),
      BOTH_WAYS(clamp, "clamp(acc, lower=0)", clamp(acc(g), 0, std::numeric_limits<double>::infinity())),
      BOTH_WAYS(cast, "cast(acc, bf16)", cast(acc(g), DType::bf16)),
      BOTH_WAYS(cast, "cast(acc, bool)", cast(acc(g), DType::boolean)),
      BOTH_WAYS(one_hot, "one_hot(label[m])", one_hot(g.operand("label", axes::m))),
      BOTH_WAYS(sum, "sum(acc)", sum(acc(g))),
      BOTH_WAYS(sum, "sum(acc, over=m)", sum(acc(g), over_m)),
      BOTH_WAYS(sum, "sum(acc, over=(n,m))", sum(acc(g), over_all)),
      BOTH_WAYS(mean, "mean(acc, over=(m,n), per=b, groups=32)",
                mean(acc(g), {.rows = true, .cols = true, .per_image = true, .groups = 32})),
      BOTH_WAYS(reduce_max, "max(acc, over=n)", reduce_max(acc(g), over_n)),
      BOTH_WAYS(reduce_max, "max(acc)", reduce_max(acc(g))),
      BOTH_WAYS(reduce_min, "min(acc, over=m, per=b)", reduce_min(acc(g), per_image_over_m)),
      BOTH_WAYS(sum_squares, "sum_squares(acc, over=all)", sum_squares(acc(g))),
      BOTH_WAYS(variance, "variance(acc, over=all, per=b)", variance(acc(g), per_image_over_all)),
      BOTH_WAYS(group_norm, "group_norm(acc, groups=32, scale=gamma[n], shift=beta[n], eps=1e-6)",
                group_norm(acc(g), {.groups = 32, .scale = scale(g), .shift = shift(g), .eps = 1e-6})),
      BOTH_WAYS(group_norm, "group_norm(acc, groups=1)", group_norm(acc(g), {})),
      BOTH_WAYS(group_norm, "group_norm(acc, shift=beta[n], groups=4)",
                group_norm(acc(g), {.groups = 4, .scale = {}, .shift = shift(g)})),
      BOTH_WAYS(instance_norm, "instance_norm(acc)", instance_norm(acc(g))),
      BOTH_WAYS(layer_norm, "layer_norm(acc, eps=0)", layer_norm(acc(g), {.scale = {}, .shift = {}, .eps = 0})),
      BOTH_WAYS(rms_norm, "rms_norm(acc, scale=gamma[n])", rms_norm(acc(g), {.scale = scale(g), .shift = {}})),
      BOTH_WAYS(batch_norm, "batch_norm(acc, scale=gamma[n], shift=beta[n])",
                batch_norm(acc(g), {.scale = scale(g), .shift = shift(g)})),
      BOTH_WAYS(softmax, "softmax(acc)", softmax(acc(g))),
      BOTH_WAYS(softmax, "softmax(acc, over=n, groups=4)", softmax(acc(g), {.cols = true, .groups = 4})),
      BOTH_WAYS(softmax, "softmax(acc, over=(m,n), per=b)", softmax(acc(g), per_image_over_all)),
      BOTH_WAYS(call, "warp(acc, 2)", *g.call("warp", {acc(g), g.constant(2)})),
      BOTH_WAYS(acc1, "acc1", g.acc(1)),
  };
  return rows;
}

Graph built(const TwoWays& row) {
  GraphBuilder g;
  g.define(warp());
  const Value v = row.build(g);
  g.store(v, v.dtype(), "y");
  return g.build();
}

TEST(Operations, BuilderAndTextAgree) {
  for (const TwoWays& row : all()) {
    const Graph g = built(row);
    EXPECT_EQ(g[g.stores[0].value].op, row.op) << row.text;
    EXPECT_TRUE(structurally_equal(g, parse("store " + row.text + " as y", {warp()}))) << row.text << "\n" << print(g);
  }
}

TEST(Operations, TheListHasEveryOperation) {
  std::set<Op> listed;
  for (const TwoWays& row : all()) listed.insert(row.op);
  for (int i = 0; i < op_count; ++i) EXPECT_TRUE(listed.contains(static_cast<Op>(i))) << to_string(static_cast<Op>(i));
}

TEST(Operations, SymbolsAreShortForFunctions) {
  const std::map<std::string, std::string> pairs{
      {"acc + 1", "add(acc, 1)"},
      {"acc - 1", "sub(acc, 1)"},
      {"acc * 2", "mul(acc, 2)"},
      {"acc / 2", "div(acc, 2)"},
      {"acc < 1", "less(acc, 1)"},
      {"acc <= 1", "less_equal(acc, 1)"},
      {"acc > 1", "greater(acc, 1)"},
      {"acc >= 1", "greater_equal(acc, 1)"},
      {"acc == 1", "equal(acc, 1)"},
      {"acc != 1", "not_equal(acc, 1)"},
      {"!(acc < 1)", "logical_not(acc < 1)"},
      {"-acc", "neg(acc)"},
      {"acc < 1 & acc > 0", "logical_and(acc < 1, acc > 0)"},
      {"acc < 1 | acc > 0", "logical_or(acc < 1, acc > 0)"},
  };
  std::set<std::string_view> symbols;
  for (const auto& [symbol, function] : pairs) {
    const Graph g = parse("store " + symbol);
    EXPECT_TRUE(structurally_equal(g, parse("store " + function))) << symbol;
    symbols.insert(ir::info(g[g.stores[0].value].op).symbol);
  }
  for (int i = 0; i < op_count; ++i) {
    const auto& row = ir::info(static_cast<Op>(i));
    if (!row.symbol.empty()) {
      EXPECT_TRUE(symbols.contains(row.symbol)) << row.name;
    }
  }
}

TEST(Operations, DeclaredOperands) {
  const Graph text = parse(
      "operand alpha : f16 = 0.5\n"
      "operand bias[n] : bf16\n"
      "operand gate = inf\n"
      "store acc * alpha + bias[n] * gate as y : bf16\n");
  GraphBuilder g;
  const auto alpha = g.operand("alpha", axes::scalar, {.storage = DType::f16, .default_value = 0.5});
  const auto bias = g.operand("bias", axes::n, {.storage = DType::bf16, .default_value = {}});
  const auto gate = g.operand("gate", {}, {.storage = {}, .default_value = std::numeric_limits<double>::infinity()});
  g.store(g.acc() * alpha + bias * gate, DType::bf16, "y");
  EXPECT_TRUE(structurally_equal(text, g.build()));
}

TEST(Operations, EffectsInOrder) {
  const UserFunction probe{.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}};
  const Graph text = parse("h = acc + 1\nprobe(h)\nprobe(acc)\n", {probe});
  GraphBuilder g;
  g.define(probe);
  EXPECT_FALSE(g.call("probe", {g.acc() + 1}));
  EXPECT_FALSE(g.call("probe", {g.acc()}));
  EXPECT_EQ(text.effects.size(), 2u);
  EXPECT_TRUE(structurally_equal(text, g.build()));
  EXPECT_FALSE(structurally_equal(text, parse("probe(acc)\nh = acc + 1\nprobe(h)\n", {probe})));
}

}  // namespace
}  // namespace unisono
