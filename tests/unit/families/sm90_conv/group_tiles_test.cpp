// Tiles of several groups: which convolutions have them, how wide they are, and that they are chosen where they serve.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "families/sm90/gathering.hpp"
#include "support/says.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using sm90::beyond_group_tiles, sm90::narrowest_group_tile, sm90::widest_group_tile;
using testing::HasSubstr;

Conv2d grouped(std::int64_t groups, std::int64_t channels, std::int64_t filters, std::int64_t taps = 3) {
  Conv2d conv = test::conv_of(8, 28, 28, groups * channels, groups * filters, taps);
  conv.groups = groups;
  return conv;
}

/// "" where a tile may be several groups.
std::string refusal(const ConvTask& task) {
  const auto no = beyond_group_tiles(task);
  return no ? no->text() : "";
}

TEST(GroupTiles, AreOfWholeGroupsWhoseChannelsAreOneStep) {
  const auto widths = [](const Conv2d& c) { return std::pair(narrowest_group_tile(c), widest_group_tile(c)); };
  EXPECT_EQ(widths(grouped(32, 4, 4)), std::pair(8l, 64l));
  EXPECT_EQ(widths(grouped(32, 32, 32)), std::pair(32l, 64l));
  EXPECT_EQ(widths(grouped(4, 24, 16)), std::pair(16l, 32l));  // two groups are 48 channels, three are 72
  EXPECT_EQ(widths(grouped(16, 5, 7)), std::pair(56l, 56l));   // eight groups, so that tiles begin at octets of filters
  EXPECT_EQ(widths(grouped(20, 2, 4)), std::pair(16l, 128l));  // four groups, for an octet of channels
  EXPECT_EQ(widths(grouped(32, 4, 40)), std::pair(80l, 240l));  // 256 filters at most
  EXPECT_EQ(widths(grouped(2, 64, 256)), std::pair(256l, 256l));
}

// Gradients of images: groups of as many channels as there were filters, taps in reverse
TEST(GroupTiles, OfTransposedConvolutions) {
  const Conv2d forward = grouped(32, 8, 8);
  const ConvTranspose2d t = input_gradient(forward);
  const auto there = choose(forward, test::epilogue_of(test::bare, forward), Device{}),
             back = choose(as_convolution(t), test::epilogue_of(test::bare, t), Device{});
  EXPECT_TRUE(back.config.operands.grouped() && back.config.operands.flipped && !back.config.columns_b());
  EXPECT_DOUBLE_EQ(back.predicted_us, there.predicted_us);
  EXPECT_THAT(describe(back), HasSubstr("flipped groups 8x8"));
  ConvTranspose2d strided = t;
  strided.stride = {2, 2};
  EXPECT_TRUE(choose(as_convolution(strided), test::epilogue_of(test::bare, strided), Device{}).config.gathered());
}

TEST(GroupTiles, AreRefusedWithTheReason) {
  EXPECT_EQ(refusal(grouped(13, 8, 8)), "");
  EXPECT_EQ(refusal(grouped(2, 64, 64)), "");
  EXPECT_THAT(refusal(grouped(1, 64, 64)), HasSubstr("one group"));
  EXPECT_THAT(refusal(grouped(2, 65, 64)), HasSubstr("130 input channels; strides of TMA are multiples of 8"));
  EXPECT_THAT(refusal(grouped(2, 72, 64)), HasSubstr("groups of 72 channels and 64 filters; a tile has 64 channels"));
  EXPECT_THAT(refusal(grouped(2, 64, 264)), HasSubstr("groups of 64 channels and 264 filters; a tile has 64 channels"));
  EXPECT_THAT(refusal(grouped(16, 16, 7)), HasSubstr("groups of 16 channels and 7 filters"));  // eight are 128 channels
  Conv2d planes = grouped(4, 8, 8), f32 = planes, wide = planes;
  planes.layout = Layout::nchw, f32.dtype_x = f32.dtype_w = DType::f32, wide.stride = {9, 9};
  EXPECT_THAT(refusal(planes), HasSubstr("channels first"));
  EXPECT_THAT(refusal(f32), HasSubstr("filters of f32"));
  EXPECT_THAT(refusal(wide), HasSubstr("stride 9"));
}

// The shapes of bench/cases/groups.txt: each by TMA, and an element's own group alone is multiplied
TEST(GroupTiles, AreChosen) {
  struct Shape {
    std::int64_t size, groups, width, stride;
  };
  for (const Shape& s : {Shape{56, 32, 4, 1}, Shape{56, 32, 8, 2}, Shape{28, 32, 8, 1}, Shape{14, 32, 16, 1},
                         Shape{7, 32, 32, 1}, Shape{14, 32, 32, 1}, Shape{28, 13, 8, 1}, Shape{14, 26, 8, 1}}) {
    Conv2d conv = grouped(s.groups, s.width, s.width);
    conv.h = conv.w = s.size, conv.stride = {s.stride, s.stride};
    for (const char* text : {test::bare, test::bias_silu}) {
      const ConvPlan plan = choose(conv, test::epilogue_of(text, conv), Device{});
      const ConvConfig& c = plan.config;
      EXPECT_EQ(c.operands.group_channels, s.width) << describe(plan);
      EXPECT_EQ(c.operands.group_filters, s.width) << describe(plan);
      EXPECT_TRUE(c.schedule.stationary && !c.filled_by_warps() && plan.made_for_groups) << describe(plan);
      EXPECT_TRUE(c.tile.k == 64 && c.tile.n % s.width == 0 && c.tile.n <= 64) << describe(plan);
      EXPECT_EQ(plan.channel_blocks, 1) << describe(plan);
      EXPECT_EQ(c.schedule.stages, 9) << "all taps' filters stay";
      EXPECT_THAT(describe(plan), HasSubstr("groups " + std::to_string(s.width) + "x" + std::to_string(s.width)));
    }
  }
}

// However small the image: ordinary loads are no candidates beside them, but for an override
TEST(GroupTiles, ComeAheadOfOrdinaryLoads) {
  Conv2d conv = grouped(32, 4, 4);
  conv.n = 1, conv.h = conv.w = 5;
  const auto gathered = [](const Answer& a) { return a.plan.config.gathered() != nullptr; };
  const auto epilogue = test::epilogue_of(test::bias_silu, conv);
  EXPECT_TRUE(choose(conv, epilogue, Device{}).made_for_groups);
  EXPECT_TRUE(std::ranges::none_of(candidates(conv, epilogue, Device{}), gathered));
  EXPECT_TRUE(std::ranges::all_of(candidates(conv, epilogue, Device{}, parse_plan("load=gather")), gathered));
}

// Where they are beyond reach, the convolution is served without them: by the tensor cores if octets of channels and
// filters are one group's, which a network asks for
TEST(GroupTiles, AreNotChosenWhereTheyDoNotServe) {
  for (const auto& [conv, made_for_groups] :
       {std::pair(grouped(2, 72, 64), true), std::pair(grouped(2, 65, 64), false), std::pair(grouped(2, 72, 63), false),
        std::pair(grouped(1, 64, 64), false)}) {
    const ConvPlan plan = choose(conv, test::epilogue_of(test::bare, conv), Device{});
    EXPECT_FALSE(plan.config.operands.grouped()) << describe(plan);
    EXPECT_EQ(plan.made_for_groups, made_for_groups) << describe(plan);
  }
}

// All channels of a pixel are in one tile, of two groups
TEST(GroupTiles, NormaliseAPixelsChannels) {
  Conv2d conv = grouped(2, 32, 48);
  const ConvPlan plan = choose(conv, test::epilogue_of("store layer_norm(acc) as y : bf16", conv), Device{});
  EXPECT_TRUE(plan.config.operands.grouped() && plan.config.tile.n == 96) << describe(plan);
}

TEST(GroupTiles, NeedStationaryFiltersAndAStepOf64) {
  const auto refused = [](const char* fixed, std::int64_t taps = 3) {
    const Conv2d conv = grouped(8, 16, 16, taps);
    for (const Answer& a : candidates(conv, test::epilogue_of(test::bare, conv), Device{}, parse_plan(fixed)))
      if (!a.refusal.empty()) return a.refusal;
    return std::string("served");
  };
  EXPECT_EQ(refused("load=im2col tile=128x64 stationary=on"), "served");
  EXPECT_THAT(refused("load=im2col tile=128x64 stationary=off"), HasSubstr("groups are stationary"));
  EXPECT_THAT(refused("load=im2col tile=128x64 depth=32"), Says("32 deep; … one step"));
  EXPECT_THAT(refused("load=im2col tile=128x96", 1), HasSubstr("96 channels a tile; a multiple of 16 up to 64"));
  EXPECT_THAT(refused("load=im2col tile=128x40"), HasSubstr("40 channels a tile; a multiple of 16 up to 64"));
  EXPECT_THAT(refused("load=im2col tile=128x64 cluster=2x1"), HasSubstr("own channels and filters"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
