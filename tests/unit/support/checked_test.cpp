// Size arithmetic: right as long as it fits, an error that names the result as soon as it does not.

#include "support/checked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

__extension__ using Wide = __int128;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

template <class F>
std::string error_of(F&& compute) {
  try {
    compute();
  } catch (const Unsupported& e) {
    return e.what();
  }
  return "no error";
}

TEST(Checked, ComputesWhatFits) {
  EXPECT_EQ((Checked("n", 6) * 7 + 1).value(), 43);
  EXPECT_EQ((Checked("n", 6) * Checked("m", 7) + Checked("k", 1)).to<int>(), 43);
  EXPECT_EQ(Checked("n", 17).rounded_up(16).value(), 32);
  EXPECT_EQ(Checked("n", 32).rounded_up(std::size_t{16}).to<std::size_t>(), 32u);
  EXPECT_EQ(Checked("n", 17).divided_up(16).value(), 2);
  EXPECT_EQ(Checked("n", 0).divided_up(16).value(), 0);
  EXPECT_EQ((Checked("n", largest / 2) * 2 + 1).value(), largest);
  EXPECT_EQ((Checked("n", 5) * -3).value(), -15);
}

TEST(Checked, SaysWhatDidNotFit) {
  EXPECT_THAT(error_of([] { (Checked("bytes of the arena", largest) * 2).value(); }),
              Says("bytes of the arena: the number … fit 64 bits"));
  EXPECT_THAT(error_of([] { (Checked("n", largest) + 1).value(); }), testing::HasSubstr("n: the number"));
  EXPECT_THAT(error_of([] { Checked("n", largest).rounded_up(16).value(); }), testing::HasSubstr("64 bits"));
  EXPECT_THAT(error_of([] { Checked("n", std::numeric_limits<std::uint64_t>::max()).value(); }),
              testing::HasSubstr("64 bits"));
  EXPECT_THAT(error_of([] { (Checked("n", 2) * std::numeric_limits<std::uint64_t>::max()).value(); }),
              testing::HasSubstr("64 bits"));
  EXPECT_THAT(error_of([] { Checked("tiles", 1 << 30).to<std::int16_t>(); }), Says("tiles: the number … fit 16 bits"));
  EXPECT_THAT(error_of([] { Checked("tiles", -1).to<std::uint32_t>(); }), testing::HasSubstr("32 bits"));
  EXPECT_THAT(error_of([] { narrow<std::int32_t>("pad", std::int64_t{1} << 31); }),
              Says("pad: the number … fit 32 bits"));
  EXPECT_EQ(narrow<std::int32_t>("pad", (std::int64_t{1} << 31) - 1), std::numeric_limits<std::int32_t>::max());
}

TEST(Checked, WhatIsBeyondStaysBeyond) {
  const Checked beyond = Checked("bytes", largest) * 4;
  EXPECT_THAT(error_of([&] { (beyond * 0 + 1).value(); }), testing::HasSubstr("bytes: the number"));
  EXPECT_THAT(error_of([&] { (Checked("sum", 1) + beyond).to<int>(); }), testing::HasSubstr("bytes: the number"));
  EXPECT_THAT(error_of([&] { (Checked("product", 0) * beyond).value(); }), testing::HasSubstr("bytes: the number"));
}

TEST(Narrowing, KeepsTheFirstThatDoesNotFit) {
  Narrowing to;
  EXPECT_EQ(to.as<int>("rows", std::int64_t{7}), 7);
  EXPECT_EQ(to.as<std::size_t>(Checked("bytes", 6) * 7), 42u);
  EXPECT_EQ(to.beyond(), std::nullopt);
  EXPECT_EQ(to.as<int>("tiles", largest), 0);
  EXPECT_EQ(to.as<std::int64_t>(Checked("bytes", largest) * 2), 0);
  EXPECT_EQ(to.as<int>("rows", std::int64_t{7}), 7);
  EXPECT_EQ(to.beyond(), error_of([] { narrow<int>("tiles", largest); }));
}

// Every product of three factors about the limits, against 128 bits
TEST(Checked, AgreesWithWiderNumbers) {
  std::vector<std::int64_t> factors;
  for (int bit = 0; bit < 63; bit += 3)
    for (const int off : {-1, 0, 1}) factors.push_back((std::int64_t{1} << bit) + off);
  for (const auto a : factors)
    for (const auto b : factors)
      for (const auto c : factors) {
        const Wide ab = static_cast<Wide>(a) * b, abc = ab > largest ? ab : ab * c;
        const bool fits = ab <= largest && ab >= -largest && abc <= largest && abc >= -largest;
        try {
          const std::int64_t made = (Checked("n", a) * b * c).value();
          ASSERT_TRUE(fits && made == static_cast<std::int64_t>(abc)) << a << " " << b << " " << c;
        } catch (const Unsupported&) {
          ASSERT_FALSE(fits) << a << " " << b << " " << c;
        }
      }
}

}  // namespace
}  // namespace unisono::support
