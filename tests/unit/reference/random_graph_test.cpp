/// Random graphs through the reference and through plain f32 code that holds every value at all (m, n): whatever the
/// graph, the f32 result lies within the bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/reference/data.hpp"
#include "unit/reference/index_set.hpp"

namespace unisono::reference::test {
namespace {

using Matrix = std::vector<float>;  // (rows, cols)

// Values of a graph under construction, each with what f32 makes of it
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    acc = random_floats(rows * cols, seed + 1, -2, 2);
    leaf(g.acc(), [&](int m, int n) { return acc[m * cols + n]; });
    bn = random_floats(images * cols, seed + 2);
    leaf(g.operand("bn", axes::bn), [&](int m, int n) { return bn[m / pixels * cols + n]; });
    column = random_floats(rows, seed + 3);
    leaf(g.operand("column", axes::m), [&](int m, int) { return column[m]; });
    leaf(g.constant(0.3), [](int, int) { return 0.3f; });
    leaf(cast(g.index(Coordinate::n), DType::f32) * 0.125, [](int, int n) { return static_cast<float>(n) * 0.125f; });
    arguments.operands["bn"] = view(bn, {images, cols});
    arguments.operands["column"] = view(column, {rows});
  }

  void grow() {
    const auto [x, fx] = pick();
    const auto [y, fy] = pick();
    switch (random_() % 15) {
      case 0: return add(x + y, zip(fx, fy, [](float a, float b) { return a + b; }));
      case 1: return add(x - y, zip(fx, fy, [](float a, float b) { return a - b; }));
      case 2: return add(x * y, zip(fx, fy, [](float a, float b) { return a * b; }));
      case 3: return add(x / (abs(y) + 1), zip(fx, fy, [](float a, float b) { return a / (std::abs(b) + 1); }));
      case 4: return add(max(x, y), zip(fx, fy, [](float a, float b) { return std::max(a, b); }));
      case 5:
        return add(select(x > y, x, tanh(y)), zip(fx, fy, [](float a, float b) { return a > b ? a : std::tanh(b); }));
      case 6: return add(exp(min(x, 3)), zip(fx, fy, [](float a, float) { return std::exp(std::min(a, 3.f)); }));
      case 7: return add(silu(x), zip(fx, fy, [](float a, float) { return a / (1 + std::exp(-a)); }));
      case 8:
        return add(cast(cast(x, DType::bf16), DType::f32), zip(fx, fy, [](float a, float) { return to_bf16(a); }));
      case 9: return add(sqrt(square(x) + 0.01), zip(fx, fy, [](float a, float) { return std::sqrt(a * a + 0.01f); }));
      case 10: return reduce(&mean, x, fx, [](const Matrix& v) { return average(v); });
      case 11: return reduce(&reduce_max, x, fx, [](const Matrix& v) { return *std::max_element(v.begin(), v.end()); });
      case 12: return reduce(&variance, x, fx, [](const Matrix& v) { return spread(v); });
      case 13: {
        Matrix r(rows * cols);
        for (int m = 0; m < rows; ++m)
          for (int n = 0; n < cols; ++n) {
            const Matrix v = members(fx, {.rows = true, .cols = true, .per_image = true, .groups = 4}, m, n);
            r[m * cols + n] = (fx[m * cols + n] - average(v)) * (1 / std::sqrt(spread(v) + 0.001f));
          }
        return add(group_norm(x, {4, {}, {}, 0.001}), r);
      }
      default: {
        Matrix r(rows * cols);
        for (int m = 0; m < rows; ++m)
          for (int n = 0; n < cols; ++n) {
            const Matrix v = members(fx, over_n, m, n);
            const float top = *std::max_element(v.begin(), v.end());
            float total = 0;
            for (const float t : v) total += std::exp(t - top);
            r[m * cols + n] = std::exp(fx[m * cols + n] - top) / total;
          }
        return add(softmax(x), r);
      }
    }
  }

  GraphBuilder g;
  Matrix acc, bn, column;
  Arguments arguments;
  std::vector<std::pair<Value, Matrix>> values;

 private:
  static float average(const Matrix& v) {
    float s = 0;
    for (const float t : v) s += t;
    return s / static_cast<float>(v.size());
  }
  static float spread(const Matrix& v) {
    const float a = average(v);
    float s = 0;
    for (const float t : v) s += (t - a) * (t - a);
    return s / static_cast<float>(v.size());
  }
  static float to_bf16(float v) {
    int exponent = 0;
    const float f = std::frexp(v, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(f, 8)), exponent - 8);
  }
  static Matrix members(const Matrix& x, const ReduceDomain& d, int m, int n) {
    Matrix v;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j)
        if (together(d, m, n, i, j)) v.push_back(x[i * cols + j]);
    return v;
  }

  template <class F>
  void leaf(Value v, F f) {
    Matrix r(rows * cols);
    for (int m = 0; m < rows; ++m)
      for (int n = 0; n < cols; ++n) r[m * cols + n] = f(m, n);
    add(v, r);
  }
  void add(Value v, Matrix r) { values.emplace_back(v, std::move(r)); }
  std::pair<Value, Matrix> pick() {  // late values more often: deep graphs
    const std::size_t back = std::min<std::size_t>(random_() % 8, random_() % 8);
    return values[back < values.size() ? values.size() - 1 - back : 0];
  }
  template <class F>
  static Matrix zip(const Matrix& x, const Matrix& y, F f) {
    Matrix r(rows * cols);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = f(x[i], y[i]);
    return r;
  }
  template <class F>
  void reduce(Value (*graph)(Value, ReduceDomain), Value x, const Matrix& fx, F f) {
    const ReduceDomain domains[] = {over_m, over_n, per_image_over_all, {.cols = true, .groups = 3}};
    const ReduceDomain d = domains[random_() % 4];
    Matrix r(rows * cols);
    for (int m = 0; m < rows; ++m)
      for (int n = 0; n < cols; ++n) r[m * cols + n] = f(members(fx, d, m, n));
    add(graph(x, d), r);
  }

  std::mt19937 random_;
};

TEST(RandomGraphs, FloatLiesWithinTheBounds) {
  std::int64_t elements = 0, unclaimed = 0;
  std::vector<double> looseness;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomGraph graph(seed * 10);
    for (int i = 0; i < 10; ++i) graph.grow();
    for (std::size_t i = 0; i < graph.values.size(); ++i)
      graph.g.store(graph.values[i].first, DType::f32, "y" + std::to_string(i));
    const auto result = evaluate(graph.g.build(), conv, exact(graph.acc), graph.arguments);
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const Values& y = result.at("y" + std::to_string(i));
      const Matrix& f = graph.values[i].second;
      for (int m = 0; m < rows; ++m)
        for (int n = 0; n < cols; ++n) {
          const std::int64_t at = place(y, m, n);
          const double value = y.value[at], bound = y.bound[at], actual = f[m * cols + n];
          ++elements;
          if (!std::isfinite(bound)) {
            ++unclaimed;
            continue;
          }
          ASSERT_LE(std::abs(actual - value), bound) << "graph " << seed << ", value " << i << " at " << m << ", " << n;
          if (actual != value) looseness.push_back(bound / std::abs(actual - value));
        }
    }
  }
  EXPECT_LT(unclaimed, elements / 20);
  std::nth_element(looseness.begin(), looseness.begin() + std::ssize(looseness) / 2, looseness.end());
  EXPECT_LT(looseness[looseness.size() / 2], 100);
}

}  // namespace
}  // namespace unisono::reference::test
