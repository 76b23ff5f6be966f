#include "media/convert.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <class T>
Array array(DType type, const std::vector<T>& values) {
  Array a{type, {static_cast<std::int64_t>(values.size())}, {}};
  a.bytes.resize(values.size() * sizeof(T));
  std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

template <class T>
std::vector<T> values(const Array& a) {
  std::vector<T> out(a.bytes.size() / sizeof(T));
  std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
  return out;
}

TEST(Convert, TheSameTypeIsLeftAloneWithoutANote) {
  const Converted c = convert(array<float>(DType::f32, {1, NAN}), DType::f32, "x");
  EXPECT_EQ(c.note, "");
  EXPECT_EQ(values<float>(c.array)[0], 1);
}

TEST(Convert, FloatsAreRoundedAndCounted) {
  const Converted c =
      convert(array<double>(DType::f64, {1.0 + 0x1p-30, -0.0, HUGE_VAL, 0.5, std::nan("")}), DType::f32, "x");
  const auto f32 = values<float>(c.array);
  EXPECT_EQ(f32[0], 1.0f);
  EXPECT_TRUE(std::signbit(f32[1]));
  EXPECT_TRUE(std::isinf(f32[2]));
  EXPECT_TRUE(std::isnan(f32[4]));
  EXPECT_EQ(c.note, "float64 becomes float32; 1 of 5 values are rounded");
  EXPECT_THAT(
      [&] {
        convert(array<double>(DType::f64, {0, 1e300}), DType::f32, "x.npy");
      },
      ThrowsMessage<UserError>(AllOf(HasSubstr("x.npy"), HasSubstr("element 1"), HasSubstr("float32"))));
  EXPECT_THROW(convert(array<float>(DType::f32, {65520.0f}), DType::f16, "x"), UserError);
}

TEST(Convert, WideningKeepsEveryValue) {
  const Converted c = convert(array<std::uint16_t>(DType::f16, {0x3c00, 0x0001}), DType::f32, "x");
  EXPECT_THAT(values<float>(c.array), ElementsAre(1.0f, 0x1p-24f));
  EXPECT_THAT(c.note, Says("float16 becomes float32; every value is kept"));
}

TEST(Convert, IntegersThatAFloatLacksAreRefused) {
  EXPECT_THAT(values<float>(convert(array<std::int64_t>(DType::i64, {1 << 24, -5}), DType::f32, "x").array),
              ElementsAre(0x1p24f, -5));
  EXPECT_THAT([&] { convert(array<std::int64_t>(DType::i64, {(1 << 24) + 1}), DType::f32, "ids.npy"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("ids.npy"), HasSubstr("16777217"), HasSubstr("float32"))));
  // beyond the mantissa of f64, too
  EXPECT_THROW(convert(array<std::int64_t>(DType::i64, {(std::int64_t{1} << 53) + 1}), DType::f64, "x"), UserError);
  EXPECT_THROW(convert(array<std::uint64_t>(DType::u64, {~std::uint64_t{0}}), DType::f32, "x"), UserError);
}

TEST(Convert, IntegersOfAnyWidthWithinTheRange) {
  const std::vector<std::int64_t> ends{std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max()};
  EXPECT_THAT(values<std::int32_t>(convert(array(DType::i64, ends), DType::i32, "x").array),
              ElementsAre(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  EXPECT_THAT(
      [&] {
        convert(array<std::int64_t>(DType::i64, {0, std::int64_t{1} << 31}), DType::i32, "labels.npy");
      },
      ThrowsMessage<UserError>(AllOf(HasSubstr("labels.npy"), HasSubstr("element 1"), HasSubstr("2147483648"))));
  const auto largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(values<std::uint64_t>(convert(array<std::int64_t>(DType::i64, {largest}), DType::u64, "x").array),
              ElementsAre(static_cast<std::uint64_t>(largest)));
  EXPECT_THROW(convert(array<std::int64_t>(DType::i64, {-1}), DType::u64, "x"), UserError);
  EXPECT_THROW(convert(array<std::uint64_t>(DType::u64, {std::uint64_t{1} << 63}), DType::i64, "x"), UserError);
}

TEST(Convert, FloatsBecomeIntegersOnlyIfTheyAreSome) {
  EXPECT_THAT(values<std::int64_t>(convert(array<double>(DType::f64, {3, -2}), DType::i64, "x").array),
              ElementsAre(3, -2));
  for (const double x : {0.5, std::nan(""), -HUGE_VAL, 0x1p63})
    EXPECT_THROW(convert(array<double>(DType::f64, {x}), DType::i64, "x"), UserError) << x;
}

TEST(Convert, OnlyZeroAndOneAreBool) {
  EXPECT_THAT(values<std::uint8_t>(convert(array<std::int64_t>(DType::i64, {0, 1}), DType::boolean, "x").array),
              ElementsAre(0, 1));
  EXPECT_THROW(convert(array<std::int64_t>(DType::i64, {2}), DType::boolean, "x"), UserError);
  EXPECT_THROW(convert(array<float>(DType::f32, {0.5f}), DType::boolean, "x"), UserError);
  EXPECT_THAT(values<float>(convert(array<std::uint8_t>(DType::boolean, {0, 1}), DType::f32, "x").array),
              ElementsAre(0, 1));
}

TEST(Convert, ShortFloatsThatNumPyLacks) {
  const Converted c = convert(array<float>(DType::f32, {1, 1.01f}), DType::bf16, "x");
  EXPECT_EQ(c.array.bytes.size(), 4u);
  EXPECT_EQ(c.note, "float32 becomes bfloat16; 1 of 2 values are rounded");
}

}  // namespace
}  // namespace unisono::media
