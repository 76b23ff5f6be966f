#include "unisono/images.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "support/says.hpp"
#include "unisono/elements.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

using Shape = std::vector<std::int64_t>;

/// Every byte differs from its neighbours.
std::vector<std::uint8_t> bytes(std::size_t count) {
  std::vector<std::uint8_t> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::uint8_t>(37 * i + 11);
  return result;
}

TEST(ImagesTest, ChannelsMoveOutAndEachHasItsMeanAndDeviation) {
  const std::int64_t batch = 2, height = 3, width = 5, channels = 3;
  const std::vector<std::uint8_t> pixels = bytes(90);
  const PixelScale scale{.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
  std::vector<float> tensor(90, NAN);
  read_pixels(view(pixels, {batch, height, width, channels}), scale, view(tensor, {batch, channels, height, width}));
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto at = static_cast<std::size_t>(((n * height + y) * width + x) * channels + c);
          const auto to = static_cast<std::size_t>(((n * channels + c) * height + y) * width + x);
          const auto channel = static_cast<std::size_t>(c);
          const double expected = (pixels[at] / 255.0 - scale.mean[channel]) / scale.deviation[channel];
          EXPECT_NEAR(tensor[to], expected, 1e-6) << n << ',' << y << ',' << x << ',' << c;
        }
}

TEST(ImagesTest, ViewsMayBeStrided) {
  const std::vector<std::uint8_t> pixels =
      bytes(2 * 8);                    // two rows of two pixels of three channels, two bytes of padding
  std::vector<float> tensor(12, NAN);  // channels innermost
  read_pixels({pixels.data(), DType::u8, {2, 2, 3}, {8, 3, 1}}, {.scale = 1},
              {tensor.data(), DType::f32, {3, 2, 2}, {1, 6, 3}});
  for (std::size_t y = 0; y < 2; ++y)
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(tensor[6 * y + i], pixels[8 * y + i]);
}

TEST(ImagesTest, EveryFloatIsRoundedOnce) {
  std::vector<std::uint8_t> pixels(256);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  std::vector<BFloat16> brief(256);
  std::vector<Float16> half(256);
  std::vector<double> wide(256);
  const PixelScale scale{.offset = -0.5, .mean = {0.25}, .deviation = {3}};
  read_pixels(view(pixels, {16, 16, 1}), scale, view(brief, {1, 16, 16}));
  read_pixels(view(pixels, {16, 16, 1}), scale, view(half, {1, 16, 16}));
  read_pixels(view(pixels, {16, 16, 1}), scale, view(wide, {1, 16, 16}));
  for (std::size_t i = 0; i < 256; ++i) {
    const double expected = (static_cast<double>(i) * (1.0 / 255) - 0.5 - 0.25) / 3;
    EXPECT_EQ(wide[i], expected);
    EXPECT_NEAR(static_cast<float>(half[i]), expected, std::ldexp(std::abs(expected), -11) + 0x1p-25);
    EXPECT_NEAR(static_cast<float>(brief[i]), expected, std::ldexp(std::abs(expected), -8));
  }
}

TEST(ImagesTest, AnImageWithoutPixelsIsNothingToRead) {
  EXPECT_NO_THROW(read_pixels({nullptr, DType::u8, {0, 4, 3}}, {}, {nullptr, DType::f32, {3, 0, 4}}));
}

struct Refused {
  std::function<void(ConstTensorView&, PixelScale&, TensorView&)> change;
  std::string message;
};

TEST(ImagesTest, SaysWhatDoesNotFit) {
  const std::vector<std::uint8_t> pixels = bytes(24);
  std::vector<float> tensor(24);
  const std::vector<Refused> cases = {
      {[](auto& p, auto&, auto&) { p.dtype = DType::i8; }, "pixels are i8; expected u8"},
      {[](auto&, auto&, auto& t) { t.dtype = DType::i32; }, "the tensor is i32; expected f32, f16, bf16 or f64"},
      {[](auto&, auto&, auto& t) {
         t.shape = {2, 4, 3};
       },
       "pixels … (2,4,3) … tensor … (2,4,3)"},
      {[](auto& p, auto&, auto& t) { p.shape = {24}, t.shape = {24}; }, "expected (height, width, channels)"},
      {[](auto& p, auto&, auto&) {
         p.shape = {1, 2, 4, 3};
       },
       "a batch in front"},
      {[](auto& p, auto&, auto&) {
         p.strides = {-12, 3, 1};
       },
       "expected none below 0"},
      {[](auto& p, auto&, auto&) {
         p.strides = {3, 1};
       },
       "3 extents and 2 strides"},
      {[](auto& p, auto&, auto&) { p.data = nullptr; }, "pixels have the address 0"},
      {[](auto&, auto& s, auto&) {
         s.mean = {1, 2};
       },
       "mean has 2 values; expected one, … 3"},
      {[](auto&, auto& s, auto&) {
         s.deviation = {1, 0, 1};
       },
       "deviation has the value 0"},
      {[](auto&, auto& s, auto&) { s.mean = {NAN}; }, "mean has the value nan"},
      {[](auto&, auto& s, auto&) { s.scale = INFINITY; }, "scale inf and offset 0"},
  };
  for (const Refused& one : cases) {
    ConstTensorView from{pixels.data(), DType::u8, {2, 4, 3}};
    TensorView to{tensor.data(), DType::f32, {3, 2, 4}};
    PixelScale scale;
    one.change(from, scale, to);
    try {
      read_pixels(from, scale, to);
      ADD_FAILURE() << "expected: " << one.message;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), Says(one.message));
    }
  }
}

}  // namespace
}  // namespace unisono
