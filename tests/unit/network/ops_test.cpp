/// The CPU kernels for what is no contraction, against their definitions written out.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/pool.hpp"
#include "runtime/cpu/ops/reduce.hpp"
#include "runtime/cpu/ops/resize.hpp"
#include "support/random.hpp"

namespace unisono::cpu {
namespace {

// A parallel loop in uneven pieces, last first
void pieces(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  std::int64_t end = count;
  for (std::int64_t step = 1; end > 0; ++step) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - step);
    body(begin, end);
    end = begin;
  }
}

std::vector<float> numbers(test::Random& r, std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = static_cast<float>(r.uniform(-1, 1));
  return v;
}

constexpr float untouched = 12345.f;

TEST(MaxPool, NanAndInfinity) {
  const float nan = std::nanf(""), inf = INFINITY;
  const std::vector<float> x{1, nan, 2, 3, -inf, -inf, -inf, -inf};
  std::vector<float> y(4);
  max_pool({.kernel = {1, 2}, .stride = {1, 2}}, {x.data(), 1, 1, 8, 1, 1}, {y.data(), 1, 1, 4, 1, 1}, serial);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 3);
  EXPECT_EQ(y[2], -inf);
}

TEST(Pool, RandomWindowsAndSlices) {
  test::Random r(5);
  for (int round = 0; round < 300; ++round) {
    PoolWindow f{.kernel = {r.between(1, 3), r.between(1, 3)}, .stride = {r.between(1, 3), r.between(1, 3)}};
    f.dilation = {r.between(1, 2), r.between(1, 2)};
    for (auto& p : f.pad) p = r.below(2);
    f.count_pad = r.chance(0.5);
    const std::int64_t c = r.between(1, 5), h = r.between(5, 8), w = r.between(5, 8), s = c + r.below(3);
    const auto extent = [&](int d, std::int64_t in, std::int64_t pad) {
      return (in + pad - f.dilation[d] * (f.kernel[d] - 1) - 1) / f.stride[d] + 1;
    };
    const std::int64_t p = extent(0, h, f.pad[0] + f.pad[2]), q = extent(1, w, f.pad[1] + f.pad[3]), t = c + r.below(3);
    const auto x = numbers(r, 2 * h * w * s);
    std::vector<float> top(static_cast<std::size_t>(2 * p * q * t), untouched), mean = top;
    const Image<const float> in{x.data(), 2, h, w, c, s};
    max_pool(f, in, {top.data(), 2, p, q, c, t}, pieces);
    average_pool(f, in, {mean.data(), 2, p, q, c, t}, pieces);
    for (std::int64_t i = 0; i < 2 * p * q; ++i)
      for (std::int64_t k = 0; k < t; ++k) {
        const auto at = static_cast<std::size_t>(i * t + k);
        if (k >= c) {  // the neighbours in a wider tensor
          ASSERT_EQ(top[at], untouched);
          ASSERT_EQ(mean[at], untouched);
          continue;
        }
        double sum = 0, most = -INFINITY;
        int inside = 0, padded = 0;
        for (std::int64_t a = 0; a < f.kernel[0]; ++a)
          for (std::int64_t b = 0; b < f.kernel[1]; ++b) {
            const std::int64_t y0 = i / q % p * f.stride[0] - f.pad[0] + a * f.dilation[0];
            const std::int64_t x0 = i % q * f.stride[1] - f.pad[1] + b * f.dilation[1];
            ++padded;
            if (y0 < 0 || y0 >= h || x0 < 0 || x0 >= w) continue;
            ++inside;
            const double v = *(in.pixel(i / q / p, y0, x0) + k);
            sum += v;
            most = std::max(most, v);
          }
        ASSERT_EQ(top[at], static_cast<float>(most));
        const int count = f.count_pad ? padded : inside;
        if (count == 0) continue;  // a dilated window may step over a small image
        ASSERT_NEAR(mean[at], sum / count, 0x1p-23) << round;
      }
  }
}

TEST(GlobalAveragePool, ManyPixels) {
  // 2^24 + 1 ones would stand still in float32
  const std::int64_t n = (1 << 24) + 4;
  const std::vector<float> x(static_cast<std::size_t>(n), 0.5f);
  float y = 0;
  global_average_pool({x.data(), 1, 2, n / 2, 1, 1}, {&y, 1, 1, 1, 1, 1}, serial);
  EXPECT_EQ(y, 0.5f);
}

TEST(Resize, LinearAndNearestSlices) {
  const AxisTable rows{{0, 1}, {1, 1}, {0.25f, 0.f}}, columns{{0, 0, 1}, {0, 1, 1}, {0.f, 0.5f, 0.f}};
  const std::vector<float> x{1, -1, 3, -1, 5, -1, 7, -1};  // (2,2) pixels of one channel, two apart
  std::vector<float> y(6);
  resize(rows, columns, {x.data(), 1, 2, 2, 1, 2}, {y.data(), 1, 2, 3, 1, 1}, pieces);
  EXPECT_EQ(y, (std::vector<float>{2, 3, 4, 5, 6, 7}));
  resize({{1, 0}, {}, {}}, {{0, 1, 1}, {}, {}}, {x.data(), 1, 2, 2, 1, 2}, {y.data(), 1, 2, 3, 1, 1}, pieces);
  EXPECT_EQ(y, (std::vector<float>{5, 7, 7, 1, 3, 3}));
}

TEST(Copy, RandomPermutationsBroadcastsAndSlices) {
  test::Random r(7);
  for (int round = 0; round < 500; ++round) {
    const auto rank = static_cast<std::size_t>(r.between(0, 5));
    Extents64 shape(rank), from_strides(rank), to_strides(rank);
    for (auto& e : shape) e = r.chance(0.2) ? 1 : r.between(2, r.chance(0.1) ? 40 : 5);
    const auto strides = [&](Extents64& s, bool broadcast) {
      std::vector<std::size_t> order(rank);
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = rank; i > 1; --i)
        std::swap(order[i - 1], order[static_cast<std::size_t>(r.below(static_cast<int>(i)))]);
      std::int64_t step = r.between(1, 2);
      for (const std::size_t i : order) {
        s[i] = broadcast && r.chance(0.3) ? 0 : step;
        step *= shape[i] + r.below(2);
      }
      return step;
    };
    const auto from = numbers(r, strides(from_strides, true) + 1);
    std::vector<float> to(static_cast<std::size_t>(strides(to_strides, false) + 1), untouched), expected = to;
    std::int64_t count = 1;
    for (const auto e : shape) count *= e;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i, a = 0, b = 0;
      for (std::size_t d = rank; d-- > 0; rest /= shape[d]) {
        a += rest % shape[d] * from_strides[d];
        b += rest % shape[d] * to_strides[d];
      }
      expected[static_cast<std::size_t>(b)] = from[static_cast<std::size_t>(a)];
    }
    copy(shape, from.data(), from_strides, to.data(), to_strides, pieces);
    ASSERT_EQ(to, expected) << round;
  }
}

// A tall matrix that is transposed: its columns are shared out, not its few rows, which lie far apart
TEST(Copy, ThreadsShareTheLongAxisOfATallMatrix) {
  const std::int64_t rows = 5, cols = 700;
  std::vector<float> from(static_cast<std::size_t>(rows * cols)), to(from.size());
  std::iota(from.begin(), from.end(), 0.0f);
  std::int64_t shared = 0;
  const Parallel counted = [&shared](std::int64_t count, const auto& body) {
    shared = count;
    body(0, count / 2);
    body(count / 2, count);
  };
  copy({rows, cols}, from.data(), {1, rows}, to.data(), {cols, 1}, counted);
  EXPECT_EQ(shared, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i)
    ASSERT_EQ(to[static_cast<std::size_t>(i)], from[static_cast<std::size_t>(i % cols * rows + i / cols)]);
}

TEST(Copy, Reshaped) {
  // (2,3) with strides (1,2) read in row-major order into (3,2) with strides (1,3)
  const std::vector<float> x{0, 3, 1, 4, 2, 5};
  std::vector<float> y(6);
  copy_reshaped(sizeof(float), {2, 3}, x.data(), {1, 2}, {3, 2}, y.data(), {1, 3}, pieces);
  EXPECT_EQ(y, (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

TEST(Copy, ReshapedToEveryShape) {
  // shapes that share their axes, that divide them, and that share none
  const std::vector<Extents64> shapes{{24},   {1, 24},   {2, 12},         {4, 1, 6}, {6, 4},
                                      {3, 8}, {2, 3, 4}, {2, 2, 2, 3, 1}, {8, 3, 1}};
  std::mt19937 rng(7);
  for (const Extents64& a : shapes)
    for (const Extents64& b : shapes) {
      // the strides of an order of the axes drawn at random, as tensors with channels last have them
      const auto strides = [&](const Extents64& shape) {
        std::vector<std::size_t> order(shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), rng);
        Extents64 result(shape.size());
        std::int64_t step = 1;
        for (const std::size_t axis : order) result[axis] = step, step *= shape[axis];
        return result;
      };
      const Extents64 from = strides(a), to = strides(b);
      std::vector<float> x(24), y(24, -1), expected(24);
      std::iota(x.begin(), x.end(), 0.0F);
      Odometer source(a, from), target(b, to);
      for (int i = 0; i < 24; ++i, source.next(), target.next())
        expected[static_cast<std::size_t>(target.offset())] = x[static_cast<std::size_t>(source.offset())];
      copy_reshaped(sizeof(float), a, x.data(), from, b, y.data(), to, pieces);
      ASSERT_EQ(y, expected);
    }
}

TEST(Reduce, EveryOrderOfAxesAndEveryOperation) {
  test::Random r(11);
  const auto naive = [](ReduceOp op, const std::vector<double>& v) {
    double sum = 0, square = 0, product = 1, exponents = 0, absolute = 0;
    for (const double x : v) sum += x, square += x * x, product *= x, exponents += std::exp(x), absolute += std::abs(x);
    switch (op) {
      case ReduceOp::sum: return sum;
      case ReduceOp::mean: return sum / static_cast<double>(v.size());
      case ReduceOp::prod: return product;
      case ReduceOp::max: return *std::max_element(v.begin(), v.end());
      case ReduceOp::min: return *std::min_element(v.begin(), v.end());
      case ReduceOp::l1: return absolute;
      case ReduceOp::l2: return std::sqrt(square);
      case ReduceOp::log_sum: return std::log(sum);
      case ReduceOp::log_sum_exp: return std::log(exponents);
      default: return square;
    }
  };
  for (int round = 0; round < 400; ++round) {
    const auto op = static_cast<ReduceOp>(r.below(static_cast<int>(ReduceOp::sum_square) + 1));
    const auto rank = static_cast<std::size_t>(r.between(1, 4));
    Extents64 shape(rank), strides(rank), result(rank);
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = rank; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(r.below(static_cast<int>(i)))]);
    std::int64_t step = 1;
    for (const std::size_t i : order) {
      shape[i] = r.between(1, r.chance(0.1) ? 300 : 6);
      strides[i] = step, step *= shape[i];
    }
    std::vector<int> axes;
    for (std::size_t i = 0; i < rank; ++i) {
      result[i] = shape[i];
      if (r.chance(0.5)) axes.push_back(static_cast<int>(i)), result[i] = 1;
    }
    std::vector<float> x = numbers(r, step);
    if (op == ReduceOp::log_sum)
      for (float& v : x) v = std::abs(v) + 0.1F;
    const Extents64 dense = dense_strides(result);
    std::vector<float> y(static_cast<std::size_t>(count_of(result)), untouched);
    std::vector<std::vector<double>> parts(y.size());
    Extents64 repeated = dense;
    for (const int axis : axes) repeated[static_cast<std::size_t>(axis)] = 0;
    Odometer from(shape, strides), to(shape, repeated);
    for (std::int64_t i = 0; i < step; ++i, from.next(), to.next())
      parts[static_cast<std::size_t>(to.offset())].push_back(x[static_cast<std::size_t>(from.offset())]);
    reduce(op, {x.data(), DType::f32, shape, strides}, axes, {y.data(), DType::f32, result, dense}, pieces);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double expected = naive(op, parts[i]);
      ASSERT_NEAR(y[i], expected, 1e-6 * (1 + std::abs(expected))) << round << " operation " << static_cast<int>(op);
    }
  }
}

TEST(Reduce, NaNAndNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(40, 1.0F), y(2);
  x[23] = nan;  // in the second row
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::sum, ReduceOp::log_sum_exp}) {
    reduce(op, {x.data(), DType::f32, {2, 20}, {20, 1}}, {1}, {y.data(), DType::f32, {2, 1}, {1, 1}}, pieces);
    EXPECT_EQ(y[0], y[0]);
    EXPECT_NE(y[1], y[1]);
    reduce(op, {x.data(), DType::f32, {20, 2}, {1, 20}}, {0}, {y.data(), DType::f32, {1, 2}, {1, 1}}, pieces);
    EXPECT_EQ(y[0], y[0]);
    EXPECT_NE(y[1], y[1]);
  }
  reduce(ReduceOp::max, {nullptr, DType::f32, {2, 0}, {0, 1}}, {1}, {y.data(), DType::f32, {2, 1}, {1, 1}}, pieces);
  EXPECT_EQ(y, (std::vector<float>(2, -std::numeric_limits<float>::infinity())));
}

}  // namespace
}  // namespace unisono::cpu
