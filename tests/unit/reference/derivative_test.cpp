// Derivatives of all elementwise operations against central differences of the float64 reference.

#include "ir/derivative.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/op_table.hpp"
#include "unisono/error.hpp"
#include "unit/reference/data.hpp"

namespace unisono::reference::test {
namespace {

using Column = std::vector<double>;

// Away from the kinks of all operations, and x from y
const Column points_x{-6.7, -3.7, -2.2, -1.3, -0.6, -0.2, 0.3, 0.45, 0.9, 1.7, 2.6, 4.1, 6.9};
const Column points_y{0.4, -1.1, 2.3, -0.7, 1.6, 0.9, -2.4, 1.2, 0.5, -1.4, 3.1, 0.7, -0.8};
const Column points_z{1.5, -0.4, 0.8, 2.2, -1.9, 0.3, 1.1, -2.7, 0.6, 0.2, -0.5, 1.8, -1.2};
const Column weights{1, -2, 0.5, 1.5, -0.75, 2, 1, 3, -1, 0.25, 1, -0.5, 2};

Attributes attributes_of(Op op) {
  Attributes attr;
  double value = 0.35;
  for (const ir::Parameter& p : ir::info(op).parameters) attr.*p.field = std::exchange(value, 0.8);
  return attr;
}

struct Case {
  GraphBuilder g;
  std::vector<Value> in;
  std::optional<Value> result;

  explicit Case(Op op) {
    for (int i = 0; i < ir::info(op).arity; ++i)
      in.push_back(g.operand(std::string(1, "xyz"[i]), axes::m, {.storage = DType::f64, .default_value = {}}));
    const bool logical = ir::info(op).op_class == ir::OpClass::logical;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (logical || (op == Op::select && i == 0)) in[i] = in[i] > 0;
    result = g.node(op, in, attributes_of(op), op == Op::cast ? std::optional(DType::f64) : std::nullopt);
  }
};

std::map<std::string, Values> run(const Graph& graph, const std::vector<Column>& columns) {
  const Gemm shape{.m = std::ssize(points_x), .n = 1, .k = 1};
  Arguments arguments;
  const std::vector<std::int64_t> extents{shape.m};
  for (std::size_t i = 0; i < 3; ++i) arguments.operands[std::string(1, "xyz"[i])] = view(columns[i], extents);
  arguments.operands["g"] = view(weights, extents);
  return evaluate(graph, shape, exact(std::vector<float>(points_x.size())), arguments);
}

Column values_at(Op op, const std::vector<Column>& columns) {
  Case c(op);
  c.g.store(*c.result, DType::f64, "r");
  return run(c.g.build(), columns).at("r").value;
}

Column shifted(Column x, double by) {
  for (double& v : x) v += by;
  return x;
}

// Elements that were compared
int check(Op op, std::size_t input, const Column& gradient) {
  constexpr double h = 1e-5;
  std::vector<Column> above{points_x, points_y, points_z}, below = above;
  above[input] = shifted(above[input], h), below[input] = shifted(below[input], -h);
  const Column high = values_at(op, above), low = values_at(op, below);
  int compared = 0;
  for (std::size_t i = 0; i < high.size(); ++i) {
    if (!std::isfinite(high[i]) || !std::isfinite(low[i])) continue;  // outside the domain
    const double expected = weights[i] * (high[i] - low[i]) / (2 * h);
    EXPECT_NEAR(gradient[i], expected, 1e-7 * (1 + std::abs(expected)))
        << to_string(op) << ", input " << input << " of (" << points_x[i] << ", " << points_y[i] << ")";
    ++compared;
  }
  return compared;
}

void check(Op op) {
  Case c(op);
  const Value g = c.g.operand("g", axes::m, {.storage = DType::f64, .default_value = {}});
  const auto gradients = ir::derivative(*c.result, g);
  ASSERT_EQ(gradients.size(), c.in.size()) << to_string(op);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const bool constant = c.result->dtype() == DType::boolean || c.in[i].dtype() == DType::boolean || op == Op::one_hot;
    ASSERT_EQ(gradients[i].has_value(), !constant) << to_string(op) << ", input " << i;
    if (constant) continue;
    GraphBuilder& builder = c.g;
    builder.store(*gradients[i], DType::f64, "d" + std::to_string(i));
  }
  if (c.result->dtype() == DType::boolean || op == Op::one_hot) return;
  const auto found = run(c.g.build(), {points_x, points_y, points_z});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i]) {
      EXPECT_GE(check(op, i, found.at("d" + std::to_string(i)).value), 3) << to_string(op);
    }
}

TEST(Derivative, EveryElementwiseOperationAgreesWithDifferences) {
  for (int i = 0; i < op_count; ++i)
    if (const Op op = static_cast<Op>(i); ir::is_elementwise(op)) check(op);
}

TEST(Derivative, IsThatOfTheSameAttributes) {
  GraphBuilder g;
  const Value x = g.operand("x", axes::m), r = leaky_relu(x, 0.25);
  g.store(*ir::derivative(r, g.operand("g", axes::m))[0], DType::f32, "d");
  const auto d = run(g.build(), {points_x, points_y, points_z}).at("d").value;
  for (std::size_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], points_x[i] > 0 ? weights[i] : 0.25 * weights[i]);
}

TEST(Derivative, IntegersHaveNone) {
  GraphBuilder g;
  const Value k = g.operand("k", axes::m, {.storage = DType::i32, .default_value = {}});
  EXPECT_FALSE(ir::derivative(k * k, g.acc())[0]);
  EXPECT_TRUE(ir::derivative(k * g.acc(), g.acc())[1]);
}

TEST(Derivative, RefusesWhatIsNotElementwise) {
  GraphBuilder g;
  g.define({.name = "warp", .arity = 1, .returns_value = true, .cuda_source = "x", .cpu = {}});
  for (const Value& v :
       {softmax(g.acc()), mean(g.acc()), group_norm(g.acc(), {.groups = 2}), *g.call("warp", {g.acc()}), g.acc()})
    EXPECT_THROW(ir::derivative(v, g.acc()), Unsupported) << to_string(v.node().op);
}

}  // namespace
}  // namespace unisono::reference::test
