// The text of `unisono explain --device cuda` about plans, as recorded under tests/golden/plan. After a change that is
// meant, write it anew with UNISONO_WRITE_GOLDEN=1 test_families.

#include <gtest/gtest.h>

#include "support/golden.hpp"
#include "support/sources.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

void expect_golden(const std::string& name, const std::string& text) {
  unisono::test::expect_golden(unisono::test::source_path("tests/golden/plan/") + name + ".txt", text);
}

TEST(Explain, AResidentBlock) {
  const Conv2d conv = test::conv_of(8, 32, 32, 640, 640, 3);
  expect_golden("resident", explain(conv, test::epilogue_of(test::block, conv), Device{}));
}

TEST(Explain, AStreamedBlock) {
  const Conv2d conv = test::conv_of(1, 512, 512, 128, 128, 3);
  expect_golden("streamed", explain(conv, test::epilogue_of(test::block, conv), Device{}, {}, 3));
}

TEST(Explain, WithAnOverride) {
  Conv2d conv = test::conv_of(4, 56, 56, 64, 96, 3);
  conv.stride = {2, 2};
  expect_golden("stride_override", explain(conv, test::epilogue_of(test::bias_silu, conv), Device{},
                                           parse_plan("tile=128x96 order=pingpong")));
}

TEST(Explain, NothingLegal) {
  const Conv2d conv = test::conv_of(1, 512, 512, 128, 128, 3);
  expect_golden("nothing",
                explain(conv, test::epilogue_of(test::block, conv), Device{}, parse_plan("mode=resident load=halo")));
}

TEST(Text, OfConfigurations) {
  ConvConfig c;
  EXPECT_EQ(to_string(c), "128x128/4 pingpong");
  c = {.tile = {.n = 160},
       .schedule = {.stages = 5},
       .loader = HaloTile{.stages = 3},
       .statistics = ResidentStatistics{}};
  EXPECT_EQ(to_string(c), "128x160/5+3 pingpong resident");
  c.schedule.order = Order::cooperative, c.schedule.split = true;
  EXPECT_EQ(to_string(c), "128x160/5+3 cooperative split resident");
  c = {.tile = {.k = 32}, .schedule = {.cluster = {2, 1}}};
  EXPECT_EQ(to_string(c), "128x128x32/4 pingpong cluster 2x1");
  c = {.tile = {.n = 96, .k = 128}, .schedule = {.stages = 3}};
  EXPECT_EQ(to_string(c), "128x96x128/3 pingpong");
  EXPECT_EQ(to_string(override_of(c)),
            "tile=128x96 depth=128 order=pingpong load=im2col stages=3 buffers=1 cluster=1x1 split=off swap=off "
            "stationary=off mode=none "
            "unit=1");
}

TEST(Text, OfPlans) {
  const Conv2d conv = test::conv_of(2, 32, 32, 640, 640, 3);
  const ConvPlan p = choose(conv, test::epilogue_of(test::bare, conv), Device{},
                            parse_plan("tile=128x160 order=cooperative stages=6+3 split=on"));
  EXPECT_EQ(describe(p), "128x160/6+3 cooperative split, 64 tiles in 2 parts, 128 CTAs of 384 threads, 198 KB");
}

}  // namespace
}  // namespace unisono::families::sm90_conv
