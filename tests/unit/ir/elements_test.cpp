#include "unisono/elements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "unisono/error.hpp"

namespace unisono {
namespace {

TEST(ElementsTest, ShortFloatsRoundToNearestEven) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);    // a tie, to even
  EXPECT_EQ(BFloat16(1.0f + 0x1.8p-7f).bits, 0x3f82);  // a tie, to even
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(1.0f + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(static_cast<float>(Float16(65504.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(Float16(1e6f)), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(NAN))));
}

TEST(ElementsTest, EveryShortFloatSurvivesF32) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    BFloat16 b;
    Float16 f;
    b.bits = f.bits = static_cast<std::uint16_t>(bits);
    const float from_b = static_cast<float>(b), from_f = static_cast<float>(f);
    if (!std::isnan(from_b)) {
      ASSERT_EQ(BFloat16(from_b).bits, bits);
    }
    if (!std::isnan(from_f)) {
      ASSERT_EQ(Float16(from_f).bits, bits);
    }
  }
}

TEST(ElementsTest, ArraysAreConverted) {
  const std::vector<float> values{0.5f, -3, 1024};
  EXPECT_EQ(to_f32(to_bf16(values)), values);
  EXPECT_EQ(to_f32(to_f16(values)), values);
}

TEST(ElementsTest, ViewsTakeDtypeAndShape) {
  std::vector<float> values(6);
  const std::vector<BFloat16> constants(4);
  std::array<std::int64_t, 3> indices{};
  const TensorView writable = view(values, {2, 3});
  EXPECT_EQ(writable.data, values.data());
  EXPECT_EQ(writable.dtype, DType::f32);
  EXPECT_EQ(writable.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(writable.strides.empty());
  const auto read_only = view(constants, {4});
  static_assert(std::is_same_v<decltype(read_only), const ConstTensorView>);
  EXPECT_EQ(read_only.dtype, DType::bf16);
  EXPECT_EQ(view(indices, {3, 1}).dtype, DType::i64);
  EXPECT_EQ(dtype_of<std::uint8_t>(), DType::u8);
  EXPECT_EQ(dtype_of<std::int8_t>(), DType::i8);
  EXPECT_EQ(dtype_of<std::uint16_t>(), DType::u16);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::i32);
  EXPECT_EQ(dtype_of<bool>(), DType::boolean);
  EXPECT_EQ(dtype_of<Float16>(), DType::f16);
  EXPECT_EQ(dtype_of<double>(), DType::f64);
}

TEST(ElementsTest, AViewMustFillItsShape) {
  std::vector<float> values(6);
  try {
    view(values, {2, 4});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "a view of 6 elements has the shape (2,4); expected 8 elements");
  }
  EXPECT_THROW(view(values, {-6}), UserError);
}

}  // namespace
}  // namespace unisono
