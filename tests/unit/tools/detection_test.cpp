#include "command/detection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace unisono::command {
namespace {

/// One class, 8 × 8, zero but for these pixels.
std::vector<float> plane(const std::vector<std::array<int, 2>>& places, const std::vector<float>& scores) {
  std::vector<float> values(64, 0.0f);
  for (std::size_t i = 0; i < places.size(); ++i)
    values[static_cast<std::size_t>(places[i][1] * 8 + places[i][0])] = scores[i];
  return values;
}

std::vector<Peak> peaks(const std::vector<float>& values, double threshold, int radius = 2) {
  return find_peaks(values, static_cast<int>(values.size() / 64), 8, 8, threshold, radius);
}

TEST(Peaks, ThresholdIsInclusiveAndOrderFalls) {
  const auto found = peaks(plane({{0, 0}, {7, 7}, {7, 0}}, {0.5f, 0.9f, 0.49f}), 0.5);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].x, 7);
  EXPECT_EQ(found[0].y, 7);
  EXPECT_FLOAT_EQ(found[0].score, 0.9f);
  EXPECT_EQ(found[1].x, 0);
}

TEST(Peaks, SmallerNeighboursWithinTheWindowAreNone) {
  EXPECT_EQ(peaks(plane({{2, 2}, {4, 4}}, {0.9f, 0.8f}), 0.5).size(), 1u);  // 2 pixels away: inside 5 × 5
  EXPECT_EQ(peaks(plane({{2, 2}, {5, 2}}, {0.9f, 0.8f}), 0.5).size(), 2u);  // 3 pixels away
  EXPECT_EQ(peaks(plane({{2, 2}, {3, 3}}, {0.9f, 0.8f}), 0.5, 0).size(), 2u);
}

TEST(Peaks, PlateauGivesItsFirstPixelInRowOrder) {
  const auto found = peaks(plane({{3, 3}, {4, 3}, {2, 4}}, {0.7f, 0.7f, 0.7f}), 0.5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].x, 3);
  EXPECT_EQ(found[0].y, 3);
}

TEST(Peaks, ClassesDoNotDisturbOneAnother) {
  auto two = plane({{3, 3}}, {0.9f});
  const auto second = plane({{3, 4}}, {0.6f});
  two.insert(two.end(), second.begin(), second.end());
  const auto found = peaks(two, 0.5);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].class_index, 1);
  EXPECT_EQ(found[1].y, 4);
}

TEST(Peaks, NotANumberIsNone) {
  const auto found = peaks(plane({{3, 3}, {4, 4}}, {std::nanf(""), 0.9f}), 0.5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].x, 4);
}

TEST(Match, NearestFreeObjectOfTheClass) {
  const std::vector<Peak> found{{0, 10, 10, 0.9f}, {0, 11, 10, 0.8f}, {0, 12, 10, 0.7f}, {1, 30, 30, 0.6f}};
  const std::vector<Object> objects{{0, 12.0, 10.0}, {0, 9.5, 10.0}, {2, 30.0, 30.0}};
  const Matching m = match(found, objects, 3);
  EXPECT_THAT(m.right, testing::ElementsAre(true, true, false, false));  // the third finds none that is free
  EXPECT_THAT(m.found, testing::ElementsAre(true, true, false));         // of another class
}

TEST(Match, RadiusIsInclusive) {
  EXPECT_TRUE(match({{0, 0, 0, 1.0f}}, {{0, 3.0, 4.0}}, 5).right[0]);
  EXPECT_FALSE(match({{0, 0, 0, 1.0f}}, {{0, 3.0, 4.0}}, 4.999).right[0]);
}

TEST(Score, CountsOverImages) {
  Score score;
  EXPECT_EQ(score.precision(), 0);
  EXPECT_EQ(score.recall(), 0);
  score.add(match({{0, 0, 0, 1.0f}, {0, 50, 50, 0.5f}}, {{0, 0.0, 0.0}}, 1));
  score.add(match({}, {{0, 0.0, 0.0}, {0, 9.0, 9.0}}, 1));
  EXPECT_EQ(score.hits, 1);
  EXPECT_DOUBLE_EQ(score.precision(), 0.5);
  EXPECT_DOUBLE_EQ(score.recall(), 1.0 / 3);
}

}  // namespace
}  // namespace unisono::command
