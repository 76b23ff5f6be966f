// Instructions other than the elementary functions, on every unit that this processor runs.

#include "runtime/cpu/vector/unit.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/float_convert.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {
namespace {

using test::Random;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<const VectorUnit*> units() {
  std::vector<const VectorUnit*> list;
  for (const char* name : {"generic", "avx2", "avx512"}) {
    try {
      list.push_back(&vector_unit(name));
    } catch (const InternalError&) {  // not on this processor
    }
  }
  return list;
}

bool same(float x, float y) {
  return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (x != x && y != y);
}

std::vector<float> run(const VectorUnit& u, Code code, const std::vector<float>& x, const std::vector<float>& y = {},
                       const std::vector<float>& z = {}, std::array<double, 2> immediate = {}) {
  std::vector<float> result(x.size() + 1, -7.0f);
  LaneArgs a;
  a.result = result.data();
  a.source[0] = x.data();
  a.source[1] = y.data();
  a.source[2] = z.data();
  a.step[0] = a.step[1] = a.step[2] = 1;
  a.lanes = x.size();
  a.immediate[0] = immediate[0];
  a.immediate[1] = immediate[1];
  u.float_lane[static_cast<int>(code)](a);
  EXPECT_EQ(result.back(), -7.0f) << "a lane too many was written";
  result.pop_back();
  return result;
}

// Bit patterns of all kinds: every exponent, subnormals, infinities, NaNs, ties of the short types
std::vector<float> patterns(std::size_t count) {
  Random r(5);
  std::vector<float> x;
  for (const float v : {0.0f, -0.0f, infinity, -infinity, nan, 65504.0f, 65519.9f, 65520.0f, -65520.0f, 0x1p-24f,
                        0x1p-25f, 0x1.8p-25f, 0x1p-14f, 0x1.ffcp-15f, 3.4028235e38f, 3.3961e38f, 1e-45f})
    x.push_back(v);
  while (x.size() < count) {
    auto bits = static_cast<std::uint32_t>(r.next());
    if (r.chance(0.3)) bits = (bits & 0xffffe000u) | 0x1000u;  // a tie of f16 and tf32
    if (r.chance(0.2)) bits = (bits & 0xffff0000u) | 0x8000u;  // a tie of bf16
    if (r.chance(0.5)) bits = (bits & 0x807fffffu) | static_cast<std::uint32_t>(r.between(90, 150)) << 23;
    x.push_back(std::bit_cast<float>(bits));
  }
  return x;
}

TEST(VectorUnit, TheBestUnitIsOneOfThem) {
  EXPECT_NO_THROW(vector_unit());
  EXPECT_NO_THROW(vector_unit("generic"));
  EXPECT_THROW(vector_unit("avx1024"), InternalError);
}

TEST(VectorUnit, RoundingIsThatOfSupport) {
  const auto x = patterns(50000);
  for (const VectorUnit* u : units()) {
    for (const auto& [code, type] : {std::pair{Code::round_bf16, DType::bf16}, std::pair{Code::round_f16, DType::f16},
                                     std::pair{Code::round_tf32, DType::tf32}}) {
      const auto y = run(*u, code, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto expected = static_cast<float>(support::round_to(static_cast<double>(x[i]), type));
        ASSERT_TRUE(same(y[i], expected)) << u->name << " " << to_string(type) << " of " << x[i] << ": " << y[i];
      }
    }
  }
}

TEST(VectorUnit, ShortFloatsInMemory) {
  const auto x = patterns(20003);
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const VectorUnit* u : units()) {
    std::vector<float> decoded(all.size());
    u->load_bf16(all.data(), decoded.data(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(same(decoded[i], support::bf16_to_float(all[i])));
    u->load_f16(all.data(), decoded.data(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_TRUE(same(decoded[i], support::f16_to_float(all[i]))) << u->name << " " << i;
    std::vector<std::uint16_t> encoded(x.size());
    u->store_bf16(x.data(), encoded.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(support::bf16_to_float(encoded[i]), support::bf16_to_float(support::float_to_bf16(x[i]))));
    u->store_f16(x.data(), encoded.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(support::f16_to_float(encoded[i]), support::f16_to_float(support::float_to_f16(x[i]))))
          << u->name << " " << x[i];
  }
}

TEST(VectorUnit, SpecialValues) {
  struct Row {
    Code code;
    float x, expected;
  };
  const Row rows[] = {{Code::exp, -infinity, 0},
                      {Code::exp, infinity, infinity},
                      {Code::exp, nan, nan},
                      {Code::exp, 200, infinity},
                      {Code::exp, -200, 0},
                      {Code::exp, 0, 1},
                      {Code::log, 0, -infinity},
                      {Code::log, -1, nan},
                      {Code::log, infinity, infinity},
                      {Code::log1p, -1, -infinity},
                      {Code::tanh, infinity, 1},
                      {Code::tanh, -infinity, -1},
                      {Code::sigmoid, -infinity, 0},
                      {Code::sigmoid, infinity, 1},
                      {Code::sigmoid, nan, nan},
                      {Code::silu, infinity, infinity},
                      {Code::silu, nan, nan},
                      {Code::silu, 0, 0},
                      {Code::mish, infinity, infinity},
                      {Code::mish, 1e30f, 1e30f},
                      {Code::mish, nan, nan},
                      {Code::softplus, infinity, infinity},
                      {Code::softplus, -infinity, 0},
                      {Code::softplus, nan, nan},
                      {Code::logsigmoid, infinity, -0.0f},
                      {Code::logsigmoid, -infinity, -infinity},
                      {Code::relu, nan, nan},
                      {Code::relu, -3, 0},
                      {Code::relu6, nan, nan},
                      {Code::relu6, infinity, 6},
                      {Code::abs, -0.0f, 0},
                      {Code::neg, 0, -0.0f},
                      {Code::sqrt, -1, nan},
                      {Code::rsqrt, 0, infinity},
                      {Code::reciprocal, 0, infinity},
                      {Code::round_bool, nan, 1},
                      {Code::round_bool, -0.0f, 0},
                      {Code::logical_not, 1, 0},
                      {Code::elu, -infinity, -2},
                      {Code::leaky_relu, -3, -6},
                      {Code::gelu, infinity, infinity},
                      {Code::hardswish, -4, -0.0f},
                      {Code::clamp, nan, nan},
                      {Code::erf, -infinity, -1}};
  for (const VectorUnit* u : units())
    for (const Row& row : rows) {
      const std::array<double, 2> immediate{2, row.code == Code::clamp ? 3.0 : 0.5};
      const float y = run(*u, row.code, {row.x}, {}, {}, immediate)[0];
      EXPECT_TRUE(same(y, row.expected)) << u->name << " code " << static_cast<int>(row.code) << " of " << row.x << ": "
                                         << y << " instead of " << row.expected;
    }
}

TEST(VectorUnit, TwoAndThreeOperands) {
  const std::vector<float> x{1, nan, 2, -0.0f, infinity, 3}, y{2, 1, nan, 0.0f, infinity, 3};
  for (const VectorUnit* u : units()) {
    const auto largest = run(*u, Code::max, x, y), smallest = run(*u, Code::min, x, y);
    EXPECT_EQ(largest[0], 2);
    EXPECT_EQ(smallest[0], 1);
    for (const std::size_t i : {1u, 2u}) {
      EXPECT_TRUE(std::isnan(largest[i])) << "NaN wins";
      EXPECT_TRUE(std::isnan(smallest[i])) << "NaN wins";
    }
    EXPECT_EQ(run(*u, Code::less, x, y), (std::vector<float>{1, 0, 0, 0, 0, 0}));
    EXPECT_EQ(run(*u, Code::less_equal, x, y), (std::vector<float>{1, 0, 0, 1, 1, 1}));
    EXPECT_EQ(run(*u, Code::not_equal, x, y), (std::vector<float>{1, 1, 1, 0, 0, 0}));
    EXPECT_EQ(run(*u, Code::select, {1, 0, 1, 0}, {10, 11, 12, 13}, {20, 21, 22, 23}),
              (std::vector<float>{10, 21, 12, 23}));
    EXPECT_EQ(run(*u, Code::sub_mul, {5, 7}, {2, 3}, {10, 100}), (std::vector<float>{30, 400}));
    EXPECT_EQ(run(*u, Code::logical_and, {1, 1, 0, 0}, {1, 0, 1, 0}), (std::vector<float>{1, 0, 0, 0}));
    EXPECT_EQ(run(*u, Code::logical_or, {1, 1, 0, 0}, {1, 0, 1, 0}), (std::vector<float>{1, 1, 1, 0}));
  }
}

TEST(VectorUnit, TailsAndScalars) {
  std::vector<float> x(70), three(scalar_lanes, 3.0f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for (const VectorUnit* u : units()) {
    for (std::size_t lanes = 0; lanes <= 67; ++lanes) {
      std::vector<float> result(x.size(), -1.0f);
      LaneArgs a;
      a.result = result.data();
      a.source[0] = x.data();
      a.source[1] = three.data();
      a.step[0] = 1;
      a.step[1] = 0;
      a.lanes = lanes;
      u->float_lane[static_cast<int>(Code::mul)](a);
      for (std::size_t i = 0; i < result.size(); ++i)
        ASSERT_EQ(result[i], i < lanes ? 3 * x[i] : -1.0f) << u->name << ", " << lanes << " lanes";
    }
  }
}

TEST(VectorUnit, DoubleLanes) {
  const std::vector<double> x{-1.5, 2147483646.7, 1e300, -1e300, std::nan(""), 0.3, 7, -2.9, 3};
  for (const VectorUnit* u : units()) {
    std::vector<double> y(x.size());
    LaneArgs a;
    a.result = y.data();
    a.source[0] = x.data();
    a.step[0] = 1;
    a.lanes = x.size();
    u->double_lane[static_cast<int>(Code::round_i32)](a);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], support::round_to(x[i], DType::i32)) << u->name;
    std::vector<float> narrow(x.size());
    a.result = narrow.data();
    u->narrow(a);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(same(narrow[i], static_cast<float>(x[i]))) << u->name;
    a.result = y.data();
    a.source[0] = narrow.data();
    u->widen(a);
    EXPECT_EQ(y[7], static_cast<double>(-2.9f));
  }
}

// Against sums in double; two blocks, so that the second merges with the first
TEST(VectorUnit, AccumulatesBlocks) {
  Random r(3);
  for (const VectorUnit* u : units()) {
    for (const std::size_t period : {1u, 16u, 21u, 64u}) {
      constexpr std::size_t repeats = 9;
      std::vector<float> block(2 * repeats * period);
      for (float& v : block) v = static_cast<float>(r.uniform(-1, 1)) + 1000;
      for (int kind = 0; kind < 5; ++kind) {
        std::vector<float> first(period + 1, -7.0f), second(period + 1, -7.0f);
        for (std::size_t half = 0; half < 2; ++half)
          u->accumulate[kind]({.block = block.data() + half * repeats * period,
                               .period = period,
                               .repeats = repeats,
                               .lanes = period,
                               .collected = half * repeats,
                               .first = first.data(),
                               .second = second.data()});
        EXPECT_EQ(first[period], -7.0f);
        EXPECT_EQ(second[period], -7.0f);
        for (std::size_t i = 0; i < period; ++i) {
          double sum = 0, squares = 0, deviations = 0, high = -1e9, low = 1e9;
          for (std::size_t j = i; j < block.size(); j += period) sum += block[j];
          const double n = 2 * repeats, mean = sum / n;
          for (std::size_t j = i; j < block.size(); j += period) {
            const double x = block[j];
            squares += x * x;
            deviations += (x - mean) * (x - mean);
            high = std::max(high, x);
            low = std::min(low, x);
          }
          switch (static_cast<Collect>(kind)) {
            case Collect::sum: EXPECT_NEAR(first[i], sum, 1e-5 * sum); break;
            case Collect::sum_squares: EXPECT_NEAR(first[i], squares, 1e-5 * squares); break;
            case Collect::moments:
              EXPECT_NEAR(first[i], mean, 2e-7 * mean);
              // a sum of squares less n·mean² would be off by n·10^6·2^-24, far more than this
              EXPECT_NEAR(second[i], deviations, 1e-3 * deviations + 1e-4) << u->name << " period " << period;
              break;
            case Collect::largest: EXPECT_EQ(first[i], high); break;
            case Collect::smallest: EXPECT_EQ(first[i], low); break;
          }
        }
      }
    }
  }
}

TEST(VectorUnit, ReducesRows) {
  Random r(4);
  for (const VectorUnit* u : units()) {
    for (std::size_t width = 1; width <= 70; ++width) {
      constexpr std::size_t rows = 3;
      std::vector<float> x(rows * width), y(rows + 1, -7.0f);
      for (float& v : x) v = static_cast<float>(r.uniform(1, 2));
      for (int kind = 0; kind < row_result_count; ++kind) {
        u->reduce_rows[kind]({.source = x.data(), .rows = rows, .width = width, .result = y.data()});
        EXPECT_EQ(y[rows], -7.0f);
        for (std::size_t i = 0; i < rows; ++i) {
          double sum = 0, squares = 0, variance = 0, high = 0, low = 9;
          for (std::size_t j = 0; j < width; ++j) sum += x[i * width + j];
          for (std::size_t j = 0; j < width; ++j) {
            const double v = x[i * width + j], d = v - sum / static_cast<double>(width);
            squares += v * v;
            variance += d * d / static_cast<double>(width);
            high = std::max(high, v);
            low = std::min(low, v);
          }
          const double expected[] = {sum, sum / static_cast<double>(width), squares, variance, high, low};
          ASSERT_NEAR(y[i], expected[kind], 2e-6 * (1 + expected[kind])) << u->name << " width " << width;
        }
      }
      x[width / 2] = nan;
      u->reduce_rows[static_cast<int>(RowResult::largest)]({x.data(), rows, width, y.data()});
      EXPECT_TRUE(std::isnan(y[0])) << u->name << " width " << width;
      u->reduce_rows[static_cast<int>(RowResult::smallest)]({x.data(), rows, width, y.data()});
      EXPECT_TRUE(std::isnan(y[0])) << u->name << " width " << width;
    }
  }
}

// Whole squares and what is left of them, results that begin on a cache line and between two, lines kept and not
TEST(VectorUnit, TransposesWhateverTheAlignment) {
  constexpr std::size_t pitch = 112;
  for (const VectorUnit* u : units())
    for (const bool past_caches : {false, true})
      for (const std::size_t offset : {0u, 1u, 4u, 15u})
        for (const std::size_t rows : {15u, 16u, 17u, 31u, 32u, 33u, 47u, 64u, 80u})
          for (const std::size_t cols : {3u, 16u, 35u}) {
            for (const std::size_t to_pitch : {pitch, pitch + 1}) {  // rows alike on their lines, or not
              std::vector<float> from(rows * 50), memory(cols * to_pitch + 32, -7.0f);
              for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
              const std::size_t line = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) / sizeof(float) % 16;
              float* const to = memory.data() + line + offset;
              (past_caches ? u->transpose_past_caches : u->transpose)(
                  from.data(), 50, to, static_cast<std::ptrdiff_t>(to_pitch), rows, cols);
              u->finish_stores_past_caches();
              for (std::size_t j = 0; j < cols; ++j)
                for (std::size_t i = 0; i < rows + 1; ++i)
                  ASSERT_EQ(to[j * to_pitch + i], i < rows ? from[i * 50 + j] : -7.0f)
                      << u->name << " " << rows << "x" << cols << " from " << offset << " on, row " << i;
              for (float* p = memory.data(); p < to; ++p) ASSERT_EQ(*p, -7.0f) << u->name << " wrote before the result";
            }
          }
}

// One loop gives the bits of the instructions that it stands for
TEST(VectorUnit, NormaliseIsItsParts) {
  Random r(11);
  std::vector<std::vector<float>> x(5, std::vector<float>(83));
  for (auto& v : x)
    for (float& e : v) e = static_cast<float>(r.uniform(-9, 9));
  x[0][3] = nan;
  x[0][4] = infinity;
  for (const VectorUnit* u : units())
    for (const Code end : normalise_ends)
      for (const bool bias : {false, true}) {
        std::vector<float> expected(83), y(83);
        LaneArgs a{.result = y.data(), .lanes = 83};
        for (int k = 0; k < 5; ++k) {
          a.source[k] = k < 4 || bias ? x[static_cast<std::size_t>(k)].data() : nullptr;
          a.step[k] = 1;
        }
        u->normalise[static_cast<int>(end)](a);
        expected = bias ? run(*u, Code::add, x[0], x[4]) : x[0];
        LaneArgs b = a;
        std::vector<float> normal(83);
        b.result = normal.data();
        b.source[0] = expected.data();
        u->float_lane[static_cast<int>(Code::sub_fma)](b);
        expected = run(*u, end, normal);
        for (std::size_t i = 0; i < 83; ++i)
          ASSERT_TRUE(same(y[i], expected[i]))
              << u->name << " end " << static_cast<int>(end) << ": " << y[i] << " instead of " << expected[i];
      }
}

TEST(VectorUnit, AddReluIsItsParts) {
  Random r(12);
  std::vector<float> x(83), y(83);
  for (std::vector<float>* v : {&x, &y})
    for (float& e : *v) e = static_cast<float>(r.uniform(-9, 9));
  x[3] = y[20] = nan;
  x[4] = y[21] = -infinity;
  x[5] = -y[5];
  x[6] = y[6] = -0.0f;
  for (const VectorUnit* u : units()) {
    const std::vector<float> joined = run(*u, Code::add_relu, x, y),
                             expected = run(*u, Code::relu, run(*u, Code::add, x, y));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(joined[i], expected[i])) << u->name << ": " << joined[i] << " instead of " << expected[i];
  }
}

TEST(VectorUnit, Transposes) {
  for (const VectorUnit* u : units())
    for (std::size_t rows = 1; rows < 11; ++rows)
      for (std::size_t cols = 1; cols < 11; ++cols) {
        std::vector<float> from(rows * 13), to(cols * 12, -7.0f);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        u->transpose(from.data(), 13, to.data(), 12, rows, cols);
        for (std::size_t j = 0; j < cols; ++j)
          for (std::size_t i = 0; i < 12; ++i)
            ASSERT_EQ(to[j * 12 + i], i < rows ? from[i * 13 + j] : -7.0f) << u->name;
      }
}

// Channels that fill no vector, several, and several and a bit; windows of one pixel to some
TEST(VectorUnit, Windows) {
  Random r(11);
  for (const VectorUnit* u : units())
    for (const std::size_t channels : {1, 3, 8, 16, 21, 64, 75, 130})
      for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{1, 1}, {3, 2}, {2, 7}, {0, 4}}) {
        const auto pixel = static_cast<std::ptrdiff_t>(channels + 2), row = 9 * pixel;
        std::vector<float> x(static_cast<std::size_t>(row) * 3);
        for (float& v : x) v = static_cast<float>(r.uniform(-2, 2));
        if (rows * cols > 1 && channels > 1) x[static_cast<std::size_t>(pixel) + 1] = nan;
        std::vector<float> largest(channels + 1, -7.0f), mean = largest;
        WindowArgs w{.first = x.data(),
                     .rows = rows,
                     .cols = cols,
                     .row_pitch = row,
                     .col_pitch = pixel,
                     .channels = channels,
                     .divisor = 5,
                     .result = largest.data()};
        u->window_largest(w);
        w.result = mean.data();
        u->window_mean(w);
        EXPECT_EQ(largest[channels], -7.0f);
        EXPECT_EQ(mean[channels], -7.0f);
        for (std::size_t c = 0; c < channels; ++c) {
          float best = -infinity;
          double sum = 0;
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j) {
              const float v = x[i * static_cast<std::size_t>(row) + j * static_cast<std::size_t>(pixel) + c];
              best = best != best || v <= best ? best : v;
              sum += static_cast<double>(v);
            }
          EXPECT_TRUE(same(largest[c], best)) << u->name << " channel " << c << " of " << channels;
          EXPECT_TRUE(same(mean[c], static_cast<float>(sum / 5))) << u->name << " channel " << c << " of " << channels;
        }
      }
}

// 2^24 + 1 is no float: a sum in f32 would lose what is added to it
TEST(VectorUnit, RowProductsAreSummedInF64) {
  Random r(12);
  for (const VectorUnit* u : units())
    for (const std::size_t terms : {1, 2, 75}) {
      std::vector<float> a(terms), b(terms * row_product_columns);
      for (float& v : a) v = static_cast<float>(r.uniform(-2, 2));
      for (float& v : b) v = static_cast<float>(r.uniform(-2, 2));
      a.front() = 0x1p24f;
      b.front() = 1;
      std::vector<double> sums(row_product_columns);
      u->row_product(a.data(), b.data(), terms, sums.data());
      for (std::size_t j = 0; j < row_product_columns; ++j) {
        double sum = 0;
        for (std::size_t i = 0; i < terms; ++i)
          sum += static_cast<double>(a[i]) * static_cast<double>(b[i * row_product_columns + j]);
        EXPECT_NEAR(sums[j], sum, 1e-6) << u->name << ", column " << j;
      }
    }
}

// Planes of colours to pixels
TEST(VectorUnit, TransposesThreeRows) {
  for (const VectorUnit* u : units())
    for (const std::size_t cols : {1, 15, 16, 40, 67}) {
      std::vector<float> x(3 * (cols + 5)), y(3 * cols + 1, -7.0f);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      u->transpose(x.data(), static_cast<std::ptrdiff_t>(cols + 5), y.data(), 3, 3, cols);
      for (std::size_t j = 0; j < cols; ++j)
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(y[3 * j + i], x[i * (cols + 5) + j]) << u->name;
      EXPECT_EQ(y.back(), -7.0f);
    }
}

}  // namespace
}  // namespace unisono::cpu
