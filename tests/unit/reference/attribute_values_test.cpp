// An attribute that is a value gives what the same number gives: NaN, infinities and zeros included, in every dtype.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/attribute_values.hpp"
#include "ir/op_table.hpp"
#include "unit/reference/data.hpp"

namespace unisono::reference::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const std::vector<double> points{-inf, -1e30, -88, -6.5, -1.5, -0.25, -1e-6, -0.0, 0,
                                 1e-6, 0.25,  1,   1.5,  6.5,  88,    1e30,  inf,  std::nan("")};
const std::vector<std::vector<double>> settings{{0.25, 1.5}, {-2, 0}, {0, 0.5}, {1, 1}, {-0.375, 3}};

// The stored result of `op` with these attributes, once as numbers and once as scalar operands
std::pair<Values, Values> both(Op op, DType type, const std::vector<double>& given) {
  GraphBuilder g;
  const Value x = cast(g.acc(), type);
  std::vector<NumberOrValue> numbers, values;
  Arguments arguments;
  for (std::size_t i = 0; i < ir::info(op).parameters.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    numbers.emplace_back(given[i]), values.emplace_back(g.operand(name));
    arguments.scalars[name] = given[i];
  }
  g.store(ir::with_attributes(op, x, numbers), DType::f64, "numbers");
  g.store(ir::with_attributes(op, x, values), DType::f64, "values");
  const Gemm shape{.m = std::ssize(points), .n = 1, .k = 1};
  const auto found = evaluate(g.build(), shape, {axes::mn, points, std::vector<double>(points.size())}, arguments);
  return {found.at("numbers"), found.at("values")};
}

bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

TEST(AttributeValues, GiveWhatNumbersGive) {
  int tested = 0;
  for (int i = 0; i < op_count; ++i) {
    const auto op = static_cast<Op>(i);
    if (!ir::is_elementwise(op) || ir::info(op).parameters.empty()) continue;
    for (const DType type : {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::i32, DType::boolean})
      for (const auto& given : settings) {
        const auto [numbers, values] = both(op, type, given);
        for (std::size_t j = 0; j < points.size(); ++j, ++tested) {
          EXPECT_TRUE(same(numbers.value[j], values.value[j]))
              << to_string(op) << " in " << to_string(type) << " of " << points[j] << ": " << numbers.value[j]
              << " and " << values.value[j];
          // nothing is claimed of what was claimed before, and nothing much wider
          EXPECT_EQ(std::isinf(numbers.bound[j]), std::isinf(values.bound[j])) << to_string(op) << " " << points[j];
        }
      }
  }
  EXPECT_GT(tested, 2000);
}

// What a number may not be: limits in the wrong order, values that are not finite
TEST(AttributeValues, BeyondTheRangesOfNumbers) {
  GraphBuilder g;
  g.store(clamp(g.acc(), g.operand("lower"), g.operand("upper")), DType::f64, "y");
  const auto limited = [&](double x, double lower, double upper) {
    Arguments arguments;
    arguments.scalars = {{"lower", lower}, {"upper", upper}};
    return evaluate(g.build(), Gemm{.m = 1, .n = 1, .k = 1}, {axes::mn, {x}, {0}}, arguments).at("y").value[0];
  };
  for (const double x : {-5.0, 0.5, 5.0}) EXPECT_EQ(limited(x, 2, 1), 1) << "the upper limit holds";
  EXPECT_TRUE(std::isnan(limited(3, std::nan(""), 1)));
  EXPECT_TRUE(std::isnan(limited(3, 0, std::nan(""))));
  EXPECT_EQ(limited(3, -inf, inf), 3);
}

}  // namespace
}  // namespace unisono::reference::test
