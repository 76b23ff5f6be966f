// Depthwise convolutions by ordinary multiplications: what is served, by which strips, and why not.

#include "families/sm90_depthwise/depthwise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "families/registry.hpp"
#include "families/sm90/problem.hpp"
#include "support/random.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families::sm90_depthwise {
namespace {

using plan::Device, plan::Epilogue;
using sm90::ConvProblem, sm90::make_problem;
using testing::HasSubstr;
using unisono::test::Random;
namespace test = plan::test;

Conv2d depthwise(std::int64_t channels, std::int64_t taps, std::int64_t stride = 1, std::int64_t multiplier = 1) {
  Conv2d c = test::conv_of(8, 64, 64, channels, channels * multiplier, taps);
  c.groups = channels, c.stride = {stride, stride};
  return c;
}

std::vector<DepthwisePlan> all(const Conv2d& conv, const char* text = test::bias_silu, const char* fixed = "") {
  return depthwise_candidates(conv, test::epilogue_of(text, conv), Device{}, parse_plan(fixed));
}

// The configuration that the registry chooses, if it is one of this family
std::optional<DepthwiseConfig> chosen(const Conv2d& conv, const char* text = test::bias_silu, const char* fixed = "") {
  const auto epilogue = test::epilogue_of(text, conv);
  const auto plan = families::choose({conv, epilogue, Device{}}, parse_plan(fixed)).value();
  const auto* own = dynamic_cast<const DepthwisePlan*>(plan.get());
  return own ? std::optional(own->config) : std::nullopt;
}

// Strips of a few channels are thousands of pixels long
TEST(Depthwise, FindsEachPlanByItsOwnText) {
  for (const std::int64_t channels : {2, 4, 64})
    for (const std::int64_t taps : {1, 3, 7})
      for (const std::int64_t stride : {1, 2}) {
        Conv2d conv = depthwise(channels, taps, stride);
        conv.h = conv.w = 512;
        const auto epilogue = test::epilogue_of(test::bias_silu, conv);
        for (const families::Candidate& c : families::candidates({conv, epilogue, Device{}}).value()) {
          const std::string fixed = to_string(families::override_of(*c.plan));
          const auto again = families::choose({conv, epilogue, Device{}}, parse_plan(fixed)).value();
          EXPECT_EQ(to_string(families::override_of(*again)), fixed);
        }
      }
}

// The convolution's own strips, and taps in reverse
TEST(Depthwise, GradientsOfImages) {
  const Conv2d forward = depthwise(64, 5);
  const ConvTranspose2d t = input_gradient(forward);
  const auto plans = [](const Contraction& c) {
    return depthwise_candidates(plan::as_convolution(c), test::epilogue_of(test::bias_silu, c), Device{});
  };
  const auto there = plans(forward), back = plans(t);
  ASSERT_FALSE(back.empty());
  EXPECT_EQ(back.size(), there.size());
  EXPECT_TRUE(back[0].config.flipped && !there[0].config.flipped);
  EXPECT_DOUBLE_EQ(back[0].predicted_us, there[0].predicted_us);
  EXPECT_THAT(describe(back[0]), HasSubstr("flipped"));
  ConvTranspose2d other = t;
  other.stride = {2, 1};
  EXPECT_TRUE(plans(other).empty());
  other = t, other.k = 128;
  EXPECT_TRUE(plans(other).empty());
  other = t, other.layout = Layout::nchw;
  EXPECT_TRUE(plans(other).empty());
}

TEST(Depthwise, HasAKernelOfItsOwn) {
  const Conv2d first = depthwise(256, 3);
  const auto epilogue = test::epilogue_of(test::bias_silu, first);
  for (const families::Candidate& c : families::candidates({first, epilogue, Device{}}).value()) {
    EXPECT_TRUE(c.is_legal());
    EXPECT_EQ(c.plan->family->name(), "sm90_depthwise");
    EXPECT_EQ(c.plan->family->cost(*c.plan, {first, epilogue, Device{}}), c.plan->predicted_us);
  }
  for (const std::int64_t channels : {2, 10, 64, 96, 130, 1280})
    for (const std::int64_t taps : {1, 3, 5, 7, 11})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t multiplier : {1, 2, 4}) {
          const auto config = chosen(depthwise(channels, taps, stride, multiplier));
          ASSERT_TRUE(config) << channels << " " << taps;
          const DepthwiseStrip* const strip = &config->strip;
          EXPECT_EQ(strip->taps_h, stride <= 2 && (taps <= 5 || (taps == 7 && multiplier < 4)) ? taps : 0);
          EXPECT_EQ(strip->multiplier, multiplier);
          EXPECT_EQ(strip->channels % multiplier, 0);
        }
  EXPECT_TRUE(chosen(depthwise(24, 3), "store acc * s[m] + index(h) as y : f32"));
  EXPECT_FALSE(chosen(test::conv_of(8, 64, 64, 256, 256, 3)));
}

// Two rounds of strips of 19 rows on 132 SMs, and not two of 28
TEST(Depthwise, SpreadsStripsEvenly) {
  Conv2d conv = depthwise(96, 7);
  conv.h = conv.w = 56;
  const auto config = chosen(conv);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->strip.rows, 19) << to_string(*config);
}

// By the kernels with tiles, and the plan says why
TEST(Depthwise, SaysWhyNot) {
  Conv2d planes = depthwise(64, 3), grouped = depthwise(64, 3);
  planes.layout = Layout::nchw, grouped.groups = 32;
  const std::tuple<Conv2d, const char*, const char*> cases[] = {
      {depthwise(11, 3), test::bias_silu, "depthwise: 11 channels, … pairs"},
      {depthwise(10, 3, 1, 3), test::bias_silu, "depthwise: 3 output channels … input channel; 1, 2 or 4"},
      {planes, test::bias_silu, "depthwise: channels first"},
      {depthwise(64, 3), test::block, "depthwise: … normalisation"},
      {depthwise(64, 3), "store sum(acc, over=m) as s : f32", "depthwise: the epilogue has reductions"},
      {depthwise(64, 3), "store sum(acc, over=n) as s : f32", "depthwise: the epilogue has reductions"},
      {depthwise(64, 60), test::bias_silu, "depthwise: filters of 3600 taps"}};
  for (const auto& [conv, text, reason] : cases) {
    EXPECT_FALSE(chosen(conv, text)) << text;
    EXPECT_THAT(explain({conv, test::epilogue_of(text, conv), Device{}}), Says(reason));
  }
  EXPECT_THAT(explain({grouped, test::epilogue_of(test::bare, grouped), Device{}}),
              testing::Not(HasSubstr("depthwise:")));
}

TEST(Depthwise, TakesAnOverride) {
  const Conv2d conv = depthwise(256, 3);
  const auto c = chosen(conv, test::bias_silu, "thread=16x2x8");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->strip.rows, 16);
  EXPECT_EQ(c->strip.pixels, 2);
  EXPECT_EQ(c->strip.channels, 8);
  EXPECT_EQ(chosen(conv, test::bias_silu, "load=depthwise thread=4x4x4 tile=128x64")->tile_n, 64);
  const auto epilogue = test::epilogue_of(test::bias_silu, conv);
  for (const families::Candidate& x : families::candidates({conv, epilogue, Device{}}).value()) {
    const PlanOverride fields = families::override_of(*x.plan);
    const auto one = depthwise_candidates(conv, epilogue, Device{}, fields);
    ASSERT_EQ(one.size(), 1u) << to_string(fields);
    EXPECT_EQ(one[0].config, dynamic_cast<const DepthwisePlan&>(*x.plan).config);
  }
  // What only other kernels have is theirs
  for (const char* fixed : {"load=gather", "order=cooperative", "stages=2"})
    EXPECT_FALSE(chosen(conv, test::bias_silu, fixed)) << fixed;
  for (const char* fixed : {"thread=8x4x3", "load=depthwise tile=7x64", "load=depthwise order=pingpong2"})
    EXPECT_THROW(chosen(conv, test::bias_silu, fixed), Unsupported) << fixed;
  EXPECT_THROW(chosen(test::conv_of(8, 64, 64, 256, 256, 3), test::bias_silu, "load=depthwise"), Unsupported);
  for (const char* wrong : {"thread=8x4", "thread=8x4x", "thread=0x4x4", "load=depth"})
    EXPECT_THROW(parse_plan(wrong), UserError) << wrong;
}

TEST(Depthwise, IsExplained) {
  const Conv2d conv = depthwise(256, 3);
  const std::string text =
      explain({conv, test::epilogue_of(test::bias_silu, conv), Device{}}, parse_plan("thread=8x4x4 tile=256x64"));
  EXPECT_THAT(text, HasSubstr("plan: depthwise 256x64 in strips of 8x4 pixels by 4 channels of 3x3 taps, 512 tiles, "
                              "512 CTAs of 128 threads, 2 KB\n"));
  EXPECT_THAT(text, Says("loads: 4 channels at once, 8 bytes, … 256 groups of channels\n"));
}

// As the kernel finds a strip's pixels
void expect_cover(const DepthwisePlan& p, const ConvProblem& problem) {
  const DepthwiseStrip& s = p.config.strip;
  const DepthwiseLayout l = depthwise_layout(s, problem.conv, problem.extents);
  const auto first = [](std::int64_t i, std::int64_t each, std::int64_t step) {
    return i / step * (each * step) + i % step;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, int> times;
  ASSERT_EQ(l.down % l.band, 0);
  for (std::int64_t strip = 0; strip < l.across * l.down; ++strip) {
    const std::int64_t band = strip / (l.across * l.band), of_band = strip % (l.across * l.band);
    const std::int64_t h = first(band * l.band + of_band % l.band, s.rows, l.lattice_h),
                       w = first(of_band / l.band, s.pixels, l.lattice_w);
    for (int i = 0; i < s.rows; ++i)
      for (int j = 0; j < s.pixels; ++j)
        if (h + i * l.lattice_h < problem.extents.height && w + j * l.lattice_w < problem.extents.width)
          ++times[{h + i * l.lattice_h, w + j * l.lattice_w}];
  }
  EXPECT_EQ(std::ssize(times), problem.extents.rows_per_image());
  for (const auto& [pixel, count] : times) EXPECT_EQ(count, 1);
  const int vectors = p.config.tile_n / s.channels;
  EXPECT_EQ(p.threads % vectors, 0);
  EXPECT_LE(p.threads, 128);
  EXPECT_GE(std::int64_t{p.tiles_m} * (p.threads / vectors), l.strips);
  EXPECT_GE(std::int64_t{p.tiles_n} * p.config.tile_n, problem.conv.k);
  EXPECT_EQ(p.ctas, p.tiles_m * p.tiles_n);
  EXPECT_LE(p.shared_bytes, std::size_t{96} * 1024);
  EXPECT_LE(p.threads * s.ctas * depthwise_registers(s, problem), 65536);
  EXPECT_GT(p.predicted_us, 3);
}

TEST(Depthwise, StripsCoverTheOutputOnce) {
  Random r(5);
  for (int i = 0; i < 60; ++i) {
    Conv2d c = depthwise(2 * r.between(1, 80), r.between(1, 7));
    c.n = r.between(1, 3), c.h = r.between(8, 40), c.w = r.between(8, 40), c.s = r.between(1, 7);
    c.stride = {r.between(1, 3), r.between(1, 3)}, c.dilation = {r.between(1, 9), r.between(1, 3)};
    for (std::size_t side = 0; side < 4; ++side) c.pad[side] = r.between(0, 30);
    if (c.h + c.pad[0] + c.pad[2] <= (c.r - 1) * c.dilation[0] ||
        c.w + c.pad[1] + c.pad[3] <= (c.s - 1) * c.dilation[1])
      continue;
    SCOPED_TRACE(to_string(Contraction(c)));
    const ConvProblem problem = make_problem(c, test::epilogue_of(test::bias_silu, c)).value();
    const auto found = all(c);
    for (int k = 0; k < 6; ++k) {
      const DepthwisePlan& p = found[static_cast<std::size_t>(r.below(static_cast<int>(found.size())))];
      SCOPED_TRACE(describe(p));
      expect_cover(p, problem);
    }
  }
}

}  // namespace
}  // namespace unisono::families::sm90_depthwise
