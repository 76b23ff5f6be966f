/// The bounds hold for plain f32 code on inputs anywhere in their intervals, and are not loose by orders of magnitude.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unisono/text.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/unary_cases.hpp"

namespace unisono::reference::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Values evaluate_column(const Graph& g, const std::vector<double>& x, const std::vector<double>& bound,
                       const Arguments& arguments = {}) {
  return evaluate(g, Gemm{.m = std::ssize(x), .n = 1, .k = 1}, {axes::mn, x, bound}, arguments).at("y");
}

// Centres and radii of intervals, and a float inside each
struct Inputs {
  std::vector<double> centre, radius;
  std::vector<float> actual;
};

Inputs random_inputs(std::size_t count, unsigned seed, float reach) {
  Inputs in;
  const auto centre = random_floats(count, seed, -reach, reach), where = random_floats(count, seed + 1);
  const double radii[] = {0, 1e-7, 1e-5, 1e-3, 0.1, 2};
  for (std::size_t i = 0; i < count; ++i) {
    const double r = radii[i % 6];
    in.centre.push_back(centre[i]);
    // an end of the interval for one in three
    const double at = i % 3 == 0 ? (where[i] < 0 ? -1 : 1) : where[i];
    in.actual.push_back(r == 0 ? centre[i] : static_cast<float>(centre[i] + at * r));
    const double off = std::abs(in.actual.back() - centre[i]);
    in.radius.push_back(r == 0 ? 0 : std::max(r, off * (1 + 1e-12)));
  }
  return in;
}

bool within(double actual, double expected, double bound) {
  if (bound == inf) return true;
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected || std::abs(actual - expected) <= bound;
}

TEST(Bounds, UnaryOperationsHold) {
  for (const auto& c : unary_cases()) {
    GraphBuilder g;
    g.store(c.graph(g.acc()), DType::f32, "y");
    const Graph graph = g.build();
    for (const float reach : {0.01f, 1.f, 5.f, 40.f, 120.f}) {
      const Inputs in = random_inputs(6000, 7, reach);
      const Values y = evaluate_column(graph, in.centre, in.radius);
      int failures = 0;
      for (std::size_t i = 0; i < in.actual.size() && failures < 5; ++i) {
        const double actual = c.single(in.actual[i]);
        if (within(actual, y.value[i], y.bound[i])) continue;
        ++failures;
        ADD_FAILURE() << c.name << " at " << in.centre[i] << " +- " << in.radius[i] << ", f32 at " << in.actual[i]
                      << " gave " << actual << ", expected " << y.value[i] << " +- " << y.bound[i];
      }
    }
  }
}

// Bound over the largest actual deviation: of values for exact inputs, of slopes for inexact ones
TEST(Bounds, UnaryOperationsAreTight) {
  for (const auto& c : unary_cases()) {
    GraphBuilder g;
    g.store(c.graph(g.acc()), DType::f32, "y");
    const Graph graph = g.build();
    const auto x = random_floats(2000, 3, -4, 4);
    std::vector<double> exact_ratio, slope_ratio;
    const std::vector<double> centre(x.begin(), x.end());
    const Values y = evaluate_column(graph, centre, std::vector<double>(x.size(), 0));
    const double e = 1e-3;
    const Values z = evaluate_column(graph, centre, std::vector<double>(x.size(), e));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(c.single(x[i]) - y.value[i]);
      if (error > 0 && y.bound[i] < inf) exact_ratio.push_back(y.bound[i] / error);
      const auto f = [&](double t) { return static_cast<double>(c.formula(t)); };
      const double spread = std::max(std::abs(f(x[i] + e) - f(x[i])), std::abs(f(x[i] - e) - f(x[i])));
      if (spread > 0 && z.bound[i] < inf) slope_ratio.push_back(z.bound[i] / spread);
    }
    const auto median = [](std::vector<double> v) {
      std::nth_element(v.begin(), v.begin() + std::ssize(v) / 2, v.end());
      return v[v.size() / 2];
    };
    if (exact_ratio.size() > 100) {
      EXPECT_LT(median(exact_ratio), 200) << c.name;
    }
    ASSERT_GT(slope_ratio.size(), 100u) << c.name;
    EXPECT_LT(median(slope_ratio), 1.3) << c.name;
  }
}

// f64 nodes: the reference's own rounding against long double
TEST(Bounds, HoldInDoubleToo) {
  const auto centre = random_floats(3000, 5, -30, 30);
  std::vector<double> x(centre.begin(), centre.end());
  for (double& v : x) v *= 1 + 0x1p-40;  // beyond f32
  Arguments arguments;
  arguments.operands["x"] = view(x, {3000});
  for (const auto& c : unary_cases()) {
    GraphBuilder g;
    g.store(c.graph(g.operand("x", axes::m, OperandOptions{DType::f64, {}})), DType::f64, "y");
    const Values y = evaluate_column(g.build(), x, {}, arguments);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double expected = c.formula(x[i]);
      if (std::isnan(expected) || y.bound[i] == inf) continue;
      ASSERT_LE(std::abs(static_cast<double>(expected - y.value[i])), y.bound[i]) << c.name << " of " << x[i];
      ASSERT_LE(y.bound[i], 1e-14 * (1 + std::abs(x[i]) + std::abs(y.value[i]))) << c.name << " of " << x[i];
    }
  }
}

TEST(Bounds, BinaryOperationsHold) {
  using F = std::function<Value(Value, Value)>;
  struct Case {
    const char* name;
    F graph;
    std::function<float(float, float)> single;
  };
  const std::vector<Case> cases{
      {"add", [](Value x, Value y) { return x + y; }, [](float x, float y) { return x + y; }},
      {"sub", [](Value x, Value y) { return x - y; }, [](float x, float y) { return x - y; }},
      {"mul", [](Value x, Value y) { return x * y; }, [](float x, float y) { return x * y; }},
      {"div", [](Value x, Value y) { return x / y; }, [](float x, float y) { return x / y; }},
      {"div by reciprocal", [](Value x, Value y) { return x / y; }, [](float x, float y) { return x * (1 / y); }},
      {"min", [](Value x, Value y) { return min(x, y); }, [](float x, float y) { return x < y ? x : y; }},
      {"max", [](Value x, Value y) { return max(x, y); }, [](float x, float y) { return x > y ? x : y; }},
      {"pow", [](Value x, Value y) { return pow(x, y); }, [](float x, float y) { return std::pow(x, y); }},
      {"pow of a positive number", [](Value x, Value y) { return pow(abs(x) + 0.1, y); },
       [](float x, float y) { return std::pow(std::abs(x) + 0.1f, y); }},
      {"pow 3", [](Value x, Value) { return pow(x, 3); }, [](float x, float) { return std::pow(x, 3.f); }},
      {"pow 2.5", [](Value x, Value) { return pow(x, 2.5); }, [](float x, float) { return std::pow(x, 2.5f); }},
      {"pow -2", [](Value x, Value) { return pow(x, -2); }, [](float x, float) { return std::pow(x, -2.f); }},
      {"less", [](Value x, Value y) { return cast(x < y, DType::f32); },
       [](float x, float y) { return x < y ? 1.f : 0.f; }},
      {"equal", [](Value x, Value y) { return cast(x == y, DType::f32); },
       [](float x, float y) { return x == y ? 1.f : 0.f; }},
      {"select", [](Value x, Value y) { return select(x * y > 0.3, x, y * 2); },
       [](float x, float y) { return x * y > 0.3f ? x : y * 2; }},
      {"select of logic",
       [](Value x, Value y) { return select(logical_or(logical_and(x > 0, y > 0), logical_not(x < y)), x, 1 - y); },
       [](float x, float y) { return (x > 0 && y > 0) || !(x < y) ? x : 1 - y; }},
      {"fma", [](Value x, Value y) { return fma(x, y, x); }, [](float x, float y) { return std::fma(x, y, x); }},
      {"unfused fma", [](Value x, Value y) { return fma(x, y, x); }, [](float x, float y) { return x * y + x; }},
      {"fused product", [](Value x, Value y) { return x * y - y; },
       [](float x, float y) { return std::fma(x, y, -y); }},
      {"bf16", [](Value x, Value y) { return cast(cast(x, DType::bf16) * y, DType::bf16); },
       [](float x, float y) {
         const auto to = [](float v) {
           int exponent = 0;
           const float f = std::frexp(v, &exponent);
           return std::ldexp(std::nearbyint(std::ldexp(f, 8)), exponent - 8);
         };
         return to(to(x) * y);
       }},
      {"cast to i32", [](Value x, Value y) { return cast(cast(x * 10, DType::i32), DType::f32) + y; },
       [](float x, float y) { return std::trunc(x * 10) + y; }},
  };
  for (const auto& c : cases) {
    GraphBuilder g;
    const Value y = g.acc();
    // the second input is the first, in another place of the column: its neighbours' bounds differ
    const Value shift = g.operand("shift", axes::m, OperandOptions{DType::f64, {}});
    g.store(c.graph(y, cast(shift, DType::f32)), DType::f32, "y");
    const Graph graph = g.build();
    for (const float reach : {0.5f, 3.f, 30.f}) {
      const Inputs in = random_inputs(6000, 11, reach);
      const auto other = random_floats(6000, 23, -reach, reach);
      const std::vector<double> second(other.begin(), other.end());
      Arguments arguments;
      arguments.operands["shift"] = view(second, {6000});
      const Values r = evaluate_column(graph, in.centre, in.radius, arguments);
      int failures = 0;
      for (std::size_t i = 0; i < in.actual.size() && failures < 5; ++i) {
        const double actual = c.single(in.actual[i], other[i]);
        if (within(actual, r.value[i], r.bound[i])) continue;
        ++failures;
        ADD_FAILURE() << c.name << " at " << in.centre[i] << " +- " << in.radius[i] << ", f32 at (" << in.actual[i]
                      << ", " << other[i] << ") gave " << actual << ", expected " << r.value[i] << " +- " << r.bound[i];
      }
    }
  }
}

// One image of four pixels and four columns, two groups: column values -3, -1, 1, 3 about the column's own mean
const Conv2d pixels{.n = 1, .h = 2, .w = 2, .c = 1, .k = 4};
Values column_values() {
  Values acc{axes::mn, std::vector<double>(16), {}};
  for (std::size_t i = 0; i < 16; ++i)
    acc.value[i] = static_cast<double>(i / 4) * 2 - 3 + 10 * static_cast<double>(i % 2);
  return acc;
}

TEST(Bounds, ValuesThatWaitInAShorterType) {
  const Graph g = parse("store group_norm(acc, groups=2, eps=0) as y\n");
  const auto bounds = [&](double roundoff, std::int64_t columns) {
    return evaluate(g, pixels, column_values(), {}, {.kept_roundoff = roundoff, .kept_columns = columns}).at("y").bound;
  };
  const double rstd = 1 / std::sqrt(5.0 + 25);  // of a group: 5 within a column, 25 between the two
  const auto exact = bounds(0, 1), own = bounds(0x1p-8, 1), units = bounds(0x1p-8, 2);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(own[i] - exact[i], 0x1p-8 * 6 * rstd, 1e-6) << "the range of a column is 6";
    EXPECT_NEAR(units[i] - exact[i], 0x1p-8 * 16 * rstd, 1e-6) << "the range of a unit of two columns is 16";
  }
  const Graph written = parse(
      "m = mean(acc, over=(m,n), per=b, groups=2); v = variance(acc, over=(m,n), per=b, groups=2)\n"
      "store (acc - m) * rsqrt(v) as y\n");
  const auto written_bounds = [&](double roundoff) {
    return evaluate(written, pixels, column_values(), {}, {.kept_roundoff = roundoff, .kept_columns = 2}).at("y").bound;
  };
  const auto as_computed = written_bounds(0), waiting = written_bounds(0x1p-8);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(waiting[i] - as_computed[i], 0x1p-8 * 16 * rstd, 1e-6) << "the same by mean and variance";
  const Graph rows = parse("store layer_norm(acc, eps=0) as y\n");
  const auto unchanged = [&](double roundoff) {
    return evaluate(rows, pixels, column_values(), {}, {.kept_roundoff = roundoff}).at("y").bound;
  };
  EXPECT_EQ(unchanged(0x1p-8), unchanged(0)) << "statistics over columns need no waiting";
}

TEST(Bounds, CoarserFunctions) {
  const Graph g = parse("store silu(acc) * 2 as y\n");
  ErrorModel model;
  model.coarser = [](const Node& node, std::span<const double> inputs, double result) {
    if (node.op != Op::silu) return 0.0;
    EXPECT_NEAR(result, inputs[0] / (1 + std::exp(-inputs[0])), 1e-12);
    return 0.25 * std::abs(inputs[0]);
  };
  const Values acc = column_values();
  const auto fine = evaluate(g, pixels, acc, {}).at("y"), coarse = evaluate(g, pixels, acc, {}, model).at("y");
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(coarse.value[i], fine.value[i]);
    EXPECT_NEAR(coarse.bound[i] - fine.bound[i], 0.5 * std::abs(acc.value[i]), 1e-5) << "doubled by the product";
  }
}

}  // namespace
}  // namespace unisono::reference::test
