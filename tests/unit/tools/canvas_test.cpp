#include "figure/canvas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace unisono::figure {
namespace {

/// Area of what is drawn in white on black, in pixels.
double area(const Canvas& canvas) {
  double sum = 0;
  for (std::size_t i = 0; i < canvas.image().pixels.size(); i += 3) sum += canvas.image().pixels[i] / 255.0;
  return sum;
}

TEST(Canvas, FillOfWholePixelsIsExact) {
  Canvas canvas(8, 6, colors::black);
  canvas.fill({2, 1, 3, 4}, {10, 200, 30});
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 8; ++x) {
      const bool inside = x >= 2 && x < 5 && y >= 1 && y < 5;
      EXPECT_EQ(canvas.at(x, y), inside ? (Color{10, 200, 30}) : colors::black) << x << ' ' << y;
    }
  }
}

TEST(Canvas, BlendMixes) {
  Canvas canvas(1, 1, {100, 0, 255});
  canvas.blend(0, 0, {200, 255, 255}, 0.25);
  EXPECT_EQ(canvas.at(0, 0), (Color{125, 64, 255}));
  canvas.blend(0, 0, colors::black, 0);
  EXPECT_EQ(canvas.at(0, 0), (Color{125, 64, 255}));
}

TEST(Canvas, ShapesCoverTheirArea) {
  const double pi = std::numbers::pi;
  for (const double shift : {0.0, 0.3, 0.5}) {
    Canvas disc(60, 60, colors::black), ring(60, 60, colors::black), line(60, 60, colors::black),
        box(60, 60, colors::black);
    disc.disc({30 + shift, 30}, 20, colors::white);
    EXPECT_NEAR(area(disc), pi * 400, 3) << shift;
    ring.ring({30 + shift, 30}, 18, 4, colors::white);
    EXPECT_NEAR(area(ring), pi * (400 - 256), 4) << shift;
    line.line({10 + shift, 10}, {40, 50}, 5, colors::white);
    EXPECT_NEAR(area(line), 5 * std::hypot(30 - shift, 40) + pi * 6.25, 3) << shift;
    box.fill({10, 10, 30, 20}, colors::white, 1, 6);
    EXPECT_NEAR(area(box), 600 - (4 - pi) * 36, 2) << shift;
  }
}

TEST(Canvas, FrameAndCross) {
  Canvas frame(20, 20, colors::black), cross(41, 41, colors::black);
  frame.frame({2, 2, 16, 10}, 1, colors::white);
  EXPECT_DOUBLE_EQ(area(frame), 2 * 16 + 2 * 8);
  cross.cross({20.5, 20.5}, 10, 2, colors::white);
  EXPECT_EQ(cross.at(20, 20), colors::white);
  EXPECT_EQ(cross.at(30, 30), cross.at(10, 30));
  EXPECT_EQ(cross.at(20, 5), colors::black);
}

TEST(Canvas, ClipKeepsToWholePixels) {
  Canvas canvas(10, 10, colors::black);
  canvas.clip({1.5, 2, 4, 3.9});
  canvas.fill({0, 0, 10, 10}, colors::white);
  EXPECT_DOUBLE_EQ(area(canvas), 3 * 3);  // x of 2 to 4, y of 2 to 4
  EXPECT_EQ(canvas.at(2, 2), colors::white);
  canvas.clip();
  canvas.fill({0, 0, 10, 10}, colors::white);
  EXPECT_DOUBLE_EQ(area(canvas), 100);
}

TEST(Canvas, WhatLiesOutsideIsClipped) {
  Canvas canvas(10, 10, colors::black);
  canvas.disc({-100, 5}, 20, colors::white);
  canvas.line({-1e9, 20}, {1e9, 30}, 3, colors::white);
  canvas.fill({1e12, 1e12, 1e12, 1e12}, colors::white);
  canvas.blend(-1, 3, colors::white, 1);
  canvas.blend(3, 10, colors::white, 1);
  canvas.picture(9, 9, media::make_image(5, 5, 3, 255));
  EXPECT_DOUBLE_EQ(area(canvas), 1);
  canvas.fill({-1e12, -1e12, 2e12, 2e12}, colors::white);
  EXPECT_DOUBLE_EQ(area(canvas), 100);
}

}  // namespace
}  // namespace unisono::figure
