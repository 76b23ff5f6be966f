// Which tiles volumes have, how these are counted, and what is refused.

#include <gmock/gmock.h>

#include "families/sm90_conv/parameters.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

Conv3d cube(std::int64_t n, std::int64_t side, std::int64_t channels) {
  Conv3d v{.n = n, .d = side, .h = side, .w = side, .c = channels, .k = channels, .t = 3, .r = 3, .s = 3};
  v.before = v.after = 1, v.dtype_x = v.dtype_w = DType::bf16;
  return v;
}

Epilogue epilogue_of_volume(const Conv3d& v, const char* text = "store acc as y : bf16") {
  return analyse(passes::run_pipeline(parse(text)), extents(v), families::tile_limits()).value();
}

ConvPlan plan_of_volume(const Conv3d& v, const std::string& fixed = "") {
  return choose(as_convolution(v), epilogue_of_volume(v), Device{}, parse_plan(fixed));
}

TEST(Volumes, OfFewChannelsHaveHaloTiles) {
  EXPECT_THAT(to_string(plan_of_volume(cube(1, 96, 32)).config), HasSubstr("x32x32/"));  // no step multiplies zeros
  for (const std::int64_t channels : {32, 64, 96}) {
    const ConvPlan p = plan_of_volume(cube(1, 96, channels));
    ASSERT_TRUE(p.config.halo());
    EXPECT_TRUE(p.config.halo()->of_plane);
    EXPECT_EQ(p.config.halo()->halo_h, 2);
    EXPECT_EQ(
        loads_per_tile(
            p.config,
            make_problem(as_convolution(cube(1, 96, channels)), epilogue_of_volume(cube(1, 96, channels))).value()),
        3 * ((channels + p.config.tile.k - 1) / p.config.tile.k));
  }
}

TEST(Volumes, TilesOfHalosLieInAPlane) {
  Conv3d v = cube(2, 11, 40);
  v.d = 5, v.stride.d = 2, v.before.d = 2, v.after.d = 0;  // planes at 0, 2 and 4
  const plan::ConvTask task = as_convolution(v);
  const ConvPlan p = plan_of_volume(v, "load=halo tile=64x48 depth=32 cluster=2x1");
  EXPECT_EQ(p.tiles_w, 2);
  EXPECT_EQ(p.tiles_m, 3 * 2 * 2 / 2);  // planes, tiles down and across one, a cluster
  const ConvGeometry g = geometry(task, p);
  EXPECT_EQ(g.height, 3 * 11);
  EXPECT_EQ(g.plane_height, 11);
  EXPECT_EQ(g.taps_h, 3);
  EXPECT_EQ(g.plane_taps_h, 2);  // blocks of 32 channels
  EXPECT_EQ(g.channel_blocks, 3 * 2);
  EXPECT_EQ(5ull * g.by_plane_height.factor >> g.by_plane_height.shift, 2u);  // tiles down a plane
  EXPECT_EQ(g.pad_d, 2);
  EXPECT_EQ(g.stride_d, 2);
}

TEST(Volumes, StridesWithinPlanesHaveNone) {
  Conv3d v = cube(1, 16, 64);
  v.stride = {2, 2, 2};
  EXPECT_FALSE(plan_of_volume(v).config.halo());
  std::vector<std::string> refusals;
  for (const Answer& a : candidates(as_convolution(v), epilogue_of_volume(v), Device{}, parse_plan("load=halo")))
    refusals.push_back(a.refusal);
  EXPECT_THAT(refusals, testing::Contains(HasSubstr("halo tiles: stride 2x2")));
}

// Taps further apart than im2col loads of volumes reach
TEST(Volumes, HaloTilesReachFurther) {
  Conv3d v = cube(1, 40, 64);
  v.dilation.h = 17, v.before.h = v.after.h = 17;
  EXPECT_TRUE(plan_of_volume(v).config.halo());
  v.stride.h = 2;
  const auto refusal = sm90::refuse_problem(as_convolution(v), epilogue_of_volume(v));
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->text(), HasSubstr("taps 34 apart along the height"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
