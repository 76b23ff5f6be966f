// What a configuration is made of, and how its parts are read.

#include "families/sm90_conv/config.hpp"

#include <gtest/gtest.h>

#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

TEST(Config, TheModeIsThatOfItsStatistics) {
  for (const NormMode mode :
       {NormMode::none, NormMode::resident, NormMode::streamed, NormMode::rows, NormMode::general}) {
    const ConvConfig c{.statistics = statistics_of(mode)};
    EXPECT_EQ(c.mode(), mode);
    EXPECT_EQ(c.unit(), 1);
    EXPECT_FALSE(c.wide() || c.meets());
  }
  EXPECT_EQ(ConvConfig{.statistics = StreamedStatistics{.unit = 5}}.unit(), 5);
  const ConvConfig general{.statistics = GeneralReductions{.wide = true, .meets = true}};
  EXPECT_TRUE(general.wide() && general.meets());
}

TEST(Config, LoadersHaveTheirOwnStages) {
  ConvConfig c;
  EXPECT_TRUE(c.loads(Im2colTile::Box::pixels) && !c.two_dimensional() && !c.two_rings() && !c.filled_by_warps());
  EXPECT_EQ(c.activation_stages(), 0);
  c.schedule.stationary = true;
  c.set_activation_stages(3);
  EXPECT_TRUE(c.two_rings());
  EXPECT_EQ(c.im2col()->stages, 3);
  c = {.loader = HaloTile{.halo_h = 2, .halo_w = 4, .by_parity = true}};
  c.set_activation_stages(5);
  EXPECT_TRUE(c.two_dimensional() && c.two_rings() && c.by_parity() && c.columns_b());
  EXPECT_EQ(c.halo()->stages, 5);
  EXPECT_EQ(c.halo()->pixels(128), 18 * 12);
  c = {.loader = ExplicitIm2col{.window = {.lines = 3}, .stages = 4}};
  EXPECT_TRUE(c.two_dimensional() && c.filled_by_warps() && !c.two_rings());
  EXPECT_EQ(c.activation_stages(), 4);
  EXPECT_EQ(c.window()->lines, 3);
  c = {.loader = sm90::Gathering{}};
  c.set_activation_stages(4);  // ordinary loads have one ring
  EXPECT_EQ(c.activation_stages(), 0);
  EXPECT_TRUE(c.gathered() && c.filled_by_warps() && !c.halo() && !c.im2col() && !c.window());
}

TEST(Config, AFieldWithoutAPlaceIsRefused) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  const auto all = candidates(conv, test::epilogue_of(test::bare, conv), Device{}, parse_plan("unit=4"));
  ASSERT_FALSE(all.empty());
  int refused = 0;
  for (const Answer& c : all) {
    EXPECT_NE(c.refusal, "");
    refused += c.refusal.starts_with("unit: 4 channels; without statistics") ? 1 : 0;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace unisono::families::sm90_conv
