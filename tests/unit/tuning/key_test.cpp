// What makes two problems the same.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plan/analyse.hpp"
#include "plan/resampling.hpp"
#include "tuning/key.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::tuning {
namespace {

using plan::test::conv_of;
using plan::test::epilogue_of;

Key key(const std::string& text, const Conv2d& conv) { return key_of(conv, epilogue_of(text, conv)); }

const Conv2d conv = conv_of(8, 64, 64, 320, 320, 3);

TEST(Key, SaysWhatItStandsFor) {
  EXPECT_EQ(key(plan::test::block, conv).problem, "8,64,64,320->320,3x3,pad=1,dtype=bf16");
  EXPECT_THAT(key(plan::test::block, conv).epilogue, testing::MatchesRegex("norm/10 silu #[0-9a-f]{12}"));
  EXPECT_THAT(key(plan::test::bare, conv).epilogue, testing::StartsWith("bare #"));
  EXPECT_THAT(key("store acc + x[m,n] as y : bf16\nstore acc as h : bf16\n", conv).epilogue,
              testing::StartsWith("+1 2 stores #"));
}

TEST(Key, NamesAndNumbersDoNotCount) {
  const Key one = key("store silu(group_norm(acc + bias[n], groups=32, eps=1e-5)) as y : bf16\n", conv);
  EXPECT_EQ(one, key("store silu(group_norm(acc + b2[n], groups=32, eps=1e-6)) as out : bf16\n", conv));
}

TEST(Key, WhatIsStoredPooledOrUpsampledCounts) {
  std::set<std::string> keys{key(plan::test::bare, conv).epilogue};
  using plan::Resampled;
  for (const Resampled& made :
       {Resampled{.pooled = "p"}, Resampled{.upsampled = "p"}, Resampled{.upsampled = "p", .only_upsampled = true},
        Resampled{.pooled = "p", .upsampled = "e"}}) {
    plan::Epilogue e = epilogue_of(plan::test::bare, conv);
    plan::test::require(plan::resample(e, made, conv));
    keys.insert(key_of(conv, e).epilogue);
    EXPECT_THAT(key_of(conv, e).epilogue, testing::MatchesRegex("bare [a-z, ]+ #[0-9a-f]{12}"));
  }
  EXPECT_EQ(keys.size(), 5u);
}

TEST(Key, EverythingElseDoes) {
  const std::string text = "store silu(acc + bias[n]) as y : bf16\n";
  const Key one = key(text, conv);
  for (const std::string other :
       {"store silu(acc + bias[n]) as y : f16\n", "store mish(acc + bias[n]) as y : bf16\n",
        "store silu(acc + bias[b,n]) as y : bf16\n", "store silu(acc + bias[m,n]) as y : bf16\n",
        "store silu(acc + bias[n] + also[n]) as y : bf16\n", "store silu(acc + bias[n] + bias[n]) as y : bf16\n",
        "h = acc + bias[n]\nstore silu(h) as y : bf16\nstore h : bf16\n"}) {
    EXPECT_NE(one.epilogue, key(other, conv).epilogue) << other;
    EXPECT_EQ(one.problem, key(other, conv).problem);
  }
  const auto changed = [&](auto change) {
    Conv2d c = conv;
    change(c);
    return key(text, c).problem;
  };
  for (const std::string& other :
       {changed([](Conv2d& c) { c.n = 4; }), changed([](Conv2d& c) { c.h = 32; }), changed([](Conv2d& c) { c.w = 32; }),
        changed([](Conv2d& c) { c.c = 640; }), changed([](Conv2d& c) { c.k = 640; }), changed([](Conv2d& c) {
          c.pad = {0, 1, 1, 1};
        }),
        changed([](Conv2d& c) {
          c.stride = {2, 1};
        }),
        changed([](Conv2d& c) {
          c.dilation = {1, 2};
        }),
        changed([](Conv2d& c) { c.groups = 2; }), changed([](Conv2d& c) { c.layout = Layout::nchw; }),
        changed([](Conv2d& c) { c.dtype_x = c.dtype_w = DType::f16; })})
    EXPECT_NE(one.problem, other);
}

TEST(Key, ProductsOfOtherLayouts) {
  const Gemm plain{.m = 512, .n = 256, .k = 128, .transpose_b = true, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
  Gemm rows = plain, columns = plain, many = plain;
  rows.transpose_b = false, columns.transpose_a = true, many.batch = 2;
  std::set<std::string> all;
  for (const Gemm& g : {plain, rows, columns, many}) {
    const plan::ConvTask task = plan::as_convolution(g);
    all.insert(
        key_of(task,
               plan::analyse(passes::run_pipeline(parse(plan::test::bare)), extents(g), {.channels = 256}).value())
            .problem);
  }
  EXPECT_EQ(all.size(), 4u);
}

TEST(Key, PlaceOfADevice) {
  plan::Device device;
  device.driver = "580.95.05";
  const Platform platform = platform_of(device);
  EXPECT_EQ(platform.device, "NVIDIA H200");
  EXPECT_EQ(platform.sms, 132);
  EXPECT_EQ(platform.driver, "580.95.05");
  EXPECT_EQ(platform.kernels.size(), 12u);
}

}  // namespace
}  // namespace unisono::tuning
