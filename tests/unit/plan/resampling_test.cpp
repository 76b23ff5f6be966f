// What is made of the main store: what it does to candidates, and what is refused.

#include "plan/resampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "problems.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using testing::HasSubstr;

Epilogue resampled(const char* text, const Conv2d& conv, const Resampled& wanted) {
  Epilogue e = test::epilogue_of(text, conv);
  resample(e, wanted, conv);
  return e;
}

std::vector<Candidate> all(const Conv2d& conv, const Resampled& wanted, const char* fixed = "") {
  return candidates(conv, resampled(test::bias_silu, conv, wanted), Device{}, Override::parse(fixed));
}

TEST(Resampling, PooledByPatchesOnly) {
  const Conv2d conv = test::conv_of(2, 17, 19, 64, 64, 3);
  int legal = 0;
  for (const Candidate& c : all(conv, {.pooled = "p"})) {
    EXPECT_TRUE(c.plan.config.two_dimensional());
    EXPECT_EQ(c.plan.config.features.resampling, (Resampling{.pooled = true}));
    legal += c.refusal.empty() ? 1 : 0;
  }
  EXPECT_GT(legal, 20);
  const auto runs = all(conv, {.pooled = "p"}, "load=runs tile=128x64 split=off mode=none");
  EXPECT_FALSE(runs.empty());
  for (const Candidate& c : runs) EXPECT_THAT(c.refusal, HasSubstr("pooled: runs"));
}

TEST(Resampling, StridesHaveNoPatches) {
  Conv2d conv = test::conv_of(2, 17, 19, 64, 64, 3);
  conv.stride = {2, 2};
  EXPECT_THROW(choose(conv, resampled(test::bare, conv, {.pooled = "p"}), {}), Unsupported);
}

// 16 pixels of a run are parts of a line, or lines
TEST(Resampling, EnlargedByRunsThatKnowLines) {
  for (const std::int64_t width : {1, 2, 4, 8, 16, 32, 48, 3, 6, 12, 17, 24, 40}) {
    const bool fits = width % 16 == 0 || 16 % width == 0;
    bool runs = false;
    for (const Candidate& c : all(test::conv_of(2, 20, width, 64, 64, 3), {.enlarged = "e"})) {
      const ConvConfig& k = c.plan.config;
      if (k.two_dimensional() || (!c.refusal.empty() && c.refusal.find("enlarged") == std::string::npos)) continue;
      runs = runs || c.refusal.empty();
      EXPECT_EQ(c.refusal.empty(), fits) << width << ": " << c.refusal;
    }
    EXPECT_EQ(runs, fits) << width;
    EXPECT_NO_THROW(choose(test::conv_of(2, 20, width, 64, 64, 3),
                           resampled(test::bare, test::conv_of(2, 20, width, 64, 64, 3), {.enlarged = "e"}), {}));
  }
}

TEST(Resampling, IsPartOfThePlansText) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const auto text = [&](const Resampled& wanted) { return to_string(all(conv, wanted)[0].plan.config); };
  EXPECT_THAT(text({.pooled = "p"}), HasSubstr(" pooled"));
  EXPECT_THAT(text({.pooled = "p", .enlarged = "e"}), HasSubstr(" enlarged, pooled"));
  EXPECT_THAT(text({.enlarged = "e", .only_enlarged = true}), HasSubstr(" enlarged only"));
  EXPECT_EQ(text({}).find("enlarged"), std::string::npos);
}

// Nothing but memory: what is written costs time
TEST(Resampling, CostsWhatItWrites) {
  const Conv2d conv = test::conv_of(8, 256, 256, 64, 64, 1);
  const auto predicted = [&](const Resampled& wanted) {
    return choose(conv, resampled(test::bare, conv, wanted), {}).predicted_us;
  };
  EXPECT_GT(predicted({.pooled = "p"}), predicted({}));
  EXPECT_GT(predicted({.enlarged = "e", .only_enlarged = true}), predicted({.pooled = "p"}));
  EXPECT_GT(predicted({.enlarged = "e"}), predicted({.enlarged = "e", .only_enlarged = true}));
}

TEST(Resampling, SharedMemoryIsThatWithout) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  const char* fixed = "tile=128x64 load=patch stages=4+3 order=pingpong swap=off cluster=1x1 split=off";
  EXPECT_EQ(all(conv, {.pooled = "p", .enlarged = "e"}, fixed)[0].plan.shared_bytes,
            all(conv, {}, fixed)[0].plan.shared_bytes);
}

std::string refusal(const char* text, const Resampled& wanted, const Contraction& contraction) {
  try {
    Epilogue e = analyse(passes::run_pipeline(parse(text)), extents(contraction));
    resample(e, wanted, contraction);
    choose(as_convolution(contraction), e, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Resampling, Refused) {
  const Conv2d conv = test::conv_of(2, 32, 32, 64, 64, 3);
  Conv2d odd = test::conv_of(2, 32, 32, 64, 60, 3), planes = conv;
  planes.layout = Layout::nchw;
  const Gemm product{.m = 64, .n = 64, .k = 64, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  EXPECT_THAT(refusal(test::bare, {.pooled = "y"}, conv), HasSubstr("the name 'y' is that of a store of the graph"));
  EXPECT_THAT(refusal(test::bare, {.pooled = "p", .enlarged = "p"}, conv),
              HasSubstr("both the pooled and the enlarged"));
  EXPECT_THAT(refusal(test::bare, {.only_enlarged = true}, conv), HasSubstr("no name for the enlarged tensor"));
  EXPECT_THAT(refusal(test::bare, {.pooled = "p"}, product), HasSubstr("has no image; expected a convolution"));
  EXPECT_THAT(refusal(test::bare, {.enlarged = "e"}, odd), HasSubstr("60 output channels in rows"));
  EXPECT_THAT(refusal(test::bare, {.enlarged = "e"}, planes), HasSubstr("64 output channels in planes"));
  EXPECT_THAT(refusal("store acc as y : f32", {.enlarged = "e"}, conv), HasSubstr("no result [m,n] of 16 bits"));
  EXPECT_EQ(refusal(test::bare, {.pooled = "p", .enlarged = "e"}, conv), "no error");
}

}  // namespace
}  // namespace unisono::plan
