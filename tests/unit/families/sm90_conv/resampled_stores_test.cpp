// Pooled and upsampled stores: what they do to candidates, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using plan::Resampled;
using plan::Resampling;
using testing::HasSubstr;

Epilogue resampled(const char* text, const Conv2d& conv, const Resampled& wanted) {
  Epilogue e = test::epilogue_of(text, conv);
  test::require(resample(e, wanted, conv));
  return e;
}

std::vector<Answer> all(const Conv2d& conv, const Resampled& wanted, const char* fixed = "") {
  return candidates(conv, resampled(test::bias_silu, conv, wanted), Device{}, parse_plan(fixed));
}

TEST(Resampling, PooledByHaloTilesOnly) {
  const Conv2d conv = test::conv_of(2, 17, 19, 64, 64, 3);
  int legal = 0;
  for (const Answer& c : all(conv, {.pooled = "p"})) {
    EXPECT_TRUE(c.plan.config.two_dimensional());
    EXPECT_EQ(c.plan.config.features.resampling, (Resampling{.pooled = true}));
    legal += c.refusal.empty() ? 1 : 0;
  }
  EXPECT_GT(legal, 20);
  const auto runs = all(conv, {.pooled = "p"}, "load=im2col tile=128x64 split=off mode=none");
  EXPECT_FALSE(runs.empty());
  for (const Answer& c : runs) EXPECT_THAT(c.refusal, HasSubstr("pooled: im2col tiles"));
}

TEST(Resampling, StridesHaveNoHaloTiles) {
  Conv2d conv = test::conv_of(2, 17, 19, 64, 64, 3);
  conv.stride = {2, 2};
  EXPECT_THROW(choose(conv, resampled(test::bare, conv, {.pooled = "p"}), {}), Unsupported);
}

// 16 pixels of a run are parts of a line, or lines
TEST(Resampling, UpsampledByRunsThatKnowLines) {
  for (const std::int64_t width : {1, 2, 4, 8, 16, 32, 48, 3, 6, 12, 17, 24, 40}) {
    const bool fits = width % 16 == 0 || 16 % width == 0;
    bool runs = false;
    for (const Answer& c : all(test::conv_of(2, 20, width, 64, 64, 3), {.upsampled = "e"})) {
      const ConvConfig& k = c.plan.config;
      if (k.two_dimensional() || (!c.refusal.empty() && c.refusal.find("upsampled") == std::string::npos)) continue;
      runs = runs || c.refusal.empty();
      EXPECT_EQ(c.refusal.empty(), fits) << width << ": " << c.refusal;
    }
    EXPECT_EQ(runs, fits) << width;
    EXPECT_NO_THROW(choose(test::conv_of(2, 20, width, 64, 64, 3),
                           resampled(test::bare, test::conv_of(2, 20, width, 64, 64, 3), {.upsampled = "e"}), {}));
  }
}

TEST(Resampling, IsPartOfThePlansText) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const auto text = [&](const Resampled& wanted) { return to_string(all(conv, wanted)[0].plan.config); };
  EXPECT_THAT(text({.pooled = "p"}), HasSubstr(" pooled"));
  EXPECT_THAT(text({.pooled = "p", .upsampled = "e"}), HasSubstr(" upsampled, pooled"));
  EXPECT_THAT(text({.upsampled = "e", .only_upsampled = true}), HasSubstr(" upsampled only"));
  EXPECT_EQ(text({}).find("upsampled"), std::string::npos);
}

// Nothing but memory: what is written costs time
TEST(Resampling, CostsWhatItWrites) {
  const Conv2d conv = test::conv_of(8, 256, 256, 64, 64, 1);
  const auto predicted = [&](const Resampled& wanted) {
    return choose(conv, resampled(test::bare, conv, wanted), {}).predicted_us;
  };
  EXPECT_GT(predicted({.pooled = "p"}), predicted({}));
  EXPECT_GT(predicted({.upsampled = "e", .only_upsampled = true}), predicted({.pooled = "p"}));
  EXPECT_GT(predicted({.upsampled = "e"}), predicted({.upsampled = "e", .only_upsampled = true}));
}

TEST(Resampling, SharedMemoryIsThatWithout) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const char* fixed = "tile=128x64 load=halo stages=4+3 order=pingpong swap=off cluster=1x1 split=off";
  EXPECT_EQ(all(conv, {.pooled = "p", .upsampled = "e"}, fixed)[0].plan.shared_bytes,
            all(conv, {}, fixed)[0].plan.shared_bytes);
}

std::string refusal(const Conv2d& conv) {
  try {
    choose(conv, resampled(test::bare, conv, {.upsampled = "e"}), {});
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "no error";
}

TEST(Resampling, WhatTmaDoesNotStore) {
  Conv2d odd = test::conv_of(2, 32, 32, 64, 60, 3), planes = test::conv_of(2, 32, 32, 64, 64, 3);
  planes.layout = Layout::nchw;
  EXPECT_THAT(refusal(odd), HasSubstr("60 output channels in rows"));
  EXPECT_THAT(refusal(planes), HasSubstr("64 output channels in planes"));
}

}  // namespace
}  // namespace unisono::families::sm90_conv
