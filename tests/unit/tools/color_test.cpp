#include "figure/color.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace unisono::figure {
namespace {

TEST(Color, OklabOfKnownColours) {
  const auto white = to_oklab({255, 255, 255});
  EXPECT_NEAR(white[0], 1, 1e-4);
  EXPECT_NEAR(white[1], 0, 1e-4);
  EXPECT_NEAR(white[2], 0, 1e-4);
  EXPECT_NEAR(to_oklab({0, 0, 0})[0], 0, 1e-9);
  const auto red = to_oklab({255, 0, 0});  // 0.62796, 0.22486, 0.12585 in CSS Color 4
  EXPECT_NEAR(red[0], 0.62796, 1e-4);
  EXPECT_NEAR(red[1], 0.22486, 1e-4);
  EXPECT_NEAR(red[2], 0.12585, 1e-4);
}

TEST(Color, OklchIsTheInverseWithinTheGamut) {
  for (int hue = 0; hue < 360; hue += 15) {
    const auto lab = to_oklab(from_oklch(0.7, 0.08, hue));
    EXPECT_NEAR(lab[0], 0.7, 0.005) << hue;
    EXPECT_NEAR(std::hypot(lab[1], lab[2]), 0.08, 0.006) << hue;
  }
}

TEST(Color, TooMuchChromaIsLoweredAtTheSameLightness) {
  for (int hue = 0; hue < 360; hue += 15) EXPECT_NEAR(to_oklab(from_oklch(0.5, 0.5, hue))[0], 0.5, 0.01) << hue;
}

TEST(Heat, LightnessGrowsInEqualSteps) {
  constexpr int steps = 16;
  const double whole = to_oklab(heat(1))[0] - to_oklab(heat(0))[0];
  EXPECT_GT(whole, 0.7);
  for (int i = 0; i < steps; ++i) {
    const double step = to_oklab(heat((i + 1.0) / steps))[0] - to_oklab(heat(static_cast<double>(i) / steps))[0];
    EXPECT_NEAR(step, whole / steps, 0.2 * whole / steps) << i;
  }
}

TEST(Heat, ClampsAndMarksNotANumber) {
  EXPECT_EQ(heat(-5), heat(0));
  EXPECT_EQ(heat(HUGE_VAL), heat(1));
  EXPECT_EQ(heat(std::nan("")), (Color{128, 128, 128}));
}

TEST(Pastel, NeighboursDiffer) {
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < i; ++j) {
      const auto a = to_oklab(pastel(i)), b = to_oklab(pastel(j));
      EXPECT_GT(std::hypot(a[1] - b[1], a[2] - b[2]), 0.01) << i << " and " << j;
    }
  }
}

}  // namespace
}  // namespace unisono::figure
