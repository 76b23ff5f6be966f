// What no plan serves, and the candidates that a problem rules out: each with a reason to act on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "families/registry.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string unsupported(const Conv2d& conv, const Device& device = {}) {
  try {
    choose(conv, test::epilogue_of(test::bare, conv), device);
  } catch (const Unsupported& e) {
    return e.what();
  }
  return "no error";
}

std::vector<std::string> refusals(const Conv2d& conv, const char* epilogue, const char* fixed = "") {
  std::vector<std::string> reasons;
  for (const Answer& c : candidates(conv, test::epilogue_of(epilogue, conv), Device{}, parse_plan(fixed)))
    if (!c.refusal.empty()) reasons.push_back(c.refusal);
  return reasons;
}

TEST(Unsupported, NamesEveryReasonAtOnce) {
  Conv2d conv = test::conv_of(40000, 256, 256, 3, 60, 3);
  conv.dtype_x = conv.dtype_w = DType::f64, conv.groups = 3;
  const std::string text = unsupported(conv);
  EXPECT_THAT(text, HasSubstr("dtypes: the operands are f64 and f64"));
  EXPECT_THAT(text, Says("size: … output pixels"));
}

TEST(Unsupported, ARowOfSeveralGroups) {
  Conv2d conv = test::conv_of(2, 16, 16, 128, 192, 3);
  conv.groups = 2;
  try {
    choose(conv, test::epilogue_of("store layer_norm(acc) as y : bf16", conv), Device{});
    ADD_FAILURE() << "was served";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), Says("groups: … normalisation … 192 channels … 2 groups"));
  }
}

TEST(Unsupported, F32IsMultipliedAsTf32) {
  Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  conv.dtype_x = conv.dtype_w = DType::f32;
  const auto epilogue = test::epilogue_of(test::bare, conv);
  const ConvPlan plan = choose(conv, epilogue, Device{});
  EXPECT_EQ(plan.config.element, DType::tf32);
  EXPECT_THAT(describe(plan), HasSubstr("tf32"));
  EXPECT_THAT(explain(conv, epilogue, Device{}), HasSubstr("products: of tf32"));
  conv.dtype_w = DType::bf16;
  EXPECT_THAT(unsupported(conv), HasSubstr("the operands are f32 and bf16"));
}

TEST(Unsupported, MixedDtypes) {
  Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  conv.dtype_w = DType::f16;
  EXPECT_THAT(unsupported(conv), HasSubstr("the operands are bf16 and f16"));
  conv.dtype_x = DType::f16;
  EXPECT_EQ(unsupported(conv), "no error");
}

TEST(Unsupported, OtherDevices) {
  const Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  Device ampere;
  ampere.name = "A100", ampere.major = 8;
  EXPECT_THAT(unsupported(conv, ampere), Says("A100 has compute capability 8.0; the convolution kernels … 9.0"));
}

TEST(Unsupported, TooManyPixels) {
  const Conv2d conv = test::conv_of(40000, 256, 256, 8, 8, 1);
  EXPECT_THAT(unsupported(conv), Says("size: … output pixels is 2621440000"));
}

TEST(Unsupported, ListsTheCandidatesReasons) {
  Conv2d conv = test::conv_of(1, 300, 300, 64, 64, 3);
  conv.stride = {9, 9};  // no halo tiles, and im2col reaches 8
  for (const auto& [load, reason] :
       {std::pair("load=halo", "halo tiles: stride 9x9; neighbouring pixels … stride 1"),
        std::pair("load=im2col", "im2col tiles: stride 9 along the height; im2col loads reach 8")}) {
    try {
      choose(conv, test::epilogue_of(test::bare, conv), Device{}, parse_plan(load));
      ADD_FAILURE() << load << " was served";
    } catch (const Unsupported& e) {
      EXPECT_THAT(e.what(), Says(reason));
      EXPECT_THAT(e.what(), HasSubstr("Leave out a field"));
    }
  }
  EXPECT_EQ(unsupported(conv), "no error");
}

/// What TMA cannot load or store: by ordinary loads, or plain stores, and said so.
TEST(Gathered, NamesWhatTmaCannotDo) {
  const auto plan_of = [](const Contraction& contraction) {
    const Epilogue e =
        analyse(passes::run_pipeline(parse(test::bias_silu)), extents(contraction), families::tile_limits()).value();
    const ConvTask task = as_convolution(contraction);
    return std::pair(choose(task, e, Device{}).config, explain(task, e, Device{}));
  };
  const auto product = [](Gemm g) {
    g.dtype_a = g.dtype_b = DType::bf16;
    return g;
  };
  Conv2d depthwise = test::conv_of(1, 32, 32, 63, 63, 3), wide = test::conv_of(1, 32, 32, 512, 32, 3);
  depthwise.groups = 63, wide.groups = 32;  // 8 groups, for an octet of filters, are 128 channels
  struct {
    Contraction contraction;
    bool gather, filters;
    Stores stores;
    const char* says;
  } const cases[] = {
      {test::conv_of(1, 32, 32, 64, 64, 3), false, false, Stores::tma, "halo tiles 8 pixels wide"},
      {test::conv_of(1, 32, 33, 3, 64, 3), true, true, Stores::tma, "single elements, of the filters too: 3 input"},
      {test::conv_of(1, 32, 32, 64, 10, 3), false, false, Stores::plain, "halo tiles 8 pixels wide"},
      {depthwise, true, true, Stores::plain, "without matrix instructions: 63 groups of channels of 1 output"},
      {wide, true, true, Stores::tma, "without matrix instructions: 32 groups of channels of 1 output"},
      {product({.m = 99, .n = 64, .k = 60, .transpose_b = true}), true, true, Stores::tma, "60 input channels"},
      {product({.m = 99, .n = 64, .k = 64, .transpose_a = true}), true, false, Stores::tma, "99 rows m of A (k, m)"},
      {product({.m = 96, .n = 60, .k = 64, .transpose_a = true}), true, true, Stores::plain,
       "60 columns n of B (k, n)"},
      {product({.m = 99, .n = 64, .k = 64}), false, false, Stores::tma, "B(k,n)"},
      {product({.m = 96, .n = 64, .k = 61, .transpose_a = true}), false, false, Stores::tma, "boxes of 64 columns"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(to_string(c.contraction));
    const auto [config, text] = plan_of(c.contraction);
    EXPECT_EQ(config.gathered() != nullptr, c.gather);
    EXPECT_EQ(config.gathered() && config.gathered()->filters, c.filters);
    EXPECT_EQ(config.features.stores, c.stores);
    EXPECT_THAT(text, Says(c.says));
  }
}

TEST(WrongContraction, IsAUserError) {
  Conv2d conv = test::conv_of(1, 32, 32, 64, 64, 3);
  const auto epilogue = test::epilogue_of(test::bare, conv);
  conv.h = 0;
  EXPECT_THROW(candidates(conv, epilogue, Device{}), UserError);
}

TEST(WrongGroups, AreAUserError) {
  const Conv2d wide = test::conv_of(1, 32, 32, 64, 320, 3), narrow = test::conv_of(1, 32, 32, 64, 64, 3);
  const auto epilogue = test::epilogue_of(test::block, wide);  // groups of 10 channels
  EXPECT_THROW(candidates(narrow, epilogue, Device{}), UserError);
}

TEST(Refusals, AnImageThatDoesNotFitInFlight) {
  const Conv2d conv = test::conv_of(4, 256, 256, 128, 128, 3);
  const auto reasons = refusals(conv, test::block, "tile=128x128 order=pingpong load=halo cluster=1x1");
  EXPECT_THAT(reasons, testing::Contains("resident: an image has 512 tiles, 264 fit in flight"));
}

TEST(Refusals, Stride) {
  Conv2d conv = test::conv_of(4, 64, 64, 128, 128, 3);
  conv.stride = {2, 2};
  EXPECT_THAT(refusals(conv, test::bare),
              testing::Contains(Says("halo tiles: stride 2x2; neighbouring pixels … stride 1")));
  EXPECT_FALSE(choose(conv, test::epilogue_of(test::bare, conv), Device{}).config.two_dimensional());
}

TEST(Refusals, LimitsOfIm2col) {
  Conv2d conv = test::conv_of(1, 600, 600, 64, 64, 3);
  conv.dilation = {1, 150};  // taps 300 apart along the width
  EXPECT_THAT(refusals(conv, test::bare, "load=im2col"),
              testing::Contains("im2col tiles: taps 300 apart along the width; im2col loads reach 255"));
  EXPECT_THAT(refusals(conv, test::bare, "load=halo"),
              testing::Contains(Says("halo tiles: 308 pixels wide … halo; a TMA box has 256")));
  conv.dilation = {1, 1};
  conv.pad = {200, 0, 0, 0};
  EXPECT_THAT(refusals(conv, test::bare),
              testing::Contains("im2col tiles: a corner at -200 along the height; im2col loads reach -128 to 127"));
}

TEST(Refusals, TallFiltersHaveTooTallHaloTiles) {
  Conv2d conv = test::conv_of(1, 600, 64, 64, 64, 7);
  conv.dilation = {42, 1};  // 252 lines of halo
  EXPECT_THAT(refusals(conv, test::bare, "load=halo"),
              testing::Contains(Says("halo tiles: 260 image rows … halo; a TMA box has 256")));
}

TEST(Refusals, TheRawValueIsOnlyInResidentMode) {
  const Conv2d conv = test::conv_of(8, 32, 32, 64, 64, 3);
  const char* epilogue = "h = acc + bias[n]\nstore h + group_norm(h, groups=32, eps=1e-5) as y : bf16\n";
  Epilogue e = test::epilogue_of(epilogue, conv);
  ASSERT_TRUE(e.uses_raw);
  EXPECT_EQ(choose(conv, e, Device{}).config.mode(), NormMode::resident);
  EXPECT_THAT(refusals(conv, epilogue), testing::Contains(Says("streamed: … before the normalisation")));
}

TEST(Refusals, LayerNormTakesOneTileAcrossUnlessTilesMeet) {
  constexpr const char* text = "store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n]) as y : bf16\n";
  const auto reason = [&](std::int64_t channels, const char* fixed) -> std::string {
    const Conv2d conv = test::conv_of(2, 15, 17, 64, channels, 3);
    try {
      const ConvPlan p = choose(conv, test::epilogue_of(text, conv), Device{}, parse_plan(fixed));
      EXPECT_EQ(p.config.mode(), NormMode::rows);
      EXPECT_EQ(p.config.meets(), p.config.tile.n < channels);
      EXPECT_EQ(p.workspace.bytes > 0, p.config.schedule.split || p.config.meets());
      return "";
    } catch (const Unsupported& e) {
      return e.what();
    }
  };
  for (const std::int64_t channels : {8, 64, 72, 160, 256}) EXPECT_EQ(reason(channels, ""), "") << channels;
  EXPECT_EQ(reason(64, "split=on"), "");
  EXPECT_EQ(reason(64, "mode=rows"), "");
  const auto has = [&](std::int64_t channels, const char* fixed, const char* part) {
    EXPECT_THAT(reason(channels, fixed), Says(part));
  };
  // Wider ones exchange their rows' statistics
  const Conv2d wide = test::conv_of(2, 15, 17, 64, 264, 3);
  EXPECT_TRUE(choose(wide, test::epilogue_of(text, wide), Device{}).config.meets());
  EXPECT_EQ(reason(160, "tile=128x80"), "");
  has(160, "tile=128x96 split=on", "rows: tiles of a row");
  has(64, "cluster=1x2", "cluster: 1 tiles across the channels … 2 CTAs");
  has(64, "mode=resident", "mode: resident; only `rows` normalises");
  has(64, "unit=4", "unit: 4 channels; without statistics");
  const Conv2d conv = test::conv_of(2, 15, 17, 64, 64, 3);
  EXPECT_THROW(choose(conv, test::epilogue_of(test::block, conv), Device{}, parse_plan("mode=rows")), Unsupported);
  EXPECT_THROW(choose(conv, test::epilogue_of(test::bare, conv), Device{}, parse_plan("mode=rows")), Unsupported);
}

TEST(Refusals, AnOddUnitIsPossible) {
  // 5 groups of 24/… : groups of 3 channels in tiles of 96 or 24 have units of three
  const Conv2d conv = test::conv_of(2, 24, 24, 64, 96, 3);
  const ConvPlan p = choose(conv, test::epilogue_of(test::block, conv), Device{});
  EXPECT_EQ(p.config.tile.n % p.config.unit(), 0);
  EXPECT_EQ(3 % p.config.unit(), 0);
}

}  // namespace
}  // namespace unisono::families::sm90_conv
