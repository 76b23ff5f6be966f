// What a caller may fix of a plan, and the errors for what he may not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_plan(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Override, ReadsFields) {
  const PlanOverride o =
      parse_plan(" tile=128x160  cluster=1x2,stages=5+3\norder=pingpong mode=resident load=halo split=off");
  EXPECT_EQ(o.fields.size(), 7u);
  EXPECT_EQ(o.fields.at("tile"), "128x160");
  EXPECT_EQ(o.fields.at("stages"), "5+3");
  EXPECT_TRUE(parse_plan("").fields.empty());
}

// Rows that are stored, and texts that somebody has written down
TEST(Override, WordsOfEarlierPlansAreRead) {
  EXPECT_EQ(to_string(parse_plan("load=patch order=pairs")), "order=pingpong2 load=halo");
  EXPECT_EQ(to_string(parse_plan("load=runs")), "load=im2col");
  EXPECT_EQ(to_string(parse_plan("load=unfold")), "load=im2col_smem");
  PlanOverride before;
  before.fields = {{"load", "unfold"}, {"order", "pairs"}};
  EXPECT_EQ(sm90::resolve(before).load, sm90::Load::im2col_smem);
  EXPECT_EQ(sm90::resolve(before).order, sm90::Order::pingpong2);
}

TEST(Override, ByKeyAndAsText) {
  EXPECT_FALSE(PlanOverride{}.any());
  EXPECT_EQ(to_string(PlanOverride{}), "");
  EXPECT_EQ(to_string(PlanOverride{{{"order", "pingpong"}, {"tile", "128x64"}}}), "tile=128x64 order=pingpong");
  EXPECT_THROW(to_string(PlanOverride{{{"threats", "64"}}}), UserError);
  EXPECT_THROW(to_string(PlanOverride{{{"tile", "0x64"}}}), UserError);
  EXPECT_EQ(to_string(fixed_by("tile=128x64", {{{"split", "on"}}})), "tile=128x64 split=on");
  EXPECT_THROW(fixed_by("split=on", {{{"split", "on"}}}), UserError) << "fixed twice";
  EXPECT_THROW(fixed_by("stages=5+3", {{{"load", "im2col"}}}), UserError) << "they contradict each other";
}

TEST(Override, UnknownFieldsAndValues) {
  EXPECT_EQ(
      error_of("tiel=128x128"),
      "plan override: unknown field 'tiel'; known are family, tile, depth, order, load, stages, buffers, "
      "cluster, split, swap, stationary, mode, unit, group, spill, raster, hints, deferred, epilogue, fetch, ahead, "
      "thread, arch, swizzle_size, subtile, reductions, warps, parts; did you mean 'tile'?");
  EXPECT_EQ(
      error_of("mode=resdent"),
      "plan override: mode=resdent: expected none, resident, streamed, rows or general; did you mean 'resident'?");
  EXPECT_THAT(error_of("tile=128"), HasSubstr("tile=128: expected ROWSxCHANNELS"));
  EXPECT_THAT(error_of("tile=128xwide"), HasSubstr("tile=128xwide: expected ROWSxCHANNELS"));
  EXPECT_THAT(error_of("tile=99999999999x1"), HasSubstr("expected ROWSxCHANNELS"));
  EXPECT_THAT(error_of("stages=0"), HasSubstr("stages=0: expected a number"));
  EXPECT_THAT(error_of("stages=-4"), HasSubstr("expected a number"));
  EXPECT_THAT(error_of("pingpong"), HasSubstr("'pingpong': expected FIELD=VALUE"));
  EXPECT_THAT(error_of("split=on split=off"), HasSubstr("'split' is"));
  EXPECT_THAT(error_of("order="), HasSubstr("expected cooperative, pingpong or pingpong2"));
}

// Products of what an override names are computed as ints: the two clusters ended the process once
TEST(Override, NumbersBeyondAnyKernelAreRefused) {
  EXPECT_EQ(error_of("cluster=65536x65536"),
            "plan override: cluster=65536x65536: expected ROWSxCHANNELS in CTAs, such as 1x2; numbers of 1 to 16");
  EXPECT_THAT(error_of("cluster=46341x46341"), HasSubstr("numbers of 1 to 16"));
  const Conv2d conv = test::conv_of(8, 64, 64, 320, 320, 3);
  const auto epilogue = test::epilogue_of(test::bare, conv);
  for (const char* text : {"cluster=65536x65536", "cluster=46341x46341"}) {
    PlanOverride fixed;
    fixed.fields = {{"cluster", std::string(text).substr(8)}};
    EXPECT_THROW(candidates(conv, epilogue, Device{}, fixed), UserError) << text;
  }
  for (const char* field : {"tile=32769x64", "stages=4097", "stages=1+4097", "buffers=1025", "unit=1025", "group=65537",
                            "thread=1x1x1025", "cluster=1x17"})
    EXPECT_THAT(error_of(field), HasSubstr("numbers of 1 to ")) << field;
}

// The largest and smallest of every field, alone and together, on the smallest and largest problems: a plan or a reason
TEST(Override, EveryNumberThatIsReadHasAPlanOrAReason) {
  const std::vector<std::string> extremes{"tile=32768x32768", "tile=1176x24",          "tile=1x1",      "tile=64x8",
                                          "stages=4096+4096", "stages=4096",           "stages=1",      "buffers=1",
                                          "buffers=1024",     "cluster=16x16",         "cluster=8x1",   "unit=1024",
                                          "group=65536",      "thread=1024x1024x1024", "thread=1x1x1",  "fetch=3",
                                          "split=on",         "stationary=on",         "swap=on",       "load=gather",
                                          "load=im2col_smem", "load=depthwise",        "mode=streamed", "mode=general",
                                          "order=pingpong2"};
  std::vector<Conv2d> problems{test::conv_of(1, 1, 1, 8, 8, 1),       test::conv_of(8, 64, 64, 320, 320, 3),
                               test::conv_of(1, 1 << 24, 1, 8, 8, 1), test::conv_of(1, 8, 8, 8, 1 << 29, 1),
                               test::conv_of(1 << 29, 1, 1, 8, 8, 1), test::conv_of(1, 3, 1 << 15, 1 << 15, 8, 3)};
  Conv2d apart = test::conv_of(1, 64, 64, 64, 64, 3);
  apart.groups = 64, problems.push_back(apart);
  std::size_t legal = 0, refused = 0;
  for (const Conv2d& conv : problems)
    for (const char* text : {test::bare, test::bias_silu, "store sum(acc, over=n) as y : f32\n"}) {
      const auto epilogue = test::epilogue_of(text, conv);
      for (std::size_t i = 0; i < extremes.size(); ++i)
        for (std::size_t j = i; j < extremes.size(); j += 5) {
          const std::string both = i == j ? extremes[i] : extremes[i] + " " + extremes[j];
          try {
            for (const Answer& c : candidates(conv, epilogue, Device{}, parse_plan(both)))
              ++(c.refusal.empty() ? legal : refused);
          } catch (const Error& error) {  // twice the same field; stages that do not go together; sizes
            EXPECT_EQ(dynamic_cast<const InternalError*>(&error), nullptr) << both << ": " << error.what();
          }
        }
    }
  EXPECT_GT(legal, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(Override, FieldsThatWereNotParsedAreCheckedToo) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  PlanOverride fixed;
  fixed.fields = {{"mode", "fast"}};
  EXPECT_THROW(candidates(conv, test::epilogue_of(test::bare, conv), Device{}, fixed), UserError);
}

TEST(Override, StagesOfHaloTilesNeedHaloTiles) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  const auto epilogue = test::epilogue_of(test::bare, conv);
  EXPECT_THROW(choose(conv, epilogue, Device{}, parse_plan("stages=5+3 load=im2col")), UserError);
  EXPECT_TRUE(choose(conv, epilogue, Device{}, parse_plan("stages=5+3")).config.two_dimensional());
  const Conv2d few = test::conv_of(1, 32, 32, 16, 64, 3);
  EXPECT_TRUE(choose(few, epilogue, Device{}, parse_plan("stages=5+2 load=im2col_smem")).config.window());
  EXPECT_FALSE(choose(few, epilogue, Device{}, parse_plan("stages=5+2")).config.window());
}

TEST(Override, EveryCandidateHasWhatIsFixed) {
  const Conv2d conv = test::conv_of(4, 32, 32, 128, 256, 3);
  const auto epilogue = test::epilogue_of(test::block, conv);
  const auto each = [&](const char* fixed, auto&& holds) {
    const auto all = candidates(conv, epilogue, Device{}, parse_plan(fixed));
    ASSERT_FALSE(all.empty()) << fixed;
    EXPECT_TRUE(all.front().refusal.empty()) << fixed << ": " << all.front().refusal;
    for (const Answer& c : all) EXPECT_TRUE(holds(c.plan.config)) << fixed << ": " << to_string(c.plan.config);
  };
  each("tile=64x32", [](const ConvConfig& c) { return c.tile.m == 64 && c.tile.n == 32; });
  each("depth=32", [](const ConvConfig& c) { return c.tile.k == 32 && !c.two_dimensional(); });
  each("depth=128 load=im2col tile=256x128",
       [](const ConvConfig& c) { return c.tile.k == 128 && !c.two_dimensional(); });
  each("depth=128 load=halo", [](const ConvConfig& c) { return c.tile.k == 128 && c.two_dimensional(); });
  each("order=pingpong2", [](const ConvConfig& c) { return c.schedule.order == Order::pingpong2; });
  each("order=cooperative", [](const ConvConfig& c) { return c.schedule.order == Order::cooperative; });
  each("load=im2col", [](const ConvConfig& c) { return !c.two_dimensional() && c.activation_stages() == 0; });
  each("stages=3", [](const ConvConfig& c) { return c.schedule.stages == 3; });
  each("stages=4+2", [](const ConvConfig& c) { return c.halo() && c.schedule.stages == 4 && c.halo()->stages == 2; });
  each("buffers=1", [](const ConvConfig& c) { return c.features.store_buffers == 1; });
  each("cluster=1x2", [](const ConvConfig& c) { return c.schedule.cluster.m == 1 && c.schedule.cluster.n == 2; });
  each("cluster=2x2", [](const ConvConfig& c) { return c.schedule.cluster.m == 2 && c.schedule.cluster.n == 2; });
  each("split=off", [](const ConvConfig& c) { return !c.schedule.split; });
  each("mode=streamed", [](const ConvConfig& c) { return c.mode() == NormMode::streamed; });
  each("unit=4", [](const ConvConfig& c) { return c.unit() == 4; });
}

TEST(Override, CombinationsThatCannotBeAreRefusedWithTheirReason) {
  const Conv2d conv = test::conv_of(4, 32, 32, 128, 256, 3);
  const auto epilogue = test::epilogue_of(test::block, conv);
  const auto refusal = [&](const char* fixed) -> std::string {
    try {
      return "legal: " + to_string(choose(conv, epilogue, Device{}, parse_plan(fixed)).config);
    } catch (const Unsupported& e) {
      return e.what();
    }
  };
  EXPECT_THAT(refusal("tile=64x64 order=cooperative"), HasSubstr("order: 32 rows for each of 2 warpgroups of a tile"));
  EXPECT_THAT(refusal("load=halo depth=32"), HasSubstr("halo tiles: 32 channels deep"));
  EXPECT_THAT(refusal("load=gather depth=128"), Says("gather: 128 deep; … rows of 128 bytes"));
  EXPECT_THAT(refusal("load=im2col_smem depth=128"), Says("im2col_smem: 128 deep; … rows of 128 bytes"));
  EXPECT_THAT(refusal("tile=256x128 load=im2col stages=3 depth=128"), HasSubstr("shared memory:"));
  EXPECT_THAT(refusal("tile=96x64"), HasSubstr("tile: 96 rows; 64, 128 or 256"));
  EXPECT_THAT(refusal("tile=128x60"), HasSubstr("tile: 60 channels; a multiple of 8 up to 256"));
  EXPECT_THAT(refusal("tile=256x256 order=cooperative"), HasSubstr("registers: 256 accumulators per thread"));
  EXPECT_THAT(refusal("split=on mode=streamed"), HasSubstr("split-K: serves small outputs, which are resident"));
  EXPECT_THAT(refusal("split=on cluster=2x1"), HasSubstr("split-K: goes without clusters"));
  EXPECT_THAT(refusal("split=on tile=64x64 order=pingpong"),
              HasSubstr("split-K: 256 tiles keep 132 CTAs busy without"));
  EXPECT_THAT(refusal("stages=30 load=im2col tile=128x128"), HasSubstr("shared memory:"));
  EXPECT_THAT(refusal("stages=1 load=im2col tile=128x128"), HasSubstr("stages: one; at least two"));
  EXPECT_THAT(refusal("mode=none"), HasSubstr("epilogue has a normalisation"));
  EXPECT_THAT(refusal("unit=3"), HasSubstr("unit: 3 channels; a divisor"));
  EXPECT_THAT(refusal("buffers=40"), HasSubstr("store buffers: 40"));
  EXPECT_THAT(refusal("mode=streamed buffers=1 tile=128x128 order=pingpong"), HasSubstr("all 4 slices of a tile"));
  EXPECT_THAT(refusal("cluster=4x4"), HasSubstr("cluster: 4x4; 1 to 8 CTAs"));
  EXPECT_THAT(refusal("mode=none"), HasSubstr("with mode=none"));
  EXPECT_THAT(refusal("mode=none"), HasSubstr("Leave out a field"));
}

TEST(Override, StepsOf128AreOf16Bits) {
  Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  conv.dtype_x = conv.dtype_w = DType::f32;
  const auto epilogue = test::epilogue_of(test::bare, conv);
  const auto all = candidates(conv, epilogue, Device{}, parse_plan("depth=128"));
  ASSERT_FALSE(all.empty());
  for (const Answer& c : all) EXPECT_EQ(c.refusal, "tile: 128 deep; 32 of tf32");
}

// Each legal candidate is what its own fields leave
TEST(Override, OfAConfigurationLeavesThatOne) {
  for (const auto& [conv, text] :
       std::vector<std::pair<Conv2d, std::string>>{{test::conv_of(8, 64, 64, 320, 320, 3), test::block},
                                                   {test::conv_of(2, 16, 16, 1280, 1280, 3), test::bias_silu},
                                                   {test::conv_of(1, 1, 4096, 8192, 8192, 1), test::bare},
                                                   {test::conv_of(2, 32, 32, 3, 32, 3), test::bias_silu},
                                                   {test::conv_of(1, 64, 64, 40, 64, 3), test::bare}}) {
    const auto epilogue = test::epilogue_of(text, conv);
    std::size_t tried = 0;
    for (const Answer& c : candidates(conv, epilogue, Device{})) {
      if (!c.refusal.empty() || tried++ % 5 != 0) continue;
      const std::string fixed = to_string(override_of(c.plan.config));
      const auto found = candidates(conv, epilogue, Device{}, parse_plan(fixed));
      ASSERT_EQ(found.size(), 1u) << fixed;
      EXPECT_EQ(found[0].refusal, "") << fixed;
      EXPECT_TRUE(found[0].plan.config == c.plan.config) << fixed;
      EXPECT_EQ(found[0].plan.ctas, c.plan.ctas);
    }
    EXPECT_GT(tried, 10u);
  }
}

}  // namespace
}  // namespace unisono::families::sm90_conv
