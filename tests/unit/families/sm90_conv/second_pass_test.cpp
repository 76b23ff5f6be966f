// Images whose tiles do not fit in flight, with epilogues beyond one or two stores of 16 bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "support/says.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* wide =
    "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n], eps=1e-5)) as y : f32\n";
const Device h200{};

PlanOverride fixed(std::map<std::string, std::string> fields) {
  PlanOverride o;
  o.fields = std::move(fields);
  return o;
}

ConvPlan planned(const Conv2d& conv, const char* text, const PlanOverride& by = {}) {
  return choose(as_convolution(conv), test::epilogue_of(text, conv), h200, by);
}

TEST(SecondPass, F32WaitsAsF32UnlessTheCallerSaysOtherwise) {
  for (const Conv2d& conv : {test::conv_of(1, 256, 256, 128, 128, 3), test::conv_of(4, 256, 256, 128, 128, 3),
                             test::conv_of(1, 512, 512, 128, 128, 3)}) {
    const ConvPlan p = planned(conv, wide);
    EXPECT_TRUE(test::is_second_pass(test::epilogue_of(wide, conv).list.at(p.form)));
    EXPECT_EQ(p.config.mode(), NormMode::streamed);
    EXPECT_EQ(p.config.streamed()->spill, DType::f32);
    EXPECT_EQ(p.numerics.kept, DType::f32);
    EXPECT_FALSE(p.pitched_output);
    EXPECT_THAT(to_string(p.config), HasSubstr("streamed spill f32"));
    const ConvPlan narrow = planned(conv, wide, fixed({{"mode", "streamed"}, {"spill", "bf16"}}));
    EXPECT_EQ(narrow.config.streamed()->planes(), 1);
    EXPECT_EQ(narrow.numerics.kept, DType::bf16);
    EXPECT_LT(narrow.predicted_us, p.predicted_us);
  }
}

TEST(SecondPass, ThePlansFieldsGiveThePlan) {
  const Conv2d conv = test::conv_of(1, 256, 256, 128, 128, 3);
  const ConvPlan p = planned(conv, wide, fixed({{"spill", "bf16"}, {"hints", "on"}}));
  const PlanOverride all = override_of(p.config);
  EXPECT_EQ(all.fields.at("spill"), "bf16");
  EXPECT_EQ(all.fields.at("hints"), "on");
  EXPECT_EQ(planned(conv, wide, all).config, p.config);
}

// Where an image's tiles fit the general form is taken, as ever
TEST(SecondPass, SmallImagesStayGeneral) {
  EXPECT_EQ(planned(test::conv_of(2, 32, 32, 64, 128, 3), wide).config.mode(), NormMode::general);
}

TEST(SecondPass, StoredReductionsHavePlacesOfTheirOwn) {
  const Conv2d conv = test::conv_of(1, 256, 256, 128, 128, 3);
  const std::string behind = std::string(wide) +
                             "store mean(square(group_norm(acc + bias[n], groups=32, scale=gamma[n], "
                             "shift=beta[n], eps=1e-5))) as loss : f32\n";
  const PlanOverride by = fixed({{"mode", "streamed"}, {"tile", "128x64"}, {"swap", "off"}, {"load", "halo"}});
  const ConvPlan without = planned(conv, wide, by), with = planned(conv, behind.c_str(), by);
  EXPECT_TRUE(test::is_second_pass(test::epilogue_of(behind, conv).list.at(with.form)));
  EXPECT_TRUE(with.numerics.folds);
  EXPECT_GT(with.workspace.fold_counters, 0u);
  EXPECT_EQ(without.workspace.fold_counters, 0u);
  EXPECT_EQ(planned(conv, behind.c_str(), fixed({{"mode", "streamed"}, {"swap", "on"}})).config.schedule.swap, true);
}

/// The reasons of all candidates; "" stands for a legal one.
std::set<std::string> reasons(const Conv2d& conv, const char* text, const PlanOverride& by) {
  std::set<std::string> all;
  for (const Answer& a : candidates(as_convolution(conv), test::epilogue_of(text, conv), h200, by))
    all.insert(a.refusal);
  return all;
}

TEST(SecondPass, SpillsThatThereIsNoRoomFor) {
  const Conv2d conv = test::conv_of(1, 256, 256, 128, 128, 3);
  const auto narrow = reasons(conv, test::block, fixed({{"mode", "streamed"}, {"spill", "f32"}}));
  EXPECT_THAT(narrow, testing::Contains(HasSubstr("whose elements have 16 bits")));
  EXPECT_THAT(narrow, testing::Not(testing::Contains("")));
  EXPECT_THAT(reasons(test::conv_of(1, 256, 256, 64, 40, 3), "store group_norm(acc, groups=5) as y : f32",
                      fixed({{"mode", "streamed"}, {"tile", "128x64"}, {"unit", "8"}})),
              testing::Contains(HasSubstr("40 channels in slices of 64")));
}

TEST(SecondPass, ReductionsAheadTakePixelsFirst) {
  const Conv2d conv = test::conv_of(1, 256, 256, 128, 128, 3);
  const auto swapped =
      reasons(conv, "h = acc + bias[n]\nstore group_norm(h, groups=4) as y : f32\nstore sum(h) as s : f32",
              fixed({{"mode", "streamed"}, {"swap", "on"}, {"tile", "128x64"}}));
  EXPECT_THAT(swapped, testing::Contains(Says("swap: … before the normalisation")));
  EXPECT_THAT(swapped, testing::Not(testing::Contains("")));
}

TEST(SecondPass, OrderByChannels) {
  const Conv2d conv = test::conv_of(4, 256, 256, 128, 128, 3);
  const PlanOverride by = fixed({{"mode", "streamed"}, {"tile", "256x64"}, {"raster", "channels"}});
  const ConvPlan p = planned(conv, test::block, by);
  EXPECT_TRUE(p.config.streamed()->by_channels);
  EXPECT_EQ(p.tiles_n, 2);
  const auto crossing = reasons(conv, "store group_norm(acc, groups=1) as y : bf16", by);
  EXPECT_THAT(crossing, testing::Contains(HasSubstr("groups of 128 channels cross tiles of 64")));
  EXPECT_THAT(crossing, testing::Not(testing::Contains("")));
  const auto bare = reasons(conv, test::bare, fixed({{"hints", "on"}}));
  EXPECT_THAT(bare, testing::Contains(HasSubstr("hints: only tiles that wait")));
  EXPECT_THAT(bare, testing::Not(testing::Contains("")));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
