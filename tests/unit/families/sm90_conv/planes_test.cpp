// Channels first: what is converted, what is multiplied as planes, how results leave, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/sm90_conv/planes.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "families/sm90_conv/tensor_maps.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/params/params.cuh"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* block =
    "h = acc + bias[n]\n"
    "store silu(group_norm(h, groups=32, scale=gamma[n], shift=beta[n])) as y : bf16";

Conv2d planes_of(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, std::int64_t k, std::int64_t r) {
  Conv2d conv = test::conv_of(n, h, w, c, k, r);
  conv.layout = Layout::nchw;
  return conv;
}

ConvPlan plan_of(const Conv2d& conv, const char* text = block, const char* fixed = "") {
  return choose(conv, test::epilogue_of(text, conv), Device{}, parse_plan(fixed));
}

std::string refusal(const Conv2d& conv, const char* fixed, const char* text = block) {
  try {
    choose(conv, test::epilogue_of(text, conv), Device{}, by_hopper(parse_plan(fixed)));
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

TEST(ChannelsFirst, BlocksCostLittleMoreThanChannelsLast) {
  for (const Conv2d& conv : {planes_of(8, 64, 64, 320, 320, 3), planes_of(16, 128, 128, 128, 128, 3),
                             planes_of(1, 512, 512, 128, 128, 3), planes_of(8, 256, 256, 64, 64, 3)}) {
    Conv2d last = conv;
    last.layout = Layout::nhwc;
    const ConvPlan first = plan_of(conv);
    EXPECT_TRUE(first.config.operands.converted && first.cooperative) << describe(first);
    EXPECT_EQ(first.config.features.stores, Stores::planes_tma);
    EXPECT_LT(first.predicted_us, 1.8 * plan_of(last).predicted_us) << describe(first);
    EXPECT_GT(first.predicted_us, 1.1 * plan_of(last).predicted_us);
    EXPECT_GT(first.workspace_bytes, static_cast<std::size_t>(2 * conv.n * conv.h * conv.w * conv.c));
    EXPECT_LE(first.conversion.ahead, first.conversion.units);
  }
}

// As much of the image ahead of the tiles as these would wait for
TEST(ChannelsFirst, AheadOfTheTilesIsWhatTheyWouldWaitFor) {
  const Conv2d conv = planes_of(8, 256, 256, 64, 32, 3);
  const ConvPlan first = plan_of(conv, block, "ahead=first"), balanced = plan_of(conv, block, "ahead=balanced"),
                 all = plan_of(conv, block, "ahead=all");
  EXPECT_EQ(all.conversion.ahead, all.conversion.units);
  EXPECT_LT(first.conversion.ahead, first.conversion.units / 4);
  EXPECT_GT(balanced.conversion.ahead, 2 * first.conversion.ahead);
  EXPECT_LT(balanced.conversion.ahead, balanced.conversion.units);
  EXPECT_EQ(plan_of(conv).conversion.ahead, all.conversion.ahead);  // unless the plan says otherwise
  EXPECT_LT(all.workspace_bytes, first.workspace_bytes);            // by the flags of units beside
  EXPECT_THAT(describe(first), HasSubstr("converted first ahead"));
  EXPECT_EQ(override_of(first.config).fields.at("ahead"), "first");
  EXPECT_EQ(override_of(balanced.config).fields.at("ahead"), "balanced");
  // More multiplications an element: less to wait for
  EXPECT_EQ(plan_of(planes_of(8, 64, 64, 640, 1280, 3), block, "ahead=balanced").conversion.ahead,
            plan_of(planes_of(8, 64, 64, 640, 1280, 3), block, "ahead=first").conversion.ahead);
  EXPECT_THAT(refusal(planes_of(8, 64, 64, 320, 320, 1), "ahead=first"), HasSubstr("ahead: nothing is converted"));
}

// Units beside the tiles take shared memory, which the stages have where there are none; planes of odd pixels are
// beyond the spare warps' copies
TEST(ChannelsFirst, SpareWarpsHaveASlotEach) {
  const Conv2d conv = planes_of(16, 128, 128, 128, 128, 3);
  const ConvPlan all = plan_of(conv, block, "ahead=all load=halo tile=256x64 swap=on"),
                 first = plan_of(conv, block, "ahead=first load=halo tile=256x64 swap=on");
  EXPECT_GT(all.config.schedule.stages, first.config.schedule.stages);
  ConvConfig beside = all.config;
  beside.operands.ahead = sm90::Ahead::first;
  const plan::VisitorShape shape = plan::visitor_shape(test::epilogue_of(block, conv));
  EXPECT_GE(shared_bytes(beside, shape), shared_bytes(all.config, shape) + 3 * kConvertedSlotBytes);
  EXPECT_LT(shared_bytes(beside, shape), shared_bytes(all.config, shape) + 3 * kConvertedSlotBytes + 128);
  const ConvPlan odd = plan_of(planes_of(8, 127, 127, 64, 64, 3), block, "ahead=first");
  EXPECT_EQ(odd.conversion.ahead, odd.conversion.units);
}

// Halo tiles that are followed by another of their image wait in the workspace, all of them
TEST(ChannelsFirst, SpilledHaloTilesHaveAPlace) {
  const Conv2d one = planes_of(1, 512, 512, 128, 128, 3), many = planes_of(16, 128, 128, 128, 128, 3);
  const ConvPlan spilled = plan_of(one, block, "mode=streamed load=halo");
  EXPECT_GT(spilled.workspace.spilled, spilled.workspace.converted);
  EXPECT_GE(spilled.workspace_bytes, spilled.workspace.spilled + 2 * 512 * 512 * 128);
  EXPECT_EQ(plan_of(many, block, "mode=streamed load=halo").workspace.spilled, 0u);
  EXPECT_EQ(plan_of(one, block, "mode=streamed load=im2col").workspace.spilled, 0u);
}

TEST(ChannelsFirst, OneTapIsMultipliedAsPlanes) {
  const ConvPlan p = plan_of(planes_of(8, 64, 64, 320, 320, 1));
  EXPECT_TRUE(p.config.loads(Im2colTile::Box::columns) && !p.config.operands.converted);
  const MapShapes maps = map_shapes(planes_of(8, 64, 64, 320, 320, 1), p);
  EXPECT_EQ(maps.activation.extents, (std::array<std::uint64_t, 5>{4096, 320, 8, 1}));
  EXPECT_EQ(maps.activation.box[0], 64u);
  EXPECT_TRUE(converted_maps(p).empty());
  // Rows of a plane, or of the filters, of odd bytes
  EXPECT_TRUE(plan_of(planes_of(8, 63, 63, 320, 320, 1)).config.operands.converted);
  EXPECT_TRUE(plan_of(planes_of(8, 64, 64, 319, 320, 1)).config.operands.converted);
}

TEST(ChannelsFirst, MapsOfResultsAreOfPlanes) {
  const Conv2d conv = planes_of(2, 24, 40, 64, 128, 3);
  const MapShape linear = map_shapes(conv, plan_of(conv, block, "load=im2col tile=128x128")).output;
  EXPECT_EQ(linear.extents, (std::array<std::uint64_t, 5>{960, 128, 1, 2}));
  EXPECT_EQ(linear.box, (std::array<std::uint32_t, 5>{64, 16, 1, 1}));
  EXPECT_EQ(linear.swizzle_bytes, 128);
  const MapShape halo = map_shapes(conv, plan_of(conv, block, "load=halo tile=128x128")).output;
  EXPECT_EQ(halo.extents, (std::array<std::uint64_t, 5>{40, 128, 24, 2}));
  EXPECT_EQ(halo.strides, (std::array<std::uint64_t, 4>{1920, 80, 245760}));
  EXPECT_EQ(halo.box, (std::array<std::uint32_t, 5>{8, 16, 8, 1}));
  // And of operands in the workspace, whose channels are rounded up
  const Conv2d odd = planes_of(2, 24, 40, 13, 128, 3);
  const ConvPlan p = plan_of(odd, block, "load=im2col");
  EXPECT_EQ(map_shapes(as_converted(odd), p).activation.extents[0], 16u);
  const auto sites = converted_maps(p);
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].ahead, p.workspace.image);
  EXPECT_EQ(sites[1].ahead, p.workspace.filter);
}

TEST(ChannelsFirst, WhatTmaDoesNotStoreIsStoredByElements) {
  const auto stores = [](const Conv2d& conv, const char* fixed) {
    return plan_of(conv, block, fixed).config.features.stores;
  };
  EXPECT_EQ(stores(planes_of(2, 24, 20, 64, 128, 3), "load=im2col"), Stores::planes_tma);  // 480 pixels
  EXPECT_EQ(stores(planes_of(2, 24, 20, 64, 128, 3), "load=halo"), Stores::planes);
  EXPECT_EQ(stores(planes_of(2, 23, 21, 64, 128, 3), "load=im2col"), Stores::planes);
  EXPECT_EQ(stores(planes_of(2, 24, 24, 64, 128, 3), "load=im2col tile=128x40"), Stores::planes);
  EXPECT_THAT(refusal(planes_of(2, 23, 21, 64, 128, 3), "mode=streamed"), Says("planes … multiple of 8 pixels"));
  EXPECT_TRUE(plan_of(planes_of(4, 256, 256, 128, 128, 3)).config.streamed());
}

/// Units of the image behind another that the tiles of one round behind the other's end read, tile by tile.
std::int64_t units_of_a_round(const ConvPlan& p, const Conv2d& conv) {
  const ConvConfig& c = p.config;
  const std::int64_t across = c.streamed()->by_channels ? 1 : p.tiles_n, width = extents(Contraction(conv)).width;
  std::int64_t last = 0;
  for (std::int64_t t = 0; t < p.ctas / p.cluster * c.schedule.consumer_groups(); ++t)
    for (std::int64_t m = t / across * c.schedule.cluster.m; m < (t / across + 1) * c.schedule.cluster.m; ++m) {
      const std::int64_t line =
          c.two_dimensional() ? (m / p.tiles_w + 1) * (c.tile.m / 8) - 1 : ((m + 1) * c.tile.m - 1) / width;
      last = std::max(last, line * conv.stride[0] - conv.pad[0] + (conv.r - 1) * conv.dilation[0]);
    }
  return (std::min(last, conv.h - 1) * conv.w + conv.w + kConvertedPixels - 1) / kConvertedPixels * p.conversion.blocks;
}

// Else a spare warp would wait for columns to be used that are used once a tile behind its units is multiplied
TEST(ChannelsFirst, SpareWarpsAreAheadOfWhatTheNextRoundReads) {
  Conv2d dilated = planes_of(4, 96, 64, 16, 64, 3);
  dilated.dilation = {8, 8}, dilated.pad = 8;
  Device small;
  small.resident_ctas = {0, 2, 2, 0, 0, 0, 0, 0, 0};
  for (const auto& [conv, device] :
       {std::pair{planes_of(3, 512, 512, 16, 512, 11), Device{}}, std::pair{dilated, small},
        std::pair{planes_of(3, 512, 1024, 72, 64, 9), Device{}}})
    for (const char* load : {"load=im2col", "load=halo", "load=im2col cluster=2x1"}) {
      const ConvPlan p = choose(conv, test::epilogue_of(block, conv), device,
                                parse_plan(std::string("mode=streamed tile=64x64 ") + load));
      ASSERT_TRUE(p.config.operands.converted && p.tiles_m > p.ctas);
      EXPECT_GE(p.conversion.units_ahead, units_of_a_round(p, conv)) << load << ", " << conv.w;
    }
}

TEST(ChannelsFirst, Refusals) {
  EXPECT_THAT(refusal(planes_of(2, 24, 24, 64, 128, 3), "order=pingpong2 load=im2col"),
              Says("planes … launch converts"));
  Conv2d f32 = planes_of(2, 24, 24, 64, 128, 3), grouped = f32;
  f32.dtype_x = f32.dtype_w = DType::f32, grouped.groups = 2;
  EXPECT_TRUE(plan_of(f32).config.gathered());
  EXPECT_THAT(refusal(f32, "load=halo"), HasSubstr("channels first, of f32"));
  EXPECT_THAT(refusal(grouped, "load=im2col"), HasSubstr("channels first, in 2 groups"));
  EXPECT_TRUE(plan_of(planes_of(2, 24, 24, 64, 128, 3), block, "load=gather").config.gathered());
  EXPECT_THAT(refusal(planes_of(1, 256, 256, 64, 128, 3), "mode=streamed",
                      "store silu(group_norm(acc + bias[n], groups=32, scale=gamma[n], shift=beta[n])) as y : f32"),
              HasSubstr("second pass over planes"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
