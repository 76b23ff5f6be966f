#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unisono/error.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/unary_cases.hpp"

namespace unisono::reference::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();
using testing::Each;
using testing::ElementsAre;

// One value and bound for each element of a column [m,n] with n = 1
Values apply(const std::function<Value(Value)>& f, std::vector<double> x, std::vector<double> bound = {}) {
  GraphBuilder g;
  g.store(f(g.acc()), DType::f64, "y");
  const Gemm shape{.m = std::ssize(x), .n = 1, .k = 1};
  return evaluate(g.build(), shape, {axes::mn, std::move(x), std::move(bound)}, {}).at("y");
}

double apply(const std::function<Value(Value)>& f, double x) { return apply(f, std::vector{x}).value[0]; }

// f(x, y) over acc and an operand x[m]
Values apply2(const std::function<Value(Value, Value)>& f, const std::vector<double>& x, const std::vector<double>& y,
              std::vector<double> bound = {}) {
  GraphBuilder g;
  g.store(f(g.acc(), g.operand("y", axes::m, OperandOptions{DType::f64, {}})), DType::f64, "z");
  const Gemm shape{.m = std::ssize(x), .n = 1, .k = 1};
  Arguments arguments;
  arguments.operands["y"] = view(y, {std::ssize(y)});
  return evaluate(g.build(), shape, {axes::mn, x, std::move(bound)}, arguments).at("z");
}

TEST(Unary, AgreesWithLongDouble) {
  std::vector<double> points{-700, -90, -40, -17.3, -6, -3, -1,   -0.7, -1e-3, -1e-9, 1e-9,
                             1e-3, 0.5, 1,   1.1,   3,  6,  17.3, 40,   90,    700};
  for (const float x : random_floats(200, 1, -8, 8)) points.push_back(x);
  for (const auto& c : unary_cases()) {
    const auto y = apply(c.graph, points).value;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const long double expected = c.formula(points[i]);
      SCOPED_TRACE(c.name + " of " + std::to_string(points[i]));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i]));
      } else if (std::isinf(expected)) {
        EXPECT_EQ(y[i], expected);
      } else {
        // the condition of an exponential is its argument: |x|, and for gelu up to |x|³
        const long double reach = std::abs(static_cast<long double>(points[i]));
        const long double argument = c.name.starts_with("gelu") ? reach + reach * reach * reach / 4 : reach;
        const long double slack = std::abs(expected) * (4 + argument) * 0x1p-52L;
        const long double cancelled = c.name == "hardsigmoid" ? 1e-15L : 1e-320L;  // 0.2·x + 0.4 near its zero
        EXPECT_LE(std::abs(y[i] - expected), slack + cancelled) << y[i] << " " << static_cast<double>(expected);
      }
    }
  }
}

TEST(Unary, ZeroOneAndTheEndsOfTheLine) {
  const auto at = [](const char* name, double x) {
    for (const auto& c : unary_cases())
      if (c.name == name) return apply(c.graph, x);
    throw std::logic_error(name);
  };
  EXPECT_EQ(at("relu", -0.0), 0);
  EXPECT_EQ(at("relu", inf), inf);
  EXPECT_EQ(at("sigmoid", 1000), 1);
  EXPECT_EQ(at("sigmoid", -1000), 0);
  EXPECT_EQ(at("sigmoid", 0), 0.5);
  EXPECT_EQ(at("softplus", 1e300), 1e300);
  EXPECT_EQ(at("softplus", -inf), 0);
  EXPECT_EQ(at("logsigmoid", -1e300), -1e300);
  EXPECT_EQ(at("logsigmoid", inf), 0);
  EXPECT_EQ(at("mish", 1e300), 1e300);
  EXPECT_EQ(at("silu", 1e300), 1e300);
  EXPECT_EQ(at("gelu", 1e300), 1e300);
  EXPECT_EQ(at("gelu_tanh", 1e100), 1e100);
  EXPECT_EQ(at("hardswish", -3), 0);
  EXPECT_EQ(at("elu", -inf), -1.3);
  EXPECT_EQ(at("log", 0), -inf);
  EXPECT_EQ(at("rsqrt", 0), inf);
  EXPECT_EQ(at("reciprocal", -0.0), -inf);
  EXPECT_NEAR(at("softplus", -100), std::exp(-100), 1e-58);
  EXPECT_NEAR(at("log1p", 1e-20), 1e-20, 1e-35);
  EXPECT_NEAR(at("gelu", -10), -10 * 7.61985302416052606597e-24, 1e-36);  // Φ(−10), tables
}

TEST(Unary, NaNStaysNaN) {
  for (const auto& c : unary_cases()) {
    const auto y = apply(c.graph, std::vector{nan});
    EXPECT_TRUE(std::isnan(y.value[0])) << c.name;
    EXPECT_EQ(y.bound[0], 0) << c.name;
  }
}

TEST(Binary, Values) {
  const std::vector<double> x{3, -2, 0.5, 1e10}, y{2, 3, -0.25, 1e-10};
  EXPECT_THAT(apply2([](Value a, Value b) { return a + b; }, x, y).value, ElementsAre(5, 1, 0.25, 1e10 + 1e-10));
  EXPECT_THAT(apply2([](Value a, Value b) { return a - b; }, x, y).value, ElementsAre(1, -5, 0.75, 1e10 - 1e-10));
  EXPECT_THAT(apply2([](Value a, Value b) { return a * b; }, x, y).value, ElementsAre(6, -6, -0.125, 1e10 * 1e-10));
  EXPECT_THAT(apply2([](Value a, Value b) { return a / b; }, x, y).value, ElementsAre(1.5, -2 / 3.0, -2, 1e20));
  EXPECT_THAT(apply2([](Value a, Value b) { return min(a, b); }, x, y).value, ElementsAre(2, -2, -0.25, 1e-10));
  EXPECT_THAT(apply2([](Value a, Value b) { return max(a, b); }, x, y).value, ElementsAre(3, 3, 0.5, 1e10));
  EXPECT_THAT(apply2([](Value a, Value b) { return pow(a, b); }, x, y).value,
              ElementsAre(9, -8, testing::DoubleEq(std::sqrt(std::sqrt(2))), testing::DoubleEq(std::pow(1e10, 1e-10))));
  EXPECT_THAT(apply2([](Value a, Value b) { return fma(a, b, a); }, x, y).value,
              ElementsAre(9, -8, 0.375, std::fma(1e10, 1e-10, 1e10)));
}

TEST(Binary, SpecialValues) {
  const auto one = [](auto f, double x, double y) { return apply2(f, {x}, {y}).value[0]; };
  const auto minimum = [](Value a, Value b) { return min(a, b); };
  const auto maximum = [](Value a, Value b) { return max(a, b); };
  const auto power = [](Value a, Value b) { return pow(a, b); };
  EXPECT_TRUE(std::isnan(one(minimum, nan, 1)));
  EXPECT_TRUE(std::isnan(one(minimum, 1, nan)));
  EXPECT_TRUE(std::isnan(one(maximum, nan, inf)));
  EXPECT_TRUE(std::isnan(one(maximum, -inf, nan)));
  EXPECT_EQ(one(maximum, -inf, 3), 3);
  EXPECT_EQ(one([](Value a, Value b) { return a / b; }, 1, 0), inf);
  EXPECT_EQ(one([](Value a, Value b) { return a / b; }, -1, 0), -inf);
  EXPECT_TRUE(std::isnan(one([](Value a, Value b) { return a / b; }, 0, 0)));
  EXPECT_TRUE(std::isnan(one([](Value a, Value b) { return a - b; }, inf, inf)));
  EXPECT_EQ(one(power, nan, 0), 1);
  EXPECT_EQ(one(power, 0, 0), 1);
  EXPECT_EQ(one(power, 0, -1), inf);
  EXPECT_TRUE(std::isnan(one(power, -2, 0.5)));
  EXPECT_EQ(one(power, -2, -3), -0.125);
}

TEST(Comparison, AllSixWithNaN) {
  const std::vector<double> x{1, 2, 3, nan, nan, inf}, y{2, 2, 2, 1, nan, inf};
  const auto compared = [&](auto f) {
    return apply2([&](Value a, Value b) { return cast(f(a, b), DType::f32); }, x, y);
  };
  EXPECT_THAT(compared([](Value a, Value b) { return a < b; }).value, ElementsAre(1, 0, 0, 0, 0, 0));
  EXPECT_THAT(compared([](Value a, Value b) { return a <= b; }).value, ElementsAre(1, 1, 0, 0, 0, 1));
  EXPECT_THAT(compared([](Value a, Value b) { return a > b; }).value, ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_THAT(compared([](Value a, Value b) { return a >= b; }).value, ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(compared([](Value a, Value b) { return a == b; }).value, ElementsAre(0, 1, 0, 0, 0, 1));
  const auto unequal = compared([](Value a, Value b) { return a != b; });
  EXPECT_THAT(unequal.value, ElementsAre(1, 0, 1, 1, 1, 0));
  EXPECT_THAT(unequal.bound, Each(0));
}

TEST(Logic, TruthTables) {
  const std::vector<double> x{0, 0, 1, 1}, y{0, 1, 0, 1};
  const auto table = [&](auto f) {
    return apply2([&](Value a, Value b) { return cast(f(a != 0, b != 0), DType::f32); }, x, y).value;
  };
  EXPECT_THAT(table([](Value a, Value b) { return logical_and(a, b); }), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(table([](Value a, Value b) { return logical_or(a, b); }), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(table([](Value a, Value b) { return select(a, logical_not(b), b); }), ElementsAre(0, 1, 1, 0));
}

TEST(Cast, RoundsOnceAndSaturates) {
  const auto as = [](DType t, double x) { return apply([t](Value v) { return cast(cast(v, t), DType::f64); }, x); };
  EXPECT_EQ(as(DType::bf16, 1.00390625), 1);  // a tie goes to even
  EXPECT_EQ(as(DType::bf16, 1.01171875), 1.015625);
  EXPECT_EQ(as(DType::f16, 65519), 65504);
  EXPECT_EQ(as(DType::f16, 65520), inf);
  EXPECT_EQ(as(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(as(DType::tf32, 1 + 0x1p-11), 1 + 0x1p-10);  // ties away from zero
  EXPECT_EQ(as(DType::i32, -2.9), -2);
  EXPECT_EQ(as(DType::i32, 1e12), 2147483647);
  EXPECT_EQ(as(DType::i32, nan), 0);
  EXPECT_EQ(as(DType::boolean, 0.25), 1);
  EXPECT_EQ(as(DType::boolean, -0.0), 0);
}

TEST(ShortTypes, RoundAfterEachNode) {
  // 1 + 2^-8 ties down to 1 in bf16; in f32 the two small terms would add up
  const auto y = apply(
      [](Value x) {
        return cast(x, DType::bf16) + cast(x * 0 + 0x1p-8, DType::bf16) + cast(x * 0 + 0x1p-8, DType::bf16);
      },
      1.0);
  EXPECT_EQ(y, 1);
  const auto z = apply([](Value x) { return x + 0x1p-8 + 0x1p-8; }, 1.0);
  EXPECT_EQ(z, 1 + 0x1p-7);
}

TEST(Integer, WrapsAround) {
  const auto on = [](auto f, double x, double y) {
    return apply2([&](Value a, Value b) { return cast(f(cast(a, DType::i32), cast(b, DType::i32)), DType::f64); }, {x},
                  {y});
  };
  const double most = 2147483647;
  EXPECT_EQ(on([](Value a, Value b) { return a + b; }, most, 1).value[0], -most - 1);
  EXPECT_EQ(on([](Value a, Value b) { return a - b; }, -most, 2).value[0], most);
  EXPECT_EQ(on([](Value a, Value b) { return a * b; }, 65537, 65537).value[0], 131073);  // 2^32 + 2·2^16 + 1
  EXPECT_EQ(on([](Value a, Value b) { return fma(a, b, a); }, most, most).value[0],
            static_cast<double>(static_cast<std::int32_t>(1u + 2147483647u)));
  EXPECT_EQ(on([](Value a, Value b) { return -a + b * 0; }, -most - 1, 0).value[0], -most - 1);
  EXPECT_EQ(on([](Value a, Value b) { return abs(a) + b * 0; }, -most - 1, 0).value[0], -most - 1);
  EXPECT_EQ(on([](Value a, Value b) { return max(relu(a), b); }, -7, -3).value[0], 0);
  EXPECT_EQ(on([](Value a, Value b) { return min(a, b); }, -7, -3).value[0], -7);
  EXPECT_EQ(on([](Value a, Value b) { return a / b; }, 7, 2).value[0], 3.5);  // division is of floats
  EXPECT_EQ(on([](Value a, Value b) { return a + b; }, 5, 6).bound[0], 0);
}

TEST(OneHot, ColumnsOfALabel) {
  GraphBuilder g;
  g.store(one_hot(g.operand("label", axes::m)), DType::f32, "y");
  const std::vector<float> label{2, 0, -1, 3, 1.5f, std::numeric_limits<float>::quiet_NaN()};
  Arguments arguments;
  arguments.operands["label"] = view(label, {6});
  const Gemm shape{.m = 6, .n = 3, .k = 1};
  const auto y = evaluate(g.build(), shape, {axes::mn, std::vector<double>(18), {}}, arguments).at("y");
  EXPECT_THAT(y.value, ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(y.bound, Each(0));
}

}  // namespace
}  // namespace unisono::reference::test
