#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "unit/reference/data.hpp"
#include "unit/reference/index_set.hpp"

namespace unisono::reference::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
using testing::Each;

struct Case {
  const char* name;
  ReduceDomain domain;
  std::function<Value(Value, NormOptions)> graph;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> c{
      {"group_norm", {.rows = true, .cols = true, .per_image = true, .groups = 4}, group_norm},
      {"instance_norm", {.rows = true, .per_image = true}, instance_norm},
      {"layer_norm", {.cols = true}, layer_norm},
      {"rms_norm", {.cols = true}, rms_norm},
      {"batch_norm", {.rows = true}, batch_norm}};
  return c;
}

NormOptions options(const Case& c, std::optional<Value> scale, std::optional<Value> shift, double eps) {
  return {c.domain.groups, scale, shift, eps};
}

struct Fixture {
  std::vector<float> x, gamma = random_floats(cols, 2, 0.5, 2), beta = random_floats(images * cols, 3);
  Arguments arguments;

  explicit Fixture(float offset = 0.5f) : x(random_floats(rows * cols, 1)) {
    for (float& v : x) v += offset;
    arguments.operands["gamma"] = view(gamma, {cols});
    arguments.operands["beta"] = view(beta, {images, cols});
  }
  // With scale gamma[n] and shift beta[b,n]; rms_norm has no shift
  Values run(const Case& c, const Values& acc, double eps) const {
    GraphBuilder g;
    const Value scale = g.operand("gamma", axes::n);
    std::optional<Value> shift;
    if (std::string(c.name) != "rms_norm") shift = g.operand("beta", axes::bn);
    g.store(c.graph(g.acc(), options(c, scale, shift, eps)), DType::f32, "y");
    return evaluate(g.build(), conv, acc, arguments).at("y");
  }
  std::vector<float> members(const std::vector<float>& from, const ReduceDomain& d, std::int64_t m,
                             std::int64_t n) const {
    std::vector<float> all;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        if (together(d, m, n, i, j)) all.push_back(from[static_cast<std::size_t>(i * cols + j)]);
    return all;
  }
};

// The formula in T, statistics by two passes
template <class T>
T normalised(T x, const std::vector<float>& all, bool centred, T scale, T shift, T eps) {
  T mean = 0, variance = 0;
  if (centred) {
    for (const float v : all) mean += static_cast<T>(v);
    mean /= static_cast<T>(all.size());
  }
  for (const float v : all) variance += (static_cast<T>(v) - mean) * (static_cast<T>(v) - mean);
  variance /= static_cast<T>(all.size());
  const T rstd = 1 / std::sqrt(variance + eps);
  return (x - mean) * (rstd * scale) + shift;
}

TEST(Normalisation, AgreesWithTheFormula) {
  const Fixture f;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const bool centred = std::string(c.name) != "rms_norm";
    const Values y = f.run(c, exact(f.x), 1e-3);
    ASSERT_EQ(y.value.size(), static_cast<std::size_t>(rows * cols));
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < cols; ++n) {
        const auto all = f.members(f.x, c.domain, m, n);
        const long double shift = centred ? f.beta[static_cast<std::size_t>(m / pixels * cols + n)] : 0;
        const auto expected = normalised<long double>(f.x[static_cast<std::size_t>(m * cols + n)], all, centred,
                                                      f.gamma[static_cast<std::size_t>(n)], shift, 1e-3L);
        EXPECT_NEAR(y.value[static_cast<std::size_t>(m * cols + n)], static_cast<double>(expected), 1e-12);
      }
  }
}

TEST(Normalisation, BoundsHoldForFloatAndAreTight) {
  for (const float offset : {0.f, 1.f, 30.f}) {
    const Fixture f(offset);
    for (const float e : {0.f, 1e-4f}) {
      Values acc = exact(f.x);
      std::fill(acc.bound.begin(), acc.bound.end(), static_cast<double>(e));
      auto x = f.x;
      const auto noise = random_floats(x.size(), 8);
      for (std::size_t i = 0; i < x.size() && e > 0; ++i) x[i] += (noise[i] > 0 ? e : -e) * 0.95f;
      for (const Case& c : cases()) {
        SCOPED_TRACE(std::string(c.name) + " offset " + std::to_string(offset) + " e " + std::to_string(e));
        const bool centred = std::string(c.name) != "rms_norm";
        const Values y = f.run(c, acc, 1e-5);
        std::vector<double> ratio;
        for (std::int64_t m = 0; m < rows; ++m)
          for (std::int64_t n = 0; n < cols; ++n) {
            const auto i = static_cast<std::size_t>(m * cols + n);
            const float shift = centred ? f.beta[static_cast<std::size_t>(m / pixels * cols + n)] : 0;
            const float actual = normalised<float>(x[i], f.members(x, c.domain, m, n), centred,
                                                   f.gamma[static_cast<std::size_t>(n)], shift, 1e-5f);
            const double error = std::abs(actual - y.value[i]);
            EXPECT_LE(error, y.bound[i]);
            ratio.push_back(y.bound[i] / std::max(error, 1e-9));
          }
        std::nth_element(ratio.begin(), ratio.begin() + 72, ratio.end());
        EXPECT_LT(ratio[72], 500);
      }
    }
  }
}

TEST(Normalisation, OfAConstantIsTheShift) {
  const Fixture f;
  std::vector<float> flat(rows * cols, 4);
  for (const Case& c : cases()) {
    if (std::string(c.name) == "rms_norm") continue;
    const Values y = f.run(c, exact(flat), 1e-5);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      EXPECT_EQ(y.value[static_cast<std::size_t>(i)],
                f.beta[static_cast<std::size_t>(i / cols / pixels * cols + i % cols)])
          << c.name;
      EXPECT_LT(y.bound[static_cast<std::size_t>(i)], 0.05);
    }
  }
}

TEST(Normalisation, WithoutEpsOfAConstantMakesNoClaim) {
  GraphBuilder g;
  g.store(layer_norm(g.acc(), {1, {}, {}, 0}), DType::f32, "y");
  const Values y = evaluate(g.build(), conv, exact(std::vector<float>(rows * cols, 0.1f)), {}).at("y");
  EXPECT_THAT(y.bound, Each(inf));
}

TEST(Normalisation, ANaNStaysInItsGroup) {
  auto x = random_floats(rows * cols, 1);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  GraphBuilder g;
  g.store(group_norm(g.acc(), {4, {}, {}, 1e-5}), DType::f32, "y");
  const Values y = evaluate(g.build(), conv, exact(x), {}).at("y");
  for (std::int64_t m = 0; m < rows; ++m)
    for (std::int64_t n = 0; n < cols; ++n) {
      EXPECT_EQ(std::isnan(y.value[static_cast<std::size_t>(m * cols + n)]), m < pixels && n < 3);
      EXPECT_LT(y.bound[static_cast<std::size_t>(m * cols + n)], inf);
    }
}

const std::vector<std::pair<const char*, ReduceDomain>> softmax_domains{{"n", over_n},
                                                                        {"m", over_m},
                                                                        {"groups of n", {.cols = true, .groups = 3}},
                                                                        {"m per image", per_image_over_m},
                                                                        {"all", over_all}};

TEST(Softmax, AgreesWithTheFormulaWithinTightBounds) {
  auto x = random_floats(rows * cols, 1, -20, 20);
  for (const auto& [name, domain] : softmax_domains) {
    for (const float e : {0.f, 1e-3f}) {
      SCOPED_TRACE(std::string(name) + " e " + std::to_string(e));
      GraphBuilder g;
      g.store(softmax(g.acc(), domain), DType::f32, "y");
      Values acc = exact(x);
      std::fill(acc.bound.begin(), acc.bound.end(), static_cast<double>(e));
      const Values y = evaluate(g.build(), conv, acc, {}).at("y");
      auto near = x;
      const auto noise = random_floats(x.size(), 8);
      for (std::size_t i = 0; i < x.size(); ++i) near[i] += noise[i] * e * 0.99f;
      std::vector<double> ratio;
      for (std::int64_t m = 0; m < rows; ++m)
        for (std::int64_t n = 0; n < cols; ++n) {
          const auto i = static_cast<std::size_t>(m * cols + n);
          long double total = 0;
          float single = 0, largest = -std::numeric_limits<float>::infinity();
          for (std::int64_t k = 0; k < rows * cols; ++k)
            if (together(domain, m, n, k / cols, k % cols))
              largest = std::max(largest, near[static_cast<std::size_t>(k)]);
          for (std::int64_t k = 0; k < rows * cols; ++k)
            if (together(domain, m, n, k / cols, k % cols)) {
              total += std::exp(static_cast<long double>(x[static_cast<std::size_t>(k)]));
              single += std::exp(near[static_cast<std::size_t>(k)] - largest);
            }
          const auto expected = static_cast<double>(std::exp(static_cast<long double>(x[i])) / total);
          EXPECT_NEAR(y.value[i], expected, 1e-14 * expected);
          const double error = std::abs(std::exp(near[i] - largest) / single - expected);
          EXPECT_LE(error, y.bound[i]);
          ratio.push_back(y.bound[i] / (error + 1e-30));
        }
      std::nth_element(ratio.begin(), ratio.begin() + 72, ratio.end());
      EXPECT_LT(ratio[72], domain == over_all ? 3000 : 300);
    }
  }
}

// A value with few axes behaves as if it were repeated to [m,n]
TEST(Normalisation, OfABroadcastValue) {
  const Fixture f;
  for (const auto& [operand, axes] : {std::pair{"gamma", axes::n}, std::pair{"beta", axes::bn}}) {
    GraphBuilder g;
    const Value few = g.operand(operand, axes), all = few + g.acc() * 0;
    int count = 0;
    const auto both = [&](const auto& make) {
      g.store(make(few), DType::f32, "few" + std::to_string(count));
      g.store(make(all), DType::f32, "all" + std::to_string(count++));
    };
    for (const Case& c : cases()) both([&](Value x) { return c.graph(x, options(c, {}, {}, 1e-2)) + g.acc() * 0; });
    for (const auto& [name, domain] : softmax_domains)
      both([&, d = domain](Value x) { return softmax(x, d) + g.acc() * 0; });
    const auto y = evaluate(g.build(), conv, exact(f.x), f.arguments);
    for (int k = 0; k < count; ++k) {
      SCOPED_TRACE(std::string(operand) + " " + std::to_string(k));
      const Values &a = y.at("few" + std::to_string(k)), &b = y.at("all" + std::to_string(k));
      for (std::size_t i = 0; i < a.value.size(); ++i) ASSERT_NEAR(a.value[i], b.value[i], 1e-13);
    }
  }
}

TEST(Softmax, LargeNumbersAndMasks) {
  std::vector<float> x(rows * cols, -std::numeric_limits<float>::infinity());
  for (int n = 0; n < 12; ++n) x[static_cast<std::size_t>(n)] = 1e30f;
  x[12] = 1000;
  x[13] = 1000;
  GraphBuilder g;
  g.store(softmax(g.acc()), DType::f32, "y");
  const Values y = evaluate(g.build(), conv, exact(x), {}).at("y");
  EXPECT_NEAR(y.value[0], 1 / 12.0, 1e-15);
  EXPECT_EQ(y.value[12], 0.5);
  EXPECT_LT(y.bound[12], 1e-5);
  EXPECT_EQ(y.value[14], 0);
  EXPECT_LT(y.bound[14], 1e-37);
  EXPECT_TRUE(std::isnan(y.value[24]));  // nothing but −∞
  EXPECT_EQ(y.bound[24], 0);
}

}  // namespace
}  // namespace unisono::reference::test
