// Stored mean and M2: in which units, and what they do to candidates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/registry.hpp"
#include "plan/moment_store.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Epilogue with_moments(const char* text, const Conv2d& conv, std::int64_t channels) {
  Epilogue e = test::epilogue_of(text, conv);
  test::require(store_moments(e, {"moments", channels}, conv.k));
  return e;
}

TEST(MomentStore, UnitsDivideTheTileToo) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 640, 3);
  int legal = 0;
  for (const Answer& c : candidates(conv, with_moments(test::bias_silu, conv, 10), Device{})) {
    const ConvConfig& k = c.plan.config;
    EXPECT_EQ(k.features.moments, 2) << k.tile.n;
    EXPECT_EQ(k.unit(), 1);
    if (!c.refusal.empty()) continue;
    ++legal;
    EXPECT_EQ(c.plan.images, 2) << "no tile of two images";
    EXPECT_EQ(c.plan.workspace.bytes == 0, !k.schedule.split) << to_string(k);
    EXPECT_THAT(
        moments_shape(c.plan, 640),
        ElementsAre(2, c.plan.tiles_m * k.schedule.cluster.m * k.schedule.warpgroups(), 640 / k.features.moments, 4));
  }
  EXPECT_GT(legal, 100);
}

TEST(MomentStore, SlotsOfAllPhases) {
  ConvTranspose2d t{.n = 2, .h = 9, .w = 10, .c = 64, .k = 96, .r = 4, .s = 4, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
  t.dtype_x = t.dtype_w = DType::bf16;
  Epilogue e =
      analyse(passes::run_pipeline(parse(test::bias_silu)), extents(Contraction(t)), families::tile_limits()).value();
  test::require(store_moments(e, {"moments", 6}, t.k));
  const ConvPlan p = choose(as_convolution(t), e, Device{});
  EXPECT_TRUE(p.config.by_parity());
  EXPECT_EQ(moments_shape(p, t.k)[1], 4 * p.tiles_m * p.config.schedule.cluster.m * p.config.schedule.warpgroups());
}

// A configuration without them is what it was, and its text too
TEST(MomentStore, ArePartOfThePlansText) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 96, 3);
  const auto fixed = parse_plan("tile=128x96 order=pingpong load=halo split=off");
  EXPECT_THAT(to_string(choose(conv, with_moments(test::bias_silu, conv, 12), Device{}, fixed).config),
              HasSubstr(" statistics/4"));
  EXPECT_EQ(to_string(choose(conv, test::epilogue_of(test::bias_silu, conv), Device{}, fixed).config).find("moments"),
            std::string::npos);
}

TEST(MomentStore, CostTime) {
  const Conv2d conv = test::conv_of(8, 64, 64, 64, 128, 1);
  for (const char* plan :
       {"tile=128x128 order=cooperative load=im2col split=off", "tile=128x128 swap=on load=im2col"}) {
    const auto fixed = parse_plan(plan);
    const double without = choose(conv, test::epilogue_of(test::bias_silu, conv), Device{}, fixed).predicted_us;
    const double with = choose(conv, with_moments(test::bias_silu, conv, 4), Device{}, fixed).predicted_us;
    EXPECT_GT(with, without) << plan;
    EXPECT_LT(with, 1.5 * without) << plan;
  }
}

}  // namespace
}  // namespace unisono::families::sm90_conv
