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
