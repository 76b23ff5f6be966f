// Tiles, statistics, split-K and workspace of plans against values worked out by hand.

#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/shared_memory.hpp"

#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

ConvPlan plan_of(const Conv2d& conv, const char* epilogue, const char* fixed) {
  return choose(conv, test::epilogue_of(epilogue, conv), Device{}, parse_plan(fixed));
}

TEST(Geometry, PatchesResident) {
  // 64x64 pixels in tiles of 8x16: 8 across, 4 down; 320 channels in two tiles of 160
  const ConvPlan p =
      plan_of(test::conv_of(8, 64, 64, 320, 320, 3), test::block,
              "tile=128x160 order=pingpong load=halo stages=5+3 mode=resident cluster=1x1 split=off buffers=2");
  EXPECT_EQ(p.images, 8);
  EXPECT_EQ(p.rows, 4096);
  EXPECT_EQ(p.tiles_w, 8);
  EXPECT_EQ(p.tiles_m, 32);
  EXPECT_EQ(p.tiles_n, 2);
  EXPECT_EQ(p.tiles, 512);
  EXPECT_EQ(p.channel_blocks, 5);
  EXPECT_EQ(p.splits, 1);
  EXPECT_EQ(p.slots_per_image, 32);
  EXPECT_EQ(p.segment_slots, 1);
  EXPECT_EQ(p.segments_per_image, 32);
  EXPECT_EQ(p.threads, 384);
  EXPECT_EQ(p.ctas, 128);  // 512 tiles take four rounds of 128 as of 132
  EXPECT_TRUE(p.cooperative);
  EXPECT_EQ(p.config.halo()->halo_h, 2);
  EXPECT_EQ(p.config.halo()->halo_w, 2);
  EXPECT_EQ(p.config.unit(), 10);  // gcd(10 channels a group, 160)
  EXPECT_EQ(p.workspace.exits, 0u);
  EXPECT_EQ(p.workspace.slots, 256u);
  EXPECT_EQ(p.workspace.segments, p.workspace.slots);
  EXPECT_EQ(p.workspace.bytes, 256u + 8 * 32 * 32 * 16);  // images, units, slots, entry
  // stages: 3 halo tiles of 18 lines of 10 pixels, rounded up to 1024, 5 of 160 filters, 128 bytes each; a warpgroup:
  // staging of four warps, four columns (bias, mean, factor, shift) of 160 floats, rounded up to 1024; barriers;
  // alignment
  EXPECT_EQ(p.shared_bytes, 3u * 23552 + 5 * 160 * 128 + 2 * 11264 + 8 * (2 * 5 + 2 * 3 + 2) + 1024);
}

// 320 channels are five blocks of 64: of im2col tiles 45 with nine taps, in 23 steps of two; of halo tiles six with
// each tap
TEST(Geometry, StepsOf128) {
  const Conv2d conv = test::conv_of(2, 16, 16, 320, 320, 3);
  const auto problem = make_problem(conv, test::epilogue_of(test::bare, conv)).value();
  const ConvPlan im2col = plan_of(conv, test::bare, "tile=128x80 depth=128 load=im2col split=off cluster=1x1 stages=3");
  EXPECT_EQ(im2col.channel_blocks, 5);
  EXPECT_EQ(loads_per_tile(im2col.config, problem), 23);
  EXPECT_EQ(activation_stage_bytes(im2col.config), 128u * 256);
  EXPECT_EQ(filter_stage_bytes(im2col.config), 80u * 256);
  const ConvPlan halo = plan_of(conv, test::bare, "tile=128x80 depth=128 load=halo split=off stages=3+2");
  EXPECT_EQ(halo.channel_blocks, 3);
  EXPECT_EQ(loads_per_tile(halo.config, problem), 3);
  EXPECT_EQ(activation_stage_bytes(halo.config), 2u * 23552);  // each atom of 18 lines of 10 pixels starts at 1024
}

TEST(Geometry, RunsCrossImagesUnlessTheEpilogueMayNot) {
  const Conv2d conv = test::conv_of(32, 56, 56, 256, 256, 3);
  const ConvPlan bare = plan_of(conv, test::bare, "tile=128x128 order=pingpong load=im2col cluster=1x1");
  EXPECT_EQ(bare.images, 1);
  EXPECT_EQ(bare.rows, 32 * 56 * 56);
  EXPECT_EQ(bare.tiles, 784 * 2);
  EXPECT_FALSE(bare.cooperative);
  EXPECT_EQ(bare.workspace.bytes, 0u);
  const ConvPlan per_image =
      plan_of(conv, "store acc + temb[b,n] as y : bf16\n", "tile=128x128 order=pingpong load=im2col cluster=1x1");
  EXPECT_EQ(per_image.images, 32);
  EXPECT_EQ(per_image.rows, 56 * 56);
  EXPECT_EQ(per_image.tiles, 32 * 25 * 2);  // the last tile of an image is half empty
}

TEST(Geometry, ManySlotsFormSegments) {
  const ConvPlan p = plan_of(test::conv_of(1, 512, 512, 128, 128, 3), test::block,
                             "tile=128x128 order=pingpong load=halo mode=streamed cluster=1x1");
  EXPECT_EQ(p.slots_per_image, 2048);
  EXPECT_EQ(p.segment_slots, 128);  // a warp loads the entries of 128 slots at once
  EXPECT_EQ(p.segments_per_image, 16);
  EXPECT_EQ(p.workspace.segments, 256u + 2048 * 32 * 16);
  EXPECT_EQ(p.workspace.bytes, p.workspace.segments + 16 * 32 * 16);
}

// What an extent makes too large is a reason against the plan, as every other
TEST(Geometry, ANumberThatDoesNotFitRefusesTheLaunch) {
  const Conv2d conv = test::conv_of(2, 16, 16, 64, 64, 3);
  ConvProblem problem = make_problem(conv, test::epilogue_of(test::bare, conv)).value();
  ASSERT_TRUE(lay_out(ConvConfig{}, problem, Device{}));
  problem.extents.cols = std::int64_t{1} << 50;
  const auto plan = lay_out(ConvConfig{}, problem, Device{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.refusal().scope, plan::Refusal::Scope::plan);
  EXPECT_EQ(plan.refusal().rule.text, "size: {}");
  EXPECT_THAT(plan.refusal().text(),
              Says("size: tiles across the channels: … 32 bits; give smaller extents, or split …"));
}

// A statistic of more floats than an entry holds is a message of several, in every slot and segment, and in the second
// pass's shared memory
TEST(Geometry, StatisticsOfSeveralEntries) {
  const Conv2d conv = test::conv_of(1, 512, 512, 128, 128, 3);
  const ConvPlan moments =
      plan_of(conv, test::block, "tile=128x128 order=pingpong load=halo mode=streamed cluster=1x1 stages=2+2");
  EXPECT_EQ(moments.config.floats(), 3);
  const ConvProblem problem = make_problem(conv, test::epilogue_of(test::block, conv)).value();
  for (const auto& [floats, entries] :
       std::initializer_list<std::pair<int, std::size_t>>{{2, 1}, {3, 1}, {4, 2}, {6, 2}, {7, 3}}) {
    ConvConfig config = moments.config;
    config.statistics = StreamedStatistics{.unit = config.unit(), .floats = floats};
    const ConvPlan p = lay_out(config, problem, Device{}).value();
    EXPECT_EQ(p.segment_slots, 128) << floats << " floats";
    EXPECT_EQ(p.workspace.slots, 256u);
    EXPECT_EQ(p.workspace.segments, 256u + 2048 * 32 * 16 * entries) << floats << " floats";
    EXPECT_EQ(p.workspace.bytes, p.workspace.segments + 16 * 32 * 16 * entries) << floats << " floats";
    const auto room = [](int of) { return 2 * ((std::size_t{254} * 4 * of + 15) / 16 * 16); };  // two consumer groups
    EXPECT_EQ(p.shared_bytes + room(3), moments.shared_bytes + room(floats)) << floats << " floats";
    config.statistics = ResidentStatistics{.unit = config.unit(), .floats = floats};
    EXPECT_EQ(lay_out(config, problem, Device{}).value().workspace.segments, p.workspace.segments)
        << floats << " floats";
  }
  EXPECT_EQ(plan_of(conv, test::bare, "tile=128x128").config.floats(), 0);
}

TEST(Geometry, SplitK) {
  // 2 x 8 tiles, 4 channel tiles: 64 tiles in two parts; the filter's columns times channel blocks are 30 loads
  const ConvPlan p =
      plan_of(test::conv_of(2, 32, 32, 640, 640, 3), test::bare, "tile=128x160 order=cooperative load=halo split=on");
  EXPECT_EQ(p.tiles, 64);
  EXPECT_EQ(p.splits, 2);
  EXPECT_EQ(p.ctas, 128);
  EXPECT_TRUE(p.cooperative);
  EXPECT_EQ(p.workspace.flags, 256u);
  EXPECT_EQ(p.workspace.partials, 768u);                           // 64 tiles, one partner, two warpgroups: 512 bytes
  EXPECT_EQ(p.workspace.bytes, 768u + 64 * 1 * 2 * 64 * 160 * 4);  // times their rows, channels, float
}

TEST(Geometry, ClustersRoundUp) {
  const ConvPlan p = plan_of(test::conv_of(3, 24, 24, 64, 192, 3), test::block,
                             "tile=128x64 order=pingpong load=im2col mode=resident cluster=2x1");
  EXPECT_EQ(p.tiles_m, 3);  // ceil(576 / 128) = 5 tiles, 3 clusters of two
  EXPECT_EQ(p.tiles_n, 3);
  EXPECT_EQ(p.tiles, 27);
  EXPECT_EQ(p.slots_per_image, 6);
  EXPECT_EQ(p.ctas, 54);
}

TEST(Geometry, FewBlocksFit) {
  Device small;
  small.resident_ctas.fill(0);
  small.resident_ctas[1] = 6;
  const Conv2d conv = test::conv_of(1, 64, 64, 64, 64, 3);
  const auto epilogue = test::epilogue_of(test::block, conv);
  for (const Answer& c : candidates(conv, epilogue, small)) {
    if (!c.refusal.empty()) continue;
    EXPECT_EQ(c.plan.config.schedule.cluster.ctas(), 1);
    EXPECT_LE(c.plan.ctas, 6);
    if (c.plan.config.mode() == NormMode::resident) {
      EXPECT_LE(c.plan.tiles, 6 * c.plan.config.schedule.consumer_groups());
    }
  }
}

}  // namespace
}  // namespace unisono::families::sm90_conv
