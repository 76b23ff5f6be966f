#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"
#include "unit/reference/data.hpp"

namespace unisono::reference::test {
namespace {

using Shape = std::vector<std::int64_t>;
using testing::AllOf;
using testing::HasSubstr;

// A dense four-dimensional array with bounds checks, for definitions written by index
struct Array4 {
  Shape shape;
  std::vector<float> data;
  float& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return data.at(static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d));
  }
};

[[maybe_unused]] Array4 random_array(const Shape& shape, unsigned seed) {
  return {shape, random_integers(static_cast<std::size_t>(element_count(shape)), seed)};
}

[[maybe_unused]] Array4 permuted(Array4& x, const std::array<int, 4>& order) {
  Array4 y{{x.shape[order[0]], x.shape[order[1]], x.shape[order[2]], x.shape[order[3]]}, {}};
  y.data.resize(x.data.size());
  Shape i(4);
  for (i[0] = 0; i[0] < x.shape[0]; ++i[0])
    for (i[1] = 0; i[1] < x.shape[1]; ++i[1])
      for (i[2] = 0; i[2] < x.shape[2]; ++i[2])
        for (i[3] = 0; i[3] < x.shape[3]; ++i[3])
          y.at(i[order[0]], i[order[1]], i[order[2]], i[order[3]]) = x.at(i[0], i[1], i[2], i[3]);
  return y;
}

std::vector<double> contracted(const Contraction& c, const std::vector<float>& a, const std::vector<float>& b) {
  return contract(c, view(a, shape_a(c)), view(b, shape_b(c))).value;
}

// acc (batch, m, n) written as the sum of outer products
TEST(Gemm, AllTransposesAgreeWithOuterProducts) {
  const std::int64_t batch = 2, m = 5, n = 11, k = 7;
  const auto a = random_integers(batch * m * k, 1), b = random_integers(batch * k * n, 2);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      std::vector<double> expected(batch * m * n, 0);
      for (std::int64_t z = 0; z < batch; ++z)
        for (std::int64_t l = 0; l < k; ++l)
          for (std::int64_t j = 0; j < n; ++j)
            for (std::int64_t i = 0; i < m; ++i) {
              const float x = a[z * m * k + (ta ? l * m + i : i * k + l)];
              const float y = b[z * k * n + (tb ? j * k + l : l * n + j)];
              expected[(z * m + i) * n + j] += x * y;
            }
      const Gemm g{.batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb};
      EXPECT_EQ(contracted(g, a, b), expected) << ta << tb;
    }
  }
}

// Rows of each group by its own matrix, which is a product of its own
TEST(Gemm, GroupsAreProductsOfTheirOwn) {
  const std::int64_t n = 9, k = 7;
  const std::vector<std::int64_t> rows{3, 1, 5};
  const auto a = random_integers(9 * k, 3), b = random_integers(3 * k * n, 4);
  for (const bool tb : {false, true}) {
    std::vector<double> expected;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < rows.size(); first += rows[g++]) {
      const std::vector<float> own_a(a.begin() + first * k, a.begin() + (first + rows[g]) * k);
      const std::vector<float> own_b(b.begin() + static_cast<std::int64_t>(g) * k * n,
                                     b.begin() + static_cast<std::int64_t>(g + 1) * k * n);
      const auto own = contracted(Gemm{.m = rows[g], .n = n, .k = k, .transpose_b = tb}, own_a, own_b);
      expected.insert(expected.end(), own.begin(), own.end());
    }
    EXPECT_EQ(contracted(Gemm{.m = 9, .n = n, .k = k, .transpose_b = tb, .group_rows = rows}, a, b), expected);
  }
}

// The sum <dY, conv(X, W)> is linear in W: its derivative at each of W's elements
TEST(FilterGradient, IsTheDerivativeByTheFilter) {
  FilterGradient2d g{.n = 2, .h = 6, .w = 5, .c = 3, .k = 4, .r = 3, .s = 2};
  g.stride = {2, 1}, g.pad = {1, 0, 2, 1}, g.dilation = {1, 2};
  const Conv2d conv = g.convolution();
  const auto y = random_integers(static_cast<std::size_t>(element_count(shape_a(g))), 5);
  const auto x = random_integers(static_cast<std::size_t>(element_count(shape_b(g))), 6);
  const std::vector<double> gradient = contracted(g, y, x);
  ASSERT_EQ(gradient.size(), static_cast<std::size_t>(element_count(shape_mn(g))));
  for (std::size_t at = 0; at < gradient.size(); ++at) {
    std::vector<float> w(gradient.size(), 0);
    w[at] = 1;
    const std::vector<double> result = contracted(conv, x, w);
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) sum += result[i] * y[i];
    EXPECT_EQ(gradient[at], sum) << at;
  }
}

// im2col: the image padded on paper, then one row of products for each output
std::vector<double> direct_convolution(const Conv2d& c, Array4& x, Array4& w) {
  const Extents e = extents(c);
  const std::int64_t high = c.h + c.pad[0] + c.pad[2], wide = c.w + c.pad[1] + c.pad[3];
  Array4 padded{{c.n, high, wide, c.c}, std::vector<float>(static_cast<std::size_t>(c.n * high * wide * c.c), 0)};
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t h = 0; h < c.h; ++h)
      for (std::int64_t v = 0; v < c.w; ++v)
        for (std::int64_t i = 0; i < c.c; ++i) padded.at(b, h + c.pad[0], v + c.pad[1], i) = x.at(b, h, v, i);
  std::vector<double> y;
  const std::int64_t in = c.c / c.groups, out = c.k / c.groups;
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t p = 0; p < e.height; ++p)
      for (std::int64_t q = 0; q < e.width; ++q)
        for (std::int64_t k = 0; k < c.k; ++k) {
          double sum = 0;
          for (std::int64_t i = 0; i < in; ++i)
            for (std::int64_t r = 0; r < c.r; ++r)
              for (std::int64_t s = 0; s < c.s; ++s)
                sum += padded.at(b, p * c.stride[0] + r * c.dilation[0], q * c.stride[1] + s * c.dilation[1],
                                 k / out * in + i) *
                       w.at(k, r, s, i);
          y.push_back(sum);
        }
  return y;
}

struct ConvCase {
  const char* name;
  Conv2d conv;
};

const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> cases{
      {"pointwise", {.n = 2, .h = 3, .w = 4, .c = 5, .k = 9}},
      {"same", {.n = 1, .h = 6, .w = 5, .c = 3, .k = 8, .r = 3, .s = 3, .pad = {1, 1, 1, 1}}},
      {"stride", {.n = 2, .h = 7, .w = 8, .c = 2, .k = 3, .r = 3, .s = 2, .stride = {2, 3}, .pad = {1, 0, 1, 0}}},
      {"uneven pads", {.n = 1, .h = 4, .w = 4, .c = 2, .k = 2, .r = 2, .s = 4, .pad = {0, 3, 2, 1}}},
      {"dilation", {.n = 1, .h = 9, .w = 8, .c = 2, .k = 4, .r = 3, .s = 2, .pad = {2, 1, 2, 1}, .dilation = {2, 3}}},
      {"groups", {.n = 2, .h = 4, .w = 5, .c = 6, .k = 9, .r = 3, .s = 3, .pad = {1, 1, 1, 1}, .groups = 3}},
      {"depthwise",
       {.n = 1, .h = 5, .w = 5, .c = 7, .k = 7, .r = 3, .s = 3, .stride = {2, 2}, .pad = {1, 1, 1, 1}, .groups = 7}},
      {"all padding in a corner", {.n = 1, .h = 1, .w = 1, .c = 1, .k = 1, .r = 1, .s = 1, .pad = {2, 2, 2, 2}}},
      {"everything",
       {.n = 2,
        .h = 8,
        .w = 9,
        .c = 4,
        .k = 6,
        .r = 2,
        .s = 3,
        .stride = {2, 1},
        .pad = {1, 2, 0, 1},
        .dilation = {2, 2},
        .groups = 2}},
  };
  return cases;
}

TEST(Conv2d, AgreesWithPaddedDefinitionInBothLayouts) {
  for (const auto& [name, conv] : conv_cases()) {
    SCOPED_TRACE(name);
    Conv2d c = conv;
    Array4 x = random_array(shape_a(c), 1), w = random_array(shape_b(c), 2);
    const auto expected = direct_convolution(c, x, w);
    EXPECT_EQ(contracted(c, x.data, w.data), expected);
    c.layout = Layout::nchw;
    EXPECT_EQ(contracted(c, permuted(x, {0, 3, 1, 2}).data, permuted(w, {0, 3, 1, 2}).data), expected);
  }
}

// y[b, h·stride + r·dilation − pad] += x[b, h]·w[r]: the definition by scattering
std::vector<double> scattered(const ConvTranspose2d& c, Array4& x, Array4& w) {
  const Extents e = extents(c);
  std::vector<double> y(static_cast<std::size_t>(e.rows() * e.cols), 0);
  const std::int64_t in = c.c / c.groups, out = c.k / c.groups;
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t h = 0; h < c.h; ++h)
      for (std::int64_t v = 0; v < c.w; ++v)
        for (std::int64_t i = 0; i < c.c; ++i)
          for (std::int64_t r = 0; r < c.r; ++r)
            for (std::int64_t s = 0; s < c.s; ++s)
              for (std::int64_t k = 0; k < out; ++k) {
                const std::int64_t p = h * c.stride[0] + r * c.dilation[0] - c.pad[0];
                const std::int64_t q = v * c.stride[1] + s * c.dilation[1] - c.pad[1];
                if (p < 0 || p >= e.height || q < 0 || q >= e.width) continue;
                y.at(static_cast<std::size_t>(((b * e.height + p) * e.width + q) * c.k + i / in * out + k)) +=
                    x.at(b, h, v, i) * w.at(i, r, s, k);
              }
  return y;
}

// Planes, rows and columns each with a stride, margins and a dilation of their own, in groups
TEST(Conv3d, AgreesWithTheDefinition) {
  Conv3d c{.n = 2, .d = 5, .h = 6, .w = 7, .c = 4, .k = 6, .t = 3, .r = 2, .s = 3};
  c.stride = {2, 1, 3}, c.before = {1, 2, 0}, c.after = {0, 1, 2}, c.dilation = {1, 2, 1}, c.groups = 2;
  const auto x = random_integers(static_cast<std::size_t>(element_count(shape_a(c))), 5),
             w = random_integers(static_cast<std::size_t>(element_count(shape_b(c))), 6);
  const auto y = contracted(c, x, w);
  const Shape out = shape_mn(c);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < out[0]; ++b)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t p = 0; p < out[2]; ++p)
        for (std::int64_t q = 0; q < out[3]; ++q)
          for (std::int64_t k = 0; k < out[4]; ++k, ++at) {
            double sum = 0;
            for (std::int64_t t = 0; t < 3; ++t)
              for (std::int64_t r = 0; r < 2; ++r)
                for (std::int64_t s = 0; s < 3; ++s)
                  for (std::int64_t i = 0; i < 2; ++i) {
                    const std::int64_t d = 2 * o + t - 1, h = p + 2 * r - 2, v = 3 * q + s;
                    if (d < 0 || d >= 5 || h < 0 || h >= 6 || v >= 7) continue;
                    const std::int64_t from = (((b * 5 + d) * 6 + h) * 7 + v) * 4 + k / 3 * 2 + i,
                                       by = (((k * 3 + t) * 2 + r) * 3 + s) * 2 + i;
                    sum += double{x[static_cast<std::size_t>(from)]} * w[static_cast<std::size_t>(by)];
                  }
            EXPECT_EQ(y.at(at), sum) << b << "," << o << "," << p << "," << q << "," << k;
          }
  EXPECT_EQ(at, y.size());
}

TEST(ConvTranspose2d, AgreesWithScatteringInBothLayouts) {
  const std::vector<ConvTranspose2d> cases{
      {.n = 2, .h = 3, .w = 4, .c = 3, .k = 5, .r = 2, .s = 2, .stride = {2, 2}},
      {.n = 1,
       .h = 4,
       .w = 3,
       .c = 2,
       .k = 9,
       .r = 3,
       .s = 3,
       .stride = {2, 3},
       .pad = {1, 1, 1, 0},
       .output_pad = {1, 2}},
      {.n = 1,
       .h = 4,
       .w = 4,
       .c = 4,
       .k = 6,
       .r = 3,
       .s = 2,
       .stride = {1, 2},
       .pad = {0, 2, 3, 1},
       .dilation = {2, 3},
       .groups = 2},
      {.n = 1, .h = 2, .w = 2, .c = 5, .k = 5, .r = 4, .s = 4, .stride = {3, 3}, .output_pad = {2, 0}, .groups = 5},
  };
  for (ConvTranspose2d c : cases) {
    SCOPED_TRACE(to_string(Contraction(c)));
    Array4 x = random_array(shape_a(c), 3), w = random_array(shape_b(c), 4);
    const auto expected = scattered(c, x, w);
    EXPECT_EQ(contracted(c, x.data, w.data), expected);
    c.layout = Layout::nchw;
    EXPECT_EQ(contracted(c, permuted(x, {0, 3, 1, 2}).data, permuted(w, {0, 3, 1, 2}).data), expected);
  }
}

// <y, Conv x> = <ConvTranspose y, x> with the same filter
TEST(ConvTranspose2d, IsTheAdjointOfConv2d) {
  for (const auto& [name, c] : conv_cases()) {
    SCOPED_TRACE(name);
    const Extents e = extents(c);
    ConvTranspose2d t{.n = c.n,
                      .h = e.height,
                      .w = e.width,
                      .c = c.k,
                      .k = c.c,
                      .r = c.r,
                      .s = c.s,
                      .stride = c.stride,
                      .pad = c.pad,
                      .dilation = c.dilation,
                      .groups = c.groups};
    for (int d = 0; d < 2; ++d) {  // rows of x beyond the last window
      const std::int64_t reached = (d == 0 ? e.height : e.width) - 1;
      const std::int64_t extent = (d == 0 ? c.h : c.w) + c.pad[d] + c.pad[d + 2];
      t.output_pad[d] = extent - (reached * c.stride[d] + c.dilation[d] * ((d == 0 ? c.r : c.s) - 1) + 1);
    }
    ASSERT_EQ(extents(t).rows() * extents(t).cols, c.n * c.h * c.w * c.c);
    const auto x = random_integers(static_cast<std::size_t>(element_count(shape_a(c))), 5);
    const auto w = random_integers(static_cast<std::size_t>(element_count(shape_b(c))), 6);
    const auto y = random_integers(static_cast<std::size_t>(e.rows() * e.cols), 7);
    const auto forward = contracted(c, x, w), backward = contracted(t, y, w);
    EXPECT_EQ(std::inner_product(forward.begin(), forward.end(), y.begin(), 0.0),
              std::inner_product(backward.begin(), backward.end(), x.begin(), 0.0));
  }
}

TEST(Contract, ReadsStridedViewsOfAnyDtype) {
  const Gemm g{.m = 3, .n = 2, .k = 4};
  const auto a = random_integers(12, 1), b = random_integers(8, 2);
  const auto expected = contracted(g, a, b);
  std::vector<std::uint16_t> bf16(3 * 10, 0x7fc0), f16(2 * 4);  // NaN between the rows of a
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) bf16[i * 10 + 2 * j] = support::float_to_bf16(a[i * 4 + j]);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j) f16[j * 4 + i] = support::float_to_f16(b[i * 2 + j]);  // column-major
  const ConstTensorView va{bf16.data(), DType::bf16, {1, 3, 4}, {30, 10, 2}};
  const ConstTensorView vb{f16.data(), DType::f16, {1, 4, 2}, {8, 1, 4}};
  EXPECT_EQ(contract(g, va, vb).value, expected);
  std::vector<std::int32_t> whole(a.begin(), a.end());
  EXPECT_EQ(contract(g, view(whole, {1, 3, 4}), vb).value, expected);
}

TEST(Contract, RoundsTf32OperandsAndAllowsTruncation) {
  const Gemm g{.m = 1, .n = 1, .k = 1};
  const std::vector<float> a{1 + 0x1.8p-11f}, b{1};
  const ConstTensorView va{a.data(), DType::tf32, {1, 1, 1}, {}};
  const Values y = contract(g, va, view(b, {1, 1, 1}));
  EXPECT_EQ(y.value[0], 1 + 0x1p-10);
  EXPECT_GE(y.bound[0], 0x1p-10);  // truncated: 1
  EXPECT_LE(y.bound[0], 0x1.1p-10);
}

// The bound is depth·u·Σ|a·b| and holds for sums in f32 in any order; it is not loose by orders of magnitude
TEST(Contract, BoundHoldsForFloatSumsAndIsTight) {
  const std::int64_t k = 32;
  const Gemm g{.m = 20, .n = 30, .k = k};
  const auto a = random_floats(20 * k, 1), b = random_floats(30 * k, 2);
  const Values y = contract(g, view(a, {1, 20, k}), view(b, {1, k, 30}));
  std::vector<double> ratio;
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 30; ++j) {
      float up = 0, down = 0;
      double magnitude = 0;
      for (int l = 0; l < k; ++l) {
        up += a[i * k + l] * b[l * 30 + j];
        down += a[i * k + k - 1 - l] * b[(k - 1 - l) * 30 + j];
        magnitude += std::abs(static_cast<double>(a[i * k + l]) * b[l * 30 + j]);
      }
      const double bound = y.bound[i * 30 + j];
      EXPECT_NEAR(bound, k * 0x1p-24 * magnitude, 1e-4 * bound);
      for (const float s : {up, down}) {
        EXPECT_LE(std::abs(s - y.value[i * 30 + j]), bound);
        ratio.push_back(bound / std::max(std::abs(s - y.value[i * 30 + j]), 1e-12));
      }
    }
  std::nth_element(ratio.begin(), ratio.begin() + 600, ratio.end());
  EXPECT_LT(ratio[600], 300);
}

TEST(Contract, SmallIntegersAreExact) {
  const Gemm g{.m = 2, .n = 2, .k = 50};
  const auto a = random_integers(100, 1), b = random_integers(100, 2);
  const auto exact_bounds = contract(g, view(a, {1, 2, 50}), view(b, {1, 50, 2})).bound;
  EXPECT_THAT(exact_bounds, testing::Each(0));
  auto large = a;
  large[0] = 0x1p23f;
  large[1] = 0x1p23f;
  EXPECT_GT(contract(g, view(large, {1, 2, 50}), view(b, {1, 50, 2})).bound[0], 0);
}

TEST(Contract, NonFiniteOperandsAndOverflow) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Gemm g{.m = 1, .n = 4, .k = 2};
  const std::vector<float> a{1, 3e38f}, b{inf, nan, 1, 2, 1, 1, 0, 3};
  const Values y = contract(g, view(a, {1, 1, 2}), view(b, {1, 2, 4}));
  EXPECT_EQ(y.value[0], inf);
  EXPECT_EQ(y.bound[0], 0);
  EXPECT_TRUE(std::isnan(y.value[1]));
  EXPECT_EQ(y.bound[1], 0);
  EXPECT_EQ(y.value[2], 1);
  EXPECT_LT(y.bound[2], 1e-6);
  EXPECT_EQ(y.bound[3], inf);  // 9e38 is beyond f32: no claim
}

TEST(Contract, LargeOnesDoNotDependOnThreads) {
  const Conv2d c{.n = 2, .h = 24, .w = 24, .c = 16, .k = 24, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  ASSERT_GT(flop(c), 4e6);  // enough for several threads
  Array4 x = random_array(shape_a(c), 1), w = random_array(shape_b(c), 2);
  EXPECT_EQ(contracted(c, x.data, w.data), direct_convolution(c, x, w));
}

TEST(Contract, RefusesWrongOperands) {
  const Gemm g{.m = 2, .n = 3, .k = 4};
  const std::vector<float> x(24);
  const auto message = [&](const ConstTensorView& a, const ConstTensorView& b) -> std::string {
    try {
      contract(g, a, b);
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message(view(x, {4, 2}), view(x, {1, 4, 3})),
              AllOf(HasSubstr("the left operand of"), HasSubstr("(1, 4, 2); expected (1, 2, 4)")));
  EXPECT_THAT(message(view(x, {1, 2, 4}), view(x, {1, 3, 4})),
              AllOf(HasSubstr("the right operand of"), HasSubstr("expected (1, 4, 3)")));
  EXPECT_THAT(message({nullptr, DType::f32, {1, 2, 4}, {}}, view(x, {1, 4, 3})), HasSubstr("null pointer"));
  EXPECT_THAT(message({x.data(), DType::f32, {1, 2, 4}, {1}}, view(x, {1, 4, 3})), HasSubstr("1 strides for 3"));
  EXPECT_THAT(message({x.data(), DType::f8e4m3, {1, 2, 4}, {}}, view(x, {1, 4, 3})), HasSubstr("f8e4m3"));
}

}  // namespace
}  // namespace unisono::reference::test
