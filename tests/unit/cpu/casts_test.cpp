/// Casts between f32 and 16 bits, dense and strided, beside the conversion of one number.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/cpu/ops/map.hpp"
#include "support/float_convert.hpp"

namespace unisono::cpu {
namespace {

const Parallel at_once = [](std::int64_t count, const auto& task) { task(0, count); };

// Numbers of all magnitudes, halfway between two of 16 bits as well, and those that are none
std::vector<float> all_kinds_of_floats() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values{0.0F,
                            -0.0F,
                            1 + 0x1p-8F,
                            1 + 0x3p-8F,
                            1 + 0x1p-11F,
                            1 + 0x3p-11F,
                            65504.0F,
                            65519.9F,
                            65520.0F,
                            -1e30F,
                            0x1p-24F,
                            0x1p-25F,
                            0x1.8p-25F,
                            0x1p-14F,
                            Limits::max(),
                            Limits::denorm_min(),
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::quiet_NaN()};
  std::mt19937 random(7);
  while (values.size() < 9001) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  return values;
}

Strided strided(void* data, DType dtype, std::int64_t count, std::int64_t step) {
  return {data, dtype, {count}, {step}};
}

template <class From, class To>
std::vector<To> cast(const std::vector<From>& x, DType from, DType to, std::int64_t step_from, std::int64_t step_to) {
  const std::int64_t count = std::ssize(x);
  std::vector<From> read(static_cast<std::size_t>(count * step_from));
  std::vector<To> written(static_cast<std::size_t>(count * step_to)), result;
  for (std::int64_t i = 0; i < count; ++i)
    read[static_cast<std::size_t>(i * step_from)] = x[static_cast<std::size_t>(i)];
  const std::array inputs{strided(read.data(), from, count, step_from)};
  map(MapOp::cast, inputs, strided(written.data(), to, count, step_to), at_once);
  for (std::int64_t i = 0; i < count; ++i) result.push_back(written[static_cast<std::size_t>(i * step_to)]);
  return result;
}

std::uint16_t shortened(float x, DType to) {
  return to == DType::bf16 ? support::float_to_bf16(x) : support::float_to_f16(x);
}

float widened(std::uint16_t x, DType from) {
  return from == DType::bf16 ? support::bf16_to_float(x) : support::f16_to_float(x);
}

constexpr std::array<std::array<std::int64_t, 2>, 3> steps{{{1, 1}, {3, 1}, {1, 2}}};

TEST(CastsTest, FloatsAreRoundedOnceToNearestEven) {
  const std::vector<float> values = all_kinds_of_floats();
  for (const DType to : {DType::bf16, DType::f16})
    for (const auto& [from_step, to_step] : steps) {
      const auto made = cast<float, std::uint16_t>(values, DType::f32, to, from_step, to_step);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i]))
          EXPECT_TRUE(std::isnan(widened(made[i], to))) << i;
        else
          EXPECT_EQ(made[i], shortened(values[i], to)) << values[i] << " to " << to_string(to);
      }
    }
}

TEST(CastsTest, NumbersOf16BitsAreExactInFloats) {
  std::vector<std::uint16_t> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  for (const DType from : {DType::bf16, DType::f16})
    for (const auto& [from_step, to_step] : steps) {
      const auto made = cast<std::uint16_t, float>(values, from, DType::f32, from_step, to_step);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float right = widened(values[i], from);
        if (std::isnan(right))
          EXPECT_TRUE(std::isnan(made[i])) << i;
        else
          EXPECT_EQ(std::bit_cast<std::uint32_t>(made[i]), std::bit_cast<std::uint32_t>(right)) << i;
      }
    }
}

}  // namespace
}  // namespace unisono::cpu
