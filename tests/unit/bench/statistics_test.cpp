#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include "unisono/error.hpp"

namespace unisono::bench {
namespace {

TEST(Statistics, Median) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 100}), 3);
  EXPECT_THROW(median({}), InternalError);
}

TEST(Statistics, SpreadIsThatOfTheMediansOfTheRounds) {
  const std::vector<std::vector<double>> rounds{{10, 10, 90}, {12, 11, 11}, {10, 9, 10}};
  const Timing t = summary(rounds);
  EXPECT_EQ(t.us, 10);
  EXPECT_DOUBLE_EQ(t.spread, 0.1);  // medians 10, 11, 10: an outlier within a round does not count
  EXPECT_EQ(t.best, 9);
  EXPECT_EQ(t.times, 9);
  EXPECT_THROW(summary({}), InternalError);
  EXPECT_THROW(summary(std::vector<std::vector<double>>{{1}, {}}), InternalError);
}

TEST(Statistics, Geomean) {
  EXPECT_DOUBLE_EQ(geomean(std::vector<double>{2, 8}), 4);
  EXPECT_THROW(geomean({}), InternalError);
  EXPECT_THROW(geomean(std::vector<double>{1, 0}), InternalError);
}

}  // namespace
}  // namespace unisono::bench
