// Formulas of extents: equal extents should have equal texts, and different ones must not.
#include "network/dim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>

namespace unisono::network {
namespace {

const Dim a("a"), b("b");

TEST(Dims, ProductsOfProductsAreOneProduct) {
  EXPECT_EQ(affine(affine(a, 784, 0), 192, 0), affine(a, 150528, 0));
  EXPECT_EQ(affine(a, 6, 0), Dim("a*6"));
  EXPECT_EQ(product(std::array{b, Dim(3), a}), Dim("a*b*3"));
  EXPECT_EQ(product(std::array{product(std::array{a, b}), a}), product(std::array{a, a, b}));
  EXPECT_EQ(product(std::array{affine(a, 4, 0), affine(b, 5, 0)}), product(std::array{a, b, Dim(20)}));
  EXPECT_EQ(product(std::array{affine(a, 1, 1), Dim(2)}), affine(affine(a, 1, 1), 2, 0));
}

TEST(Dims, WhatIsMultipliedAndDividedIsItself) {
  EXPECT_EQ(divided(affine(affine(a, 784, 0), 192, 0), 150528), a);
  EXPECT_EQ(divided(product(std::array{a, b, Dim(12)}), 4), product(std::array{a, b, Dim(3)}));
  const Dim windows = divided(affine(a, 1, 3), 2);
  EXPECT_EQ(divided(affine(windows, 49, 0), 49), windows);
  EXPECT_EQ(affine(divided(affine(windows, 49, 0), 49), 5, 0), affine(windows, 5, 0));
}

// What three windows of 3 by a stride of 2 leave of an image, and what exporters write for it
TEST(Dims, QuotientsOfQuotientsAreOneQuotient) {
  const auto halved = [](const Dim& x) { return window_count(x, 2, 3, 2, false).value(); };
  EXPECT_EQ(halved(halved(halved(a))), affine(divided(affine(a, 1, -1), 8), 1, 1));
  EXPECT_EQ(affine(affine(a, 1, 3), 1, -3), a);
  EXPECT_EQ(affine(affine(a, 1, 3), 1, -5), affine(a, 1, -2));
  EXPECT_EQ(affine(divided(a, 4), 1, 2), divided(affine(a, 1, 8), 4));
  // For a of 7 ONNX takes -2/4 for 0, so that these are 3 and 2
  EXPECT_NE(affine(divided(affine(a, 1, -9), 4), 1, 3), divided(affine(a, 1, 3), 4));
  EXPECT_NE(affine(divided(affine(a, -1, 0), 4), 1, 3), divided(affine(affine(a, -1, 0), 1, 12), 4));
  EXPECT_NE(affine(divided(a, 4), 1, -1), divided(affine(a, 1, -4), 4));
}

// Formulas of one text, however they were made, have one value
TEST(Dims, FormulasAreRightForNumbers) {
  std::mt19937 random(7);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const std::array<std::int64_t, 5> as{100'000, 100'001, 100'007, 123'456, 499'999}, bs{97, 98, 101, 103, 120};
  std::map<std::string, std::array<Dim, 5>> seen;
  for (int i = 0; i < 200'000; ++i) {
    Dim x = a;
    std::array<Dim, 5> at;
    std::copy(as.begin(), as.end(), at.begin());
    const auto apply = [&](const auto& step) {
      x = step(x, b);
      for (std::size_t k = 0; k < at.size(); ++k) at[k] = step(at[k], Dim(bs[k]));
    };
    for (int steps = draw(1, 5); steps > 0; --steps) {
      const int n = draw(1, 6), kind = draw(0, 7);
      apply([&](const Dim& v, const Dim& other) {
        if (kind == 0) return affine(v, n, 0);
        if (kind == 1) return affine(v, 1, n - 3);
        if (kind == 2) return divided(v, n);
        if (kind == 3) return window_count(v, n, 3, n, false).value();
        if (kind == 4) return product(std::array{v, other, Dim(n)});
        if (kind == 5) return sum(v, other);
        if (kind == 6) return quotient(product(std::array{v, other, Dim(n)}), other);
        return scaled(v, 0.25 * n);
      });
    }
    const auto [known, is_new] = seen.try_emplace(to_string(x), at);
    ASSERT_EQ(known->second, at) << to_string(x);
  }
  EXPECT_GT(seen.size(), 10'000u);
}

TEST(Dims, WhatIsRoundedDownStaysAsItIs) {
  EXPECT_NE(affine(divided(affine(a, 3, 0), 2), 2, 0), affine(a, 3, 0));
  EXPECT_NE(affine(divided(a, 2), 2, 0), a);
  EXPECT_NE(product(std::array{scaled(a, 0.5), b}), scaled(product(std::array{a, b}), 0.5));
  EXPECT_NE(divided(affine(affine(a, 1, 1), 4, 0), 4), a);
  EXPECT_NE(divided(affine(a, 4, 2), 2), affine(a, 2, 2));
}

TEST(Dims, WhatIsLeftOfAReshape) {
  EXPECT_EQ(quotient(product(std::array{a, b, Dim(12)}), product(std::array{a, Dim(4)})), affine(b, 3, 0));
  EXPECT_EQ(quotient(product(std::array{a, Dim(12)}), affine(a, 4, 0)), Dim(3));
  EXPECT_EQ(quotient(affine(affine(a, 784, 0), 192, 0), Dim(150528)), a);
  EXPECT_EQ(quotient(Dim(12), a), Dim("12/a"));
  EXPECT_EQ(quotient(affine(a, 1, 1), b), Dim("(a+1)/b"));
}

TEST(Dims, FactorsThatModelsWrite) {
  EXPECT_EQ(whole_quotient(Dim("2*a"), Dim(2)), a);
  EXPECT_EQ(whole_quotient(Dim("(a*(2*b))*3"), product(std::array{b, Dim(6)})), a);
  EXPECT_EQ(whole_quotient(affine(a, 6, 0), Dim(4)), std::nullopt);
  EXPECT_EQ(whole_quotient(a, b), std::nullopt);
  EXPECT_EQ(whole_quotient(Dim("a*0"), Dim(2)), std::nullopt);
  const std::string deep = std::string(100'000, '(') + "a" + std::string(100'000, ')');
  EXPECT_EQ(whole_quotient(Dim(deep), a), std::nullopt);
}

// Two names may stand for different numbers, of which one is 1; a formula is taken for what it meets
TEST(Dims, TwoNamesBroadcastToEither) {
  EXPECT_EQ(broadcast(a, b), broadcast(b, a));
  EXPECT_NE(broadcast(a, b), a);
  EXPECT_NE(broadcast(a, b), b);
  EXPECT_EQ(broadcast(broadcast(a, b), b), broadcast(a, b));
  EXPECT_EQ(broadcast(a, a), a);
  EXPECT_EQ(broadcast(a, Dim(1)), a);
  EXPECT_EQ(broadcast(Dim(7), a), Dim(7));
  EXPECT_EQ(broadcast(affine(a, 1, 1), b), affine(a, 1, 1));
  EXPECT_EQ(least(broadcast(a, b)), 1);
}

TEST(Dims, NumbersThatAreTooLargeAreRefusedOrKeptApart) {
  EXPECT_NE(affine(affine(a, std::int64_t{1} << 40, 0), std::int64_t{1} << 40, 0), a);
  EXPECT_EQ(product(std::array{Dim(6), Dim(7)}), Dim(42));
}

}  // namespace
}  // namespace unisono::network
