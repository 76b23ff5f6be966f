// A second product of the main store: what it does to candidates, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/registry.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using plan::add_head, plan::HeadConfig, plan::WantedHead;
using testing::HasSubstr;

constexpr const char* normalised =
    "store mish(group_norm(acc, groups=16, scale=gamma[n], shift=beta[n])) as y : bf16\n";

WantedHead heatmaps(std::int64_t channels = 17, bool only = true,
                    const std::string& text = "store acc + hbias[n] as heat : bf16") {
  return {.head = {.channels = channels, .filter = "hfilter", .graph = parse(text)}, .only = only};
}

Epilogue with_head(const std::string& text, const Contraction& contraction, const WantedHead& head) {
  Epilogue e = analyse(passes::run_pipeline(parse(text)), extents(contraction), families::tile_limits()).value();
  test::require(add_head(e, head, contraction));
  return e;
}

TEST(HeadPlan, EveryTileHasAllChannels) {
  const Conv2d conv = test::conv_of(2, 33, 19, 64, 128, 3);
  int legal = 0;
  for (const Answer& c : candidates(conv, with_head(test::bias_silu, conv, heatmaps()), Device{})) {
    const ConvConfig& k = c.plan.config;
    EXPECT_EQ(k.features.head, (HeadConfig{.eights = 3, .only = true}));
    EXPECT_TRUE(k.tile.n >= 128 || !c.refusal.empty()) << to_string(k);
    if (!c.refusal.empty()) continue;
    ++legal;
    EXPECT_GE(k.tile.n, 128);
    EXPECT_EQ(k.schedule.cluster.n, 1);
    EXPECT_EQ(k.further_maps(), 0);
  }
  EXPECT_GT(legal, 10);
  const auto narrow = candidates(conv, with_head(test::bias_silu, conv, heatmaps()), Device{},
                                 plan::parse_override("tile=128x64 order=pingpong load=halo split=off swap=off"));
  ASSERT_FALSE(narrow.empty());
  EXPECT_THAT(narrow[0].refusal, HasSubstr("head: 64 channels a tile, 1 tiles across a cluster; one tile has all 128"));
}

// The last block of a heatmap U-Net: as without
TEST(HeadPlan, AStreamedBlockKeepsItsPlan) {
  const Conv2d conv = test::conv_of(8, 256, 256, 64, 64, 3);
  const ConvPlan with = choose(conv, with_head(normalised, conv, heatmaps()), {});
  ConvConfig without = choose(conv, test::epilogue_of(normalised, conv), {}).config;
  without.features.head = with.config.features.head;
  EXPECT_EQ(to_string(with.config), to_string(without));
  EXPECT_THAT(to_string(with.config), HasSubstr(" head 24 alone"));
}

TEST(HeadPlan, CostsWhatItWritesAndSavesWhatItDoesNot) {
  const Conv2d conv = test::conv_of(8, 256, 256, 64, 64, 1);
  const auto predicted = [&](const WantedHead& head) {
    return choose(conv, with_head(test::bare, conv, head), {}).predicted_us;
  };
  const double bare = choose(conv, test::epilogue_of(test::bare, conv), {}).predicted_us;
  EXPECT_LT(predicted(heatmaps(17, true)), bare);
  EXPECT_GT(predicted(heatmaps(17, false)), bare);
  EXPECT_GT(predicted(heatmaps(32, false)), predicted(heatmaps(8, false)));
}

// A tile of one image where the head knows images
TEST(HeadPlan, ColumnsOfAnImage) {
  const Conv2d conv = test::conv_of(4, 9, 9, 64, 64, 3);
  const auto images = [&](const char* head) {
    return choose(conv, with_head(test::bare, conv, heatmaps(8, true, head)), {}, plan::parse_override("load=im2col"))
        .images;
  };
  EXPECT_EQ(images("store acc + hbias[n] as heat : bf16"), 1);
  EXPECT_EQ(images("store acc + time[b,n] as heat : bf16"), 4);
}

std::string refusal(const std::string& text, const Contraction& contraction, const WantedHead& head,
                    const char* fixed = "") {
  try {
    choose(as_convolution(contraction), with_head(text, contraction, head), {}, plan::parse_override(fixed));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HeadPlan, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3), wide = test::conv_of(2, 8, 8, 64, 320, 3);
  Conv2d odd = test::conv_of(2, 32, 32, 64, 60, 3), planes = conv;
  planes.layout = Layout::nchw;
  EXPECT_EQ(refusal(test::bare, conv, heatmaps()), "no error");
  EXPECT_EQ(refusal(normalised, conv, heatmaps(32, false)), "no error");
  EXPECT_THAT(refusal(test::bare, wide, heatmaps()), HasSubstr("one tile has all 320 channels"));
  EXPECT_THAT(refusal(test::bare, odd, heatmaps()), HasSubstr("60 output channels in rows"));
  EXPECT_THAT(refusal(test::bare, planes, heatmaps()), HasSubstr("64 output channels in planes"));
  EXPECT_THAT(refusal(test::bare, test::conv_of(2, 32, 32, 64, 40, 3), heatmaps(), "tile=128x40 swap=off"),
              HasSubstr("staged by eights; a matrix instruction takes 16"));
  EXPECT_THAT(refusal("store acc as y : bf16\nstore sum(acc) as total : f32", conv, heatmaps()),
              HasSubstr("head: mode general"));
  ConvTranspose2d transposed{.n = 1, .h = 9, .w = 9, .c = 64, .k = 64, .r = 4, .s = 4, .stride = {2, 2}};
  transposed.dtype_x = transposed.dtype_w = DType::bf16;
  EXPECT_THAT(refusal(test::bare, transposed, heatmaps(), "load=halo"), HasSubstr("head: pixels of a phase"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
