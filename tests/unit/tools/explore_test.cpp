#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explore/exploration.hpp"
#include "explore/kernels.hpp"
#include "explore/launches.hpp"

namespace unisono::explore {
namespace {

Kind kind_of_text(const std::string& what, const std::vector<std::string>& operators = {}, bool planned = false) {
  LaunchReport launch;
  launch.name = "y", launch.what = what, launch.predicted_us = planned ? 1 : 0;
  RegionReport region;
  region.name = "y", region.operators = operators;
  return kind_of(launch, &region);
}

TEST(ExploreKinds, AreThoseOfTheOperatorsThatALaunchNames) {
  EXPECT_EQ(kind_of_text("conv2d (1,8,4,4) -> 16, 3x3", {"conv2d"}, true), Kind::contraction);
  EXPECT_EQ(kind_of_text("matmul (1,8,4) -> (1,8,8)"), Kind::contraction);
  EXPECT_EQ(kind_of_text("attention (2,8,4) -> (2,8,4)"), Kind::attention);
  EXPECT_EQ(kind_of_text("transpose (2,8,4) -> (2,4,8)"), Kind::movement);
  EXPECT_EQ(kind_of_text("reshape (2,8) -> (4,4), then reshape, transpose"), Kind::movement);
  EXPECT_EQ(kind_of_text("reshape (2,8) -> (4,4), then add, transpose"), Kind::elementwise);
  EXPECT_EQ(kind_of_text("reshape (2,8) -> (4,4), then layer_norm, gather"), Kind::normalisation);
  EXPECT_EQ(kind_of_text("reduce_mean (2,8) -> (2,1)"), Kind::reduction);
  EXPECT_EQ(kind_of_text("max_pool (1,8,4,4) -> (1,8,2,2)"), Kind::reduction);
}

TEST(ExploreKinds, APassOverATensorIsOfItsRegion) {
  EXPECT_EQ(kind_of_text("rows of conv2d (1,8,4,4) -> 8, 3x3, groups 2", {"conv2d", "layer_norm"}),
            Kind::normalisation);
  EXPECT_EQ(kind_of_text("elements of mul (1,8) -> (1,8)", {"mul", "silu"}), Kind::elementwise);
  EXPECT_EQ(kind_of_text("statistics of group_norm (1,8) -> (1,8)", {"group_norm"}), Kind::normalisation);
}

TEST(ExploreKinds, BordersCopyAndHostStepsAreTheHosts) {
  LaunchReport launch;
  launch.name = "input x", launch.what = "the 3 taps of rows as channels";
  EXPECT_EQ(kind_of(launch, nullptr), Kind::movement);
  launch.name = "y", launch.what = "softmax (2,8) -> (2,8)", launch.on_host = true;
  EXPECT_EQ(kind_of(launch, nullptr), Kind::host);
}

TEST(ExploreLaunches, TakeTheirOwnTimesOfAProfile) {
  DeviceReport report;
  for (const char* what : {"statistics of a (1,8)", "elements of a (1,8)"}) {
    LaunchReport launch;
    launch.name = "y", launch.what = what;
    report.launches.push_back(launch);
  }
  const std::vector<StepTime> profile{{.name = "y", .what = "elements of a (1,8)", .milliseconds = 0.002},
                                      {.name = "z", .what = "statistics of a (1,8)", .milliseconds = 0.005}};
  const std::vector<Launch> launches = launches_of(report, profile);
  EXPECT_FALSE(launches[0].measured_us.has_value());
  EXPECT_DOUBLE_EQ(launches[1].measured_us.value(), 2);
}

TEST(ExploreTexts, AreKeptOnce) {
  Texts texts;
  EXPECT_EQ(texts.of("a"), 0U);
  EXPECT_EQ(texts.of("b"), 1U);
  EXPECT_EQ(texts.of("a"), 0U);
  EXPECT_EQ(texts.json(), nlohmann::json({"a", "b"}));
}

TEST(ExplorePage, EscapesItsTitleAndHasNoMarksLeft) {
  const std::string page = page_of({{"title", "<script>alert(1)</script> & \xff"}});
  EXPECT_THAT(page, testing::HasSubstr("<title>&lt;script&gt;alert(1)&lt;/script&gt; &amp; "));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("<script>alert(1)")));
  for (const char* mark : {"@TITLE@", "@HEADING@", "@DATA@", "@STYLE@", "@SCRIPT@"})
    EXPECT_THAT(page, testing::Not(testing::HasSubstr(mark)));
}

}  // namespace
}  // namespace unisono::explore
