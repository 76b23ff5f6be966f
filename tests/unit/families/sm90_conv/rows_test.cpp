// Rows that are normalised over more channels than a tile has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "families/sm90_conv/generate.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;

constexpr const char* layer = "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n]) as y : bf16\n";
constexpr const char* softmax = "store softmax(acc, over=n) as y : bf16\n";
constexpr const char* rms = "store rms_norm(acc, scale=gamma[n]) as y : bf16\n";
const Device h200{};

PlanOverride fixed(std::map<std::string, std::string> fields) {
  PlanOverride o;
  o.fields = std::move(fields);
  return o;
}

bool of_rows(const ConvPlan& p, const Conv2d& conv, const char* text) {
  return test::is_rows(test::epilogue_of(text, conv).list.at(p.form));
}

ConvPlan planned(const Conv2d& conv, const char* text, const PlanOverride& by = {}) {
  return choose(as_convolution(conv), test::epilogue_of(text, conv), h200, by);
}

TEST(Rows, TilesOfARowMeet) {
  for (const char* text : {layer, softmax, rms})
    for (const int channels : {512, 768, 1024, 4096, 16384}) {
      const Conv2d conv = test::conv_of(1, 64, 64, 256, channels, 1);
      const ConvPlan p = planned(conv, text);
      EXPECT_EQ(p.config.mode(), NormMode::rows) << text << channels;
      EXPECT_TRUE(of_rows(p, conv, text)) << text << channels;
      EXPECT_TRUE(p.config.meets() && p.config.wide()) << text << channels;
      EXPECT_TRUE(p.cooperative);
      EXPECT_EQ(p.config.schedule.group, 0);
      EXPECT_FALSE(p.config.schedule.split);
      // An entry for each row and tile across
      const auto rows = static_cast<std::size_t>(p.tiles_m) * p.config.schedule.cluster.m * p.config.tile.m;
      const auto across = static_cast<std::size_t>(p.tiles_n) * p.config.schedule.cluster.n;
      EXPECT_EQ(p.workspace.exits - p.workspace.fold_rows, (16 * rows * (across + 1) + 255) / 256 * 256)
          << text << channels;
    }
}

TEST(Rows, OneTileHasWhatItCan) {
  for (const char* text : {softmax, rms}) {
    const ConvPlan p = planned(test::conv_of(1, 64, 64, 256, 192, 1), text);
    EXPECT_EQ(p.config.mode(), NormMode::rows) << text;
    EXPECT_FALSE(p.config.meets()) << text;
    EXPECT_FALSE(p.cooperative) << text;
  }
}

TEST(Rows, TheGeneralFormIsThereForWhomAsks) {
  const Conv2d conv = test::conv_of(1, 64, 64, 256, 1024, 1);
  const ConvPlan p = planned(conv, softmax, fixed({{"mode", "general"}}));
  EXPECT_EQ(p.config.mode(), NormMode::general);
  EXPECT_FALSE(of_rows(p, conv, softmax));
  EXPECT_GT(p.predicted_us, planned(conv, softmax).predicted_us);
}

/// The reasons of all candidates; "" stands for a legal one.
std::set<std::string> reasons(const Conv2d& conv, const char* text, const PlanOverride& by) {
  std::set<std::string> all;
  for (const Answer& a : candidates(as_convolution(conv), test::epilogue_of(text, conv), h200, by))
    all.insert(a.refusal);
  return all;
}

// 55 rows of four tiles, of which 110 CTAs would have one in two rounds: those of round one wait for round two's
TEST(Rows, NoneIsOfTwoRoundsWhereThatCanBe) {
  const Conv2d conv = test::conv_of(1, 1, 14055, 5600, 640, 1);
  const auto by = [](const char* tile, const char* mode) {
    return fixed({{"tile", tile}, {"order", "cooperative"}, {"cluster", "1x1"}, {"mode", mode}});
  };
  const ConvPlan whole = planned(conv, rms, by("256x160", "rows")),
                 bare = planned(conv, "store acc as y : bf16\n", by("256x160", "none"));
  EXPECT_EQ(whole.ctas, 112);
  EXPECT_EQ(bare.ctas, 110);
  EXPECT_LT(whole.predicted_us, 1.1 * bare.predicted_us);
  // Three rows of 72 tiles on 132 SMs: a third round
  const Conv2d wide = test::conv_of(1, 1, 761, 4056, 9200, 1);
  EXPECT_GT(planned(wide, rms, by("256x128", "rows")).predicted_us,
            1.35 * planned(wide, "store acc as y : bf16\n", by("256x128", "none")).predicted_us);
}

TEST(Rows, Deferred) {
  const Conv2d conv = test::conv_of(1, 1, 4899, 432, 2008, 1);
  const auto deferred = [](std::map<std::string, std::string> fields) {
    fields["deferred"] = "on";
    return fixed(std::move(fields));
  };
  const ConvPlan p = planned(conv, layer, deferred({{"tile", "64x128"}, {"order", "pingpong"}}));
  EXPECT_TRUE(p.config.deferred() && p.config.meets());
  EXPECT_THAT(to_string(p.config), HasSubstr("rows deferred"));
  EXPECT_EQ(override_of(p.config).fields.at("deferred"), "on");
  EXPECT_EQ(planned(conv, layer, override_of(p.config)).config, p.config);
  const auto text = sm90_conv::generate(test::epilogue_of(layer, conv).list.at(p.form), p.config).source;
  EXPECT_THAT(text, HasSubstr("kDeferred = true"));
  PlanOverride at_once = override_of(p.config);
  at_once.fields["deferred"] = "off";
  EXPECT_FALSE(planned(conv, layer, at_once).config.deferred());
  EXPECT_GT(p.shared_bytes, planned(conv, layer, at_once).shared_bytes);  // the columns of two tiles
  EXPECT_THAT(reasons(conv, layer, deferred({{"tile", "64x256"}})), testing::Contains(HasSubstr("registers: 256")));
  EXPECT_THAT(reasons(conv, "store acc as y : bf16\n", deferred({})), testing::Contains(HasSubstr("deferred: only")));
}

TEST(Rows, WhatCannotMeet) {
  const auto split = reasons(test::conv_of(1, 16, 16, 256, 1024, 1), layer, fixed({{"mode", "rows"}, {"split", "on"}}));
  EXPECT_THAT(split, testing::Contains(HasSubstr("are whole, neighbours")));
  EXPECT_THAT(split, testing::Not(testing::Contains("")));
  const auto narrow =
      reasons(test::conv_of(1, 16, 16, 64, 32768, 1), softmax, fixed({{"mode", "rows"}, {"tile", "64x64"}}));
  EXPECT_THAT(narrow, testing::Contains(HasSubstr("rows: a row has 512 tiles")));
  EXPECT_THAT(narrow, testing::Not(testing::Contains("")));
}

TEST(Rows, ResultsFromRegistersAreOfPairsOfChannels) {
  constexpr const char* wide = "store softmax(acc * w[m], over=n) as y : f32\n";
  const Conv2d conv = test::conv_of(1, 64, 64, 256, 1024, 1);
  const ConvPlan p = planned(conv, wide);
  EXPECT_TRUE(of_rows(p, conv, wide));
  EXPECT_FALSE(p.pitched_output);
  const Conv2d odd = test::conv_of(1, 16, 16, 64, 515, 1);
  EXPECT_FALSE(of_rows(planned(odd, wide), odd, wide));
  EXPECT_THAT(reasons(odd, wide, fixed({{"mode", "rows"}})),
              testing::Contains(HasSubstr("another number of channels")));
}

TEST(Rows, TheVisitorNamesItsStatistic) {
  const auto source = [](const char* text) {
    const Conv2d conv = test::conv_of(1, 64, 64, 256, 1024, 1);
    const ConvPlan p = planned(conv, text);
    return sm90_conv::generate(test::epilogue_of(text, conv).list.at(p.form), p.config).source;
  };
  EXPECT_THAT(source(softmax), HasSubstr("kRowStatistic = RowStatistic::kSoftmax"));
  EXPECT_THAT(source(softmax), HasSubstr("return math::exp(x);"));
  EXPECT_THAT(source(rms), HasSubstr("kRowStatistic = RowStatistic::kSquares"));
  EXPECT_THAT(source(layer), testing::Not(HasSubstr("kRowStatistic")));
  EXPECT_THAT(source(layer), HasSubstr("kWide = true, kMeets = true"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
