#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "unisono/error.hpp"
#include "unit/reference/data.hpp"
#include "unit/reference/index_set.hpp"

namespace unisono::reference::test {
namespace {

using testing::Each;
using testing::HasSubstr;

Values evaluated(const std::function<Value(GraphBuilder&)>& f, const Values& acc, const Arguments& arguments = {},
                 const ErrorModel& model = {}) {
  GraphBuilder g;
  g.store(f(g), DType::f64, "y");
  return evaluate(g.build(), conv, acc, arguments, model).at("y");
}

using Reduce = std::function<long double(const std::vector<long double>&)>;

const std::vector<std::pair<const char*, ReduceDomain>>& domains() {
  static const std::vector<std::pair<const char*, ReduceDomain>> d{
      {"m", over_m},
      {"n", over_n},
      {"all", over_all},
      {"m per image", per_image_over_m},
      {"all per image", per_image_over_all},
      {"n in groups", {.cols = true, .groups = 4}},
      {"all in groups", {.rows = true, .cols = true, .groups = 3}},
      {"all per image in groups", {.rows = true, .cols = true, .per_image = true, .groups = 6}}};
  return d;
}

struct Source {
  const char* name;
  std::function<Value(GraphBuilder&)> make;
};

Value grouped(GraphBuilder& g, int groups) {
  return sum(g.acc(), {.rows = true, .cols = true, .per_image = true, .groups = groups});
}

const std::vector<Source>& sources() {
  static const std::vector<Source> s{{"[m,n]", [](GraphBuilder& g) { return g.acc(); }},
                                     {"[b,n]", [](GraphBuilder& g) { return g.operand("bn", axes::bn); }},
                                     {"[n]", [](GraphBuilder& g) { return g.operand("n", axes::n); }},
                                     {"[m]", [](GraphBuilder& g) { return g.operand("m", axes::m); }},
                                     {"[b]", [](GraphBuilder& g) { return g.operand("b", axes::b); }},
                                     {"[]", [](GraphBuilder& g) { return g.operand("s"); }},
                                     {"[b,g6]", [](GraphBuilder& g) { return grouped(g, 6); }},
                                     {"[b,g4]", [](GraphBuilder& g) { return grouped(g, 4); }}};
  return s;
}

struct Bound {
  std::vector<float> acc = random_floats(rows * cols, 1), bn = random_floats(images * cols, 2),
                     n = random_floats(cols, 3), m = random_floats(rows, 4), b = random_floats(images, 5);
  Arguments arguments;
  Bound() {
    arguments.operands["bn"] = view(bn, {images, cols});
    arguments.operands["n"] = view(n, {cols});
    arguments.operands["m"] = view(m, {rows});
    arguments.operands["b"] = view(b, {images});
    arguments.scalars["s"] = 0.75;
  }
};

// Every reduction of every kind of value over every domain, against the sum over all (m, n) written out
TEST(Reduction, EveryDomainOfEveryAxes) {
  const Bound data;
  const std::vector<std::pair<Op, Reduce>> reductions{
      {Op::sum, [](const auto& x) { return std::accumulate(x.begin(), x.end(), 0.0L); }},
      {Op::mean, [](const auto& x) { return std::accumulate(x.begin(), x.end(), 0.0L) / x.size(); }},
      {Op::reduce_max, [](const auto& x) { return *std::max_element(x.begin(), x.end()); }},
      {Op::reduce_min, [](const auto& x) { return *std::min_element(x.begin(), x.end()); }},
      {Op::sum_squares, [](const auto& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0L); }},
      {Op::variance, [](const auto& x) {
         const long double mean = std::accumulate(x.begin(), x.end(), 0.0L) / x.size();
         return std::accumulate(x.begin(), x.end(), 0.0L,
                                [=](long double s, long double v) { return s + (v - mean) * (v - mean); }) /
                x.size();
       }}};
  for (const auto& source : sources())
    for (const auto& [name, domain] : domains())
      for (const auto& [op, reduce] : reductions) {
        SCOPED_TRACE(std::string(to_string(op)) + " of " + source.name + " over " + name);
        Attributes attr;
        attr.domain = domain;
        const Values x = evaluated(source.make, exact(data.acc), data.arguments);
        const Values y = evaluated([&, op = op](GraphBuilder& g) { return g.node(op, {source.make(g)}, attr); },
                                   exact(data.acc), data.arguments);
        for (std::int64_t m = 0; m < rows; ++m)
          for (std::int64_t n = 0; n < cols; ++n) {
            std::vector<long double> all;
            for (std::int64_t i = 0; i < rows; ++i)
              for (std::int64_t j = 0; j < cols; ++j)
                if (together(domain, m, n, i, j)) all.push_back(element(x, i, j));
            const auto expected = static_cast<double>(reduce(all));
            ASSERT_NEAR(element(y, m, n), expected, 1e-13) << m << " " << n;
          }
      }
}

TEST(Reduction, SumsAreAccurateUnderCancellation) {
  std::vector<float> x(rows * cols, 0.1f);
  x[0] = 0x1p60f;
  x[143] = -0x1p60f;
  const auto y = evaluated([](GraphBuilder& g) { return sum(g.acc()); }, exact(x));
  EXPECT_NEAR(y.value[0], 142 * static_cast<double>(0.1f), 1e-12);
}

TEST(Reduction, VarianceDoesNotSufferFromALargeMean) {
  std::vector<float> x = random_integers(rows * cols, 3);
  double mean = 0, square = 0;
  for (const float v : x) mean += v / 144.0, square += v * v / 144.0;
  for (float& v : x) v += 0x1p22f;
  const auto y = evaluated([](GraphBuilder& g) { return variance(g.acc()); }, exact(x));
  EXPECT_NEAR(y.value[0], square - mean * mean, 1e-9);
}

TEST(Reduction, NaNAndInfinity) {
  auto x = random_floats(rows * cols, 1);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  x[1 * cols + 6] = -std::numeric_limits<float>::infinity();
  const auto reduced = [&](Value (*f)(Value, ReduceDomain)) {
    return evaluated([&](GraphBuilder& g) { return f(g.acc(), over_m); }, exact(x));
  };
  for (const auto f : {sum, mean, reduce_max, reduce_min, sum_squares, variance}) {
    const Values y = reduced(f);
    EXPECT_TRUE(std::isnan(y.value[5]));
    EXPECT_EQ(y.bound[5], 0);
    EXPECT_TRUE(std::isfinite(y.value[7]));
    EXPECT_LT(y.bound[7], 1e-4);
  }
  EXPECT_EQ(reduced(sum).value[6], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(reduced(reduce_min).value[6], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isfinite(reduced(reduce_max).value[6]));
  EXPECT_TRUE(std::isnan(reduced(variance).value[6]));
}

TEST(Reduction, IntegersWrap) {
  GraphBuilder g;
  const Value big = g.operand("i", axes::m, OperandOptions{DType::i32, {}});
  g.store(sum(big), DType::i32, "total");
  g.store(sum_squares(big, over_m), DType::i32, "squares");
  g.store(reduce_max(big, over_all), DType::i32, "most");
  const std::vector<std::int32_t> i{1 << 30, 1 << 30, 1 << 30, 1 << 30, 65537, 0, 0, 0, 0, 0, 0, -5};
  Arguments arguments;
  arguments.operands["i"] = view(i, {rows});
  const auto y = evaluate(g.build(), conv, {axes::mn, std::vector<double>(rows * cols), {}}, arguments);
  EXPECT_EQ(y.at("total").value[0], 12 * 65532);  // every row counts once a column; 12·2^32 wraps to 0
  EXPECT_EQ(y.at("squares").value[0], 131073 + 25);
  EXPECT_EQ(y.at("most").value[0], 1 << 30);
  EXPECT_THAT(y.at("total").bound, Each(0));
}

TEST(Reduction, CountsAreExact) {
  const auto x = random_floats(rows * cols, 1);
  const auto y = evaluated([](GraphBuilder& g) { return sum(cast(g.acc() > 0, DType::f32)); }, exact(x));
  EXPECT_EQ(y.value[0], std::count_if(x.begin(), x.end(), [](float v) { return v > 0; }));
  EXPECT_EQ(y.bound[0], 0);
}

TEST(Reduction, GroupsMustDivideTheColumns) {
  try {
    evaluated(
        [](GraphBuilder& g) {
          return group_norm(g.acc(), NormOptions{5, {}, {}, 1e-5});
        },
        exact(random_floats(144, 1)));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("group_norm"), HasSubstr("groups=5 over 12 columns")));
  }
}

// The bounds against f32 in several orders of summation, with inputs anywhere in their intervals
class ReductionBounds : public testing::Test {
 protected:
  static constexpr std::size_t count = rows * cols;

  // x within e of the centre, in an order shuffled by `seed`
  std::vector<float> sample(const std::vector<float>& centre, float e, unsigned seed) {
    auto x = centre;
    const auto noise = random_floats(count, seed + 100);
    if (e > 0)
      for (std::size_t i = 0; i < count; ++i) x[i] = centre[i] + (noise[i] > 0 ? e : -e) * 0.999f;
    std::mt19937 generator(seed);
    std::shuffle(x.begin(), x.end(), generator);
    return x;
  }

  Values bounded(const std::vector<float>& x, float e, Value (*f)(Value, ReduceDomain)) {
    Values acc = exact(x);
    std::fill(acc.bound.begin(), acc.bound.end(), static_cast<double>(e));
    return evaluated([&](GraphBuilder& g) { return f(g.acc(), over_all); }, acc);
  }

  void check(const char* name, Value (*graph)(Value, ReduceDomain), float (*single)(const std::vector<float>&),
             double tightness) {
    for (const float offset : {0.f, 3.f, 1000.f}) {
      for (const float e : {0.f, 1e-3f}) {
        auto x = random_floats(count, 9);
        for (float& v : x) v += offset;
        const Values y = bounded(x, e, graph);
        double worst = 0;
        for (unsigned seed = 0; seed < 40; ++seed) {
          const double error = std::abs(single(sample(x, e, seed)) - y.value[0]);
          EXPECT_LE(error, y.bound[0]) << name << " offset " << offset << " e " << e;
          worst = std::max(worst, error);
        }
        EXPECT_LT(y.bound[0], tightness * worst + 1e-30) << name << " offset " << offset << " e " << e;
      }
    }
  }
};

float float_sum(const std::vector<float>& x) { return std::accumulate(x.begin(), x.end(), 0.f); }
float float_mean(const std::vector<float>& x) { return float_sum(x) / static_cast<float>(x.size()); }
float welford_mean(const std::vector<float>& x) {
  float mean = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mean += (x[i] - mean) / static_cast<float>(i + 1);
  return mean;
}
float welford_variance(const std::vector<float>& x) {
  float mean = 0, m2 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float d = x[i] - mean;
    mean += d / static_cast<float>(i + 1);
    m2 += d * (x[i] - mean);
  }
  return m2 / static_cast<float>(x.size());
}
float two_pass_variance(const std::vector<float>& x) {
  const float mean = float_mean(x);
  float s = 0;
  for (const float v : x) s += (v - mean) * (v - mean);
  return s / static_cast<float>(x.size());
}
// Tiles of 16, merged by Chan's formula
float merged_variance(const std::vector<float>& x) {
  float count = 0, mean = 0, m2 = 0;
  for (std::size_t t = 0; t < x.size(); t += 16) {
    const std::vector<float> tile(x.begin() + std::ptrdiff_t(t), x.begin() + std::ptrdiff_t(t) + 16);
    const float n = 16, tile_mean = float_mean(tile), tile_m2 = two_pass_variance(tile) * n;
    const float d = tile_mean - mean, all = count + n;
    mean += d * (n / all);
    m2 += tile_m2 + d * d * (count * n / all);
    count = all;
  }
  return m2 / count;
}
float float_squares(const std::vector<float>& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.f); }
float float_max(const std::vector<float>& x) { return *std::max_element(x.begin(), x.end()); }

TEST_F(ReductionBounds, Sum) { check("sum", sum, float_sum, 500); }
TEST_F(ReductionBounds, Mean) {
  check("mean", mean, float_mean, 500);
  check("Welford's mean", mean, welford_mean, 500);
}
TEST_F(ReductionBounds, SumOfSquares) { check("sum of squares", sum_squares, float_squares, 500); }
TEST_F(ReductionBounds, Maximum) { check("max", reduce_max, float_max, 50); }
TEST_F(ReductionBounds, Variance) {
  check("two passes", variance, two_pass_variance, 1e5);  // the bound serves Welford's updates too
  check("Welford", variance, welford_variance, 2000);
  check("tiles merged", variance, merged_variance, 1e4);
}

// A tree of Chan's merges down to single elements: (count, mean, M2)
std::array<float, 3> merged(const float* x, std::size_t n) {
  if (n == 1) return {1, *x, 0};
  const auto a = merged(x, n / 2), b = merged(x + n / 2, n - n / 2);
  const float d = b[1] - a[1], count = a[0] + b[0];
  return {count, a[1] + d * (b[0] / count), a[2] + b[2] + d * d * (a[0] * b[0] / count)};
}

TEST_F(ReductionBounds, HoldForFewElementsToo) {
  GraphBuilder g;
  g.store(mean(g.acc()), DType::f32, "average");
  g.store(variance(g.acc()), DType::f32, "spread");
  const Graph graph = g.build();
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const std::size_t n = 1 + seed % 9;
    auto x = random_floats(n, seed, -1, 1);
    if (seed % 2 == 0) x[0] *= 1000;
    if (seed % 3 == 0)
      for (float& v : x) v += 10;
    const auto y = evaluate(graph, Gemm{.m = std::ssize(x), .n = 1, .k = 1}, exact(x), {});
    const auto tree = merged(x.data(), n);
    for (const float m : {float_mean(x), welford_mean(x), tree[1]})
      ASSERT_LE(std::abs(m - y.at("average").value[0]), y.at("average").bound[0]) << seed;
    for (const float v : {two_pass_variance(x), welford_variance(x), tree[2] / tree[0]})
      ASSERT_LE(std::abs(v - y.at("spread").value[0]), y.at("spread").bound[0]) << seed;
  }
}

TEST_F(ReductionBounds, ShorterChainsTightenThem) {
  const auto x = random_floats(count, 9);
  const auto bound = [&](std::int64_t chain) {
    return evaluated([](GraphBuilder& g) { return sum(g.acc()); }, exact(x), {}, {.longest_chain = chain}).bound[0];
  };
  EXPECT_NEAR(bound(0) / bound(12), 143.0 / 12, 0.01);
  EXPECT_EQ(bound(1000), bound(0));
}

}  // namespace
}  // namespace unisono::reference::test
