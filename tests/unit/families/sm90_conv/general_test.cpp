// Plans of general epilogues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

// Stored alone, one level may span tiles
TEST(General, ReductionsOverManyChannels) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 1024, 1);
  const ConvPlan wide = choose(conv, test::epilogue_of("store sum(acc, over=n) as s : f32", conv), Device{});
  EXPECT_TRUE(wide.config.wide());
  EXPECT_FALSE(choose(test::conv_of(1, 32, 32, 64, 64, 1), test::epilogue_of("store sum(acc, over=n) as s : f32", conv),
                      Device{}, parse_plan("tile=128x64 cluster=1x1"))
                   .config.wide());
  // What reads them waits, in a launch whose blocks are all resident
  const char* const text = "store log(softmax(acc, over=n)) as y : f32";  // without log a normalisation of rows
  const auto softmax = test::epilogue_of(text, conv);
  const ConvPlan meets = choose(conv, softmax, Device{});
  EXPECT_TRUE(meets.config.wide() && meets.config.meets() && meets.cooperative);
  EXPECT_FALSE(meets.config.schedule.split);
  EXPECT_EQ(meets.config.schedule.group, 0);
  EXPECT_NE(explain(conv, softmax, Device{}).find("in 2 passes over a tile, exchanged by the "), std::string::npos);
  for (const char* plan : {"split=on", "swap=on"})
    EXPECT_THROW(choose(conv, softmax, Device{}, parse_plan(plan)), Unsupported);
  // Rows of more tiles than are in flight wait in memory: a row of tiles of accumulators, rounded up
  const Conv2d huge = test::conv_of(1, 80, 80, 64, 100000, 1);
  for (const char* of_rows : {text, "store softmax(acc, over=n) as y : bf16", "store layer_norm(acc) as y : f32"}) {
    const ConvPlan plan = choose(huge, test::epilogue_of(of_rows, huge), Device{});
    EXPECT_TRUE(plan.config.spills() && plan.config.spills_rows() && plan.config.meets() && plan.cooperative)
        << of_rows;
    EXPECT_LT(plan.workspace_bytes, std::size_t{512} << 20) << of_rows;
  }
  const ConvPlan fits = choose(conv, softmax, Device{}, parse_plan("spill=f32"));
  EXPECT_TRUE(fits.config.spills_rows());
  EXPECT_FALSE(choose(test::conv_of(1, 32, 32, 64, 256, 1), softmax, Device{}).config.meets());
}

// A tile has all of a group's channels; of the row it has, the groups that it holds
TEST(General, AGroupIsInOneTile) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 960, 1);
  const auto e = test::epilogue_of("store softmax(acc, over=n, groups=20) as y : bf16", conv);
  const ConvPlan plan = choose(conv, e, Device{});
  EXPECT_EQ(plan.config.tile.n % 48, 0);
  EXPECT_FALSE(plan.config.wide() || plan.config.meets() || plan.cooperative);
  EXPECT_THROW(choose(conv, e, Device{}, parse_plan("tile=128x64")), Unsupported);
}

// All tiles that share a result are in flight at once; of more, those of a consumer warpgroup wait in memory
TEST(General, TilesThatShareAResultAreInFlightOrWaitInMemory) {
  const char *const text = "store group_norm(acc, groups=4) as y : f32",
                    *const two = "store group_norm(relu(group_norm(acc, groups=4)), groups=4) as y : f32";
  const Conv2d conv = test::conv_of(4, 32, 32, 64, 64, 1), large = test::conv_of(2, 512, 512, 64, 128, 1);
  const ConvPlan plan = choose(conv, test::epilogue_of(text, conv), Device{});
  EXPECT_TRUE(plan.config.meets() && plan.cooperative && !plan.config.wide() && !plan.config.schedule.split);
  EXPECT_FALSE(choose(conv, test::epilogue_of(two, conv), Device{}).config.spills());
  const auto twice = test::epilogue_of(two, large);
  const ConvPlan waits = choose(large, twice, Device{});
  EXPECT_TRUE(waits.config.spills() && waits.config.meets() && waits.cooperative);
  EXPECT_FALSE(waits.config.schedule.split);
  // an image's tiles, and no more than what the last of each warpgroup adds
  const std::size_t image = std::size_t{512} * 512 * 128 * 4, last = std::size_t{264} * 256 * 256 * 4;
  EXPECT_GE(waits.workspace_bytes, image);
  EXPECT_LE(waits.workspace_bytes, image + last);
  EXPECT_THAT(explain(large, twice, Device{}), testing::HasSubstr("wait in memory as f32"));
  // What fits waits in memory where that is asked for, as f32 alone
  EXPECT_TRUE(choose(conv, test::epilogue_of(two, conv), Device{}, parse_plan("spill=f32")).config.spills());
  EXPECT_THROW(choose(large, twice, Device{}, parse_plan("spill=bf16")), Unsupported);
  EXPECT_THROW(choose(large, twice, Device{}, parse_plan("split=on")), Unsupported);
  // A normalisation over all images shares the tiles of all of them
  const Conv2d many = test::conv_of(32, 64, 64, 64, 64, 1);
  EXPECT_NO_THROW(choose(many, test::epilogue_of("store group_norm(acc, groups=4) as y : f32", many), Device{}));
  const ConvPlan all =
      choose(many, test::epilogue_of("store batch_norm(relu(batch_norm(acc))) as y : f32", many), Device{});
  EXPECT_TRUE(all.config.spills());
  EXPECT_GE(all.workspace_bytes, std::size_t{32} * 64 * 64 * 64 * 4);
  const ConvPlan streamed = choose(many, test::epilogue_of("store batch_norm(acc) as y : f32", many), Device{});
  EXPECT_EQ(streamed.config.mode(), NormMode::streamed);
}

// The planner asks for no workspace that a GPU does not have
TEST(General, AccumulatorsThatWaitAreBounded) {
  const Conv2d conv = test::conv_of(256, 1024, 1024, 64, 256, 3);
  try {
    choose(conv, test::epilogue_of("store batch_norm(relu(batch_norm(acc))) as y : bf16", conv), Device{});
    ADD_FAILURE() << "a plan of hundreds of gigabytes";
  } catch (const Unsupported& refused) {
    EXPECT_THAT(refused.what(), Says("spill: accumulators … in a workspace of "));
    EXPECT_THAT(refused.what(), testing::HasSubstr("Split the batch"));
  }
}

// A level without such reductions is no pass
TEST(General, APassForEachLevelThatElementsReadOfSeveralRows) {
  const Conv2d conv = test::conv_of(1, 512, 512, 64, 128, 1);
  const char* const texts[] = {"store group_norm(group_norm(acc, groups=4), groups=4) as y : bf16",
                               "store instance_norm(layer_norm(acc)) as y : bf16"};
  const auto both = test::epilogue_of(texts[0], conv), one = test::epilogue_of(texts[1], conv);
  EXPECT_EQ(plan::visitor_shape(both).returning_levels, 2);
  EXPECT_EQ(plan::visitor_shape(one).returning_levels, 1);
  EXPECT_GT(plan::visitor_shape(one).returned_levels, 1);
  EXPECT_EQ(plan::visitor_shape(one).kept_row_folds, 2);  // mean and variance of a row
  EXPECT_THAT(explain(conv, one, Device{}), testing::HasSubstr("read again in 1 passes"));
}

// What the modes of normalising refuse, and functions' vector forms, have the mode general
TEST(General, ServesNormalisationsThatNoOtherModeDoes) {
  const Conv2d large = test::conv_of(1, 512, 512, 128, 128, 3), odd = test::conv_of(1, 512, 512, 128, 100, 3);
  for (const auto& [conv, text] : {std::pair{large, "h = acc + bias[n]\nstore h + group_norm(h, groups=4) as y : bf16"},
                                   std::pair{odd, "store group_norm(acc, groups=2) as y : bf16"}}) {
    const auto e = test::epilogue_of(text, conv);
    const ConvPlan plan = choose(conv, e, Device{});
    EXPECT_TRUE(plan.config.spills() && e.list.at(plan.form).general()) << text;
  }
  const auto plain = test::epilogue_of("store group_norm(acc, groups=4) as y : bf16", large);
  EXPECT_EQ(choose(large, plain, Device{}).config.mode(), NormMode::streamed);
  EXPECT_EQ(choose(large, plain, Device{}, parse_plan("mode=general")).config.mode(), NormMode::general);
}

TEST(General, ExplainsItself) {
  const Conv2d conv = test::conv_of(1, 64, 64, 64, 256, 1);
  const std::string text = explain(
      conv, test::epilogue_of("store softmax(acc, over=n) as y : f32\nstore sum(acc) as s : f32", conv), Device{});
  EXPECT_THAT(text, Says("mode: general: … 2 reductions … channels in 2 passes … 1 reductions over rows, "
                         "joined … in order"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
