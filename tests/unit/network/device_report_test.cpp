// What runs on a GPU, planned without one: which launches a network becomes, and what was folded into them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <algorithm>

#include "support/says.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono::network {
namespace {

using testing::HasSubstr;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

class Weights {
 public:
  explicit Weights(NetworkBuilder& net) : net_(net) {}
  NetworkValue operator()(std::vector<std::int64_t> shape) {
    std::vector<float> x(static_cast<std::size_t>(element_count(shape)), 0.01f);
    return net_.constant("w" + std::to_string(++count_), Shape(shape.begin(), shape.end()), std::move(x));
  }
  NetworkValue filter(NetworkValue x, std::int64_t to, std::int64_t size) {
    return (*this)({to, x.shape()[1].value(), size, size});
  }

 private:
  NetworkBuilder& net_;
  int count_ = 0;
};

// Two Conv3x3, GroupNorm, Mish a level; upsampled, then 1x1; a heatmap a class
Network unet(std::int64_t inputs, const std::vector<std::int64_t>& widths, std::int64_t classes) {
  NetworkBuilder net("unet");
  Weights weights(net);
  const auto block = [&](NetworkValue x, std::int64_t to) {
    const NetworkValue y = conv2d(x, weights.filter(x, to, 3), {.pad = 1});
    return mish(group_norm(y, {.groups = 16, .scale = weights({to}), .shift = weights({to})}));
  };
  NetworkValue x = net.input("image", {"batch", inputs, "height", "width"});
  std::vector<NetworkValue> skips;
  for (const std::int64_t width : widths) {
    x = block(block(skips.empty() ? x : max_pool(x), width), width);
    skips.push_back(x);
  }
  for (std::size_t i = widths.size() - 1; i-- > 0;) {
    const NetworkValue up = upsample(x);
    x = concat({skips[i], conv2d(up, weights.filter(up, widths[i], 1), weights({widths[i]}))});
    x = block(block(x, widths[i]), widths[i]);
  }
  net.output(conv2d(x, weights.filter(x, classes, 1), weights({classes})), "heatmaps");
  return net.build();
}

DeviceReport report_of(const Network& network, const Shapes& shapes, bool fuse = true) {
  NetworkOptions options;
  options.device = Device::cuda;
  options.fuse = fuse;
  return explain_device(network, options, shapes);
}

int count(const DeviceReport& report, const std::string& text) {
  return static_cast<int>(std::count_if(report.launches.begin(), report.launches.end(), [&](const LaunchReport& l) {
    return l.how.find(text) != l.how.npos || l.what.find(text) != l.what.npos;
  }));
}

// GroupNorm ahead of its convolution; an upsampled image; a concatenation with a skip, of which groups straddle the
// border
TEST(DeviceReport, StatisticsOfAConcatenationComeFromItsProducers) {
  NetworkBuilder net("diffusion");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 320, "height", "width"});
  const auto conv = [&](NetworkValue v, std::int64_t to) { return conv2d(v, weights.filter(v, to, 3), {.pad = 1}); };
  const NetworkValue skip = x + conv(x, 320);
  const NetworkValue up = conv(upsample(conv(max_pool(skip), 640)), 640);
  net.output(conv(silu(group_norm(concat({up, skip}), {.groups = 32})), 320), "y");
  net.output(conv(silu(group_norm(concat({skip, x}), {.groups = 32})), 320), "z");
  const DeviceReport report = report_of(net.build(), {{"x", {8, 320, 64, 64}}});
  EXPECT_EQ(count(report, "plain kernel: statistics of 'concat_6' from its producers 'conv2d_5' and 'add_1'"), 1)
      << to_string(report);
  EXPECT_EQ(count(report, ", statistics of '"), 2) << to_string(report);
  EXPECT_THAT(report.decisions, HasSubstr("  statistics: from the kernels of 'conv2d_5', 'add_1'\n"));
  EXPECT_EQ(count(report, "statistics/2"), 2) << "of 30 channels a group in tiles of 64\n" << to_string(report);
  EXPECT_EQ(count(report, "makes 'x'"), 2) << to_string(report);
}

TEST(DeviceReport, TheBaselineUNetIsItsConvolutionsAndItsBorder) {
  const Network network = unet(8, {64, 128, 256, 512, 1024}, 17);
  const auto convolutions = static_cast<std::size_t>(
      std::count_if(network.operators.begin(), network.operators.end(),
                    [](const Operator& op) { return std::holds_alternative<operators::Conv2d>(op.kind); }));
  EXPECT_EQ(convolutions, 23u);
  for (const Shapes& shapes : {Shapes{{"image", {8, 8, 256, 256}}}, Shapes{{"image", {1, 8, 256, 256}}}}) {
    const DeviceReport report = report_of(network, shapes);
    EXPECT_LE(report.launches.size(), convolutions + 2) << to_string(report);
    EXPECT_EQ(count(report, "pooled"), 4) << to_string(report);
    EXPECT_EQ(count(report, "upsampled only"), 4) << to_string(report);
  }
}

// Any size that is pooled four times; its odd lines are left out
TEST(DeviceReport, NeitherLinesNorPixelsNeedBeEven) {
  NetworkBuilder net("odd");
  Weights weights(net);
  NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  for (int i = 0; i < 3; ++i) x = max_pool(relu(conv2d(x, weights.filter(x, 16, 3), {.pad = 1})));
  net.output(upsample(conv2d(x, weights.filter(x, 16, 3), {.pad = 1})), "y");
  const DeviceReport report = report_of(net.build(), {{"x", {2, 16, 37, 27}}});
  EXPECT_EQ(report.launches.size(), 6u) << to_string(report);
}

TEST(DeviceReport, WhatIsNotFoldedSaysWhy) {
  NetworkBuilder net("strided");
  Weights weights(net);
  NetworkValue x = net.input("x", {"batch", 96, "height", "width"});
  x = max_pool(conv2d(x, weights.filter(x, 16, 3), {.stride = 2, .pad = 1}));  // no halo tiles, no windows
  x = max_pool(conv2d(x, weights.filter(x, 16, 3), {.pad = 1}), {.kernel = 3, .stride = 2});  // no windows of 2x2
  net.output(x, "y");
  const DeviceReport report = report_of(net.build(), {{"x", {2, 96, 40, 40}}});
  ASSERT_EQ(report.launches.size(), 6u) << to_string(report);
  EXPECT_THAT(report.launches[2].how, HasSubstr("the kernel of 'conv2d_0' does not store it: pooled: im2col tiles"))
      << to_string(report);
  EXPECT_THAT(report.launches[4].how, HasSubstr("store max-pools of 2x2 pixels")) << to_string(report);
}

// A skip that is pooled, upsampled and read as it is, and an output of the network
TEST(DeviceReport, OneStoreInEveryForm) {
  NetworkBuilder net("forms");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue y = relu(conv2d(x, weights.filter(x, 16, 3), {.pad = 1}));
  net.output(y, "y");
  net.output(max_pool(y), "small");
  net.output(upsample(y), "large");
  const DeviceReport report = report_of(net.build(), {{"x", {1, 16, 12, 12}}});
  EXPECT_EQ(report.launches.size(), 5u) << to_string(report);
  EXPECT_EQ(count(report, "upsampled, pooled"), 1) << to_string(report);
}

// The embeddings of time of residual blocks: one product, of whose output each block reads its columns
TEST(DeviceReport, SmallProductsOfOneInputAreOne) {
  NetworkBuilder net("blocks");
  Weights weights(net);
  NetworkValue x = net.input("x", {"batch", 32, "height", "width"});
  const NetworkValue time = silu(net.input("time", {"batch", 24}));
  const auto layer = [&](std::int64_t to) {
    return gemm(time, weights({to, 24}), {.transpose_b = true, .bias = weights({to})});
  };
  for (const std::int64_t to : {32, 64, 48}) {
    const NetworkValue added =
        reshape(layer(to), {0, 0, 1, 1});  // ahead of the convolution, whatever the compiler's order
    const NetworkValue y = conv2d(x, weights.filter(x, to, 3), {.pad = 1}) + added;
    x = silu(group_norm(y, {.groups = 4, .scale = weights({to}), .shift = weights({to})}));
  }
  net.output(x, "y");
  const Network alike = net.build();
  const Shapes shapes{{"x", {2, 32, 16, 16}}, {"time", {2, 24}}};
  // two inputs, silu, the product, three blocks, the output
  const DeviceReport one = report_of(alike, shapes);
  EXPECT_EQ(one.launches.size(), 8u) << to_string(one);
  EXPECT_EQ(count(one, "gemm (batch,24) -> (batch,144)"), 1) << to_string(one);
  EXPECT_THAT(to_string(one.fusion), HasSubstr("3 products of 'silu_0' as one: gemm_1, gemm_7, gemm_13"));
  EXPECT_THAT(to_string(one.fusion), HasSubstr("(columns 96 to 144 of 'gemm_1_stacked')"));
  // beside what happens to the image
  EXPECT_THAT(one.launches[1].how, HasSubstr("; waits for no launch")) << to_string(one);
  EXPECT_THAT(one.launches[4].how, HasSubstr("; waits for launch 1 and 4")) << to_string(one);

  // each with another reason to stay by itself
  net.output(layer(16), "z");
  const NetworkValue odd = layer(12);
  net.output(gemm(odd + odd, weights({12, 8})), "o");
  net.output(gemm(layer_norm(layer(8), {}), weights({8, 8})), "n");
  net.output(gemm(tanh(layer(8)), weights({8, 8})), "t");
  const NetworkValue other = gemm(time * 2.0, weights({24, 8}));
  net.output(gemm(layer(8) + other, weights({8, 8})), "r");
  const DeviceReport some = report_of(net.build(), shapes);
  const std::string text = to_string(some.fusion);
  EXPECT_EQ(count(some, "gemm (batch,24) -> (batch,144)"), 1) << text;
  for (const char* reason :
       {"'z' is an output", "it has 12 columns, not a multiple of 8", "layer_norm 'layer_norm_24' joins its columns",
        "no other product of 'silu_0' has the same epilogue", "not a constant … column"})
    EXPECT_THAT(text, Says(reason)) << text;
}

// A range of columns that every reader takes where it lies is no launch
TEST(DeviceReport, RangesOfColumnsAreViews) {
  NetworkBuilder net("ranges");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 32, "height", "width"});
  const auto range = [&](NetworkValue v, std::int64_t begin, std::int64_t end) {
    return net.apply(operators::Slice{{begin}, {end}, {1}, {1}}, {v});
  };
  const NetworkValue wide = relu(conv2d(x, weights.filter(x, 64, 3), {.pad = 1}));
  const NetworkValue image = range(wide, 16, 48), added = range(wide, 48, 64), odd = range(wide, 4, 20);
  const NetworkValue y = relu(conv2d(image, weights.filter(image, 16, 3), {.pad = 1}));
  net.output(y + added, "y");
  net.output(conv2d(odd, weights.filter(odd, 16, 3), {.pad = 1}), "z");
  const DeviceReport report = report_of(net.build(), {{"x", {2, 32, 12, 12}}});
  const std::string text = to_string(report.fusion);
  EXPECT_THAT(text, HasSubstr("(columns 16 to 48 of 'relu_1')"));
  EXPECT_THAT(text, Says("copied: its columns … multiples of 8"));
  EXPECT_THAT(text, HasSubstr("reads 'slice_3' as [m,n]"));
}

// What layers concatenate so far are columns of the last concatenation; not where a reader needs them dense
TEST(DeviceReport, GrowingConcatenationsAreNotCopied) {
  NetworkBuilder net("growing");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 32, "height", "width"});
  const auto layer = [&](NetworkValue v) { return conv2d(v, weights.filter(v, 16, 3), {.pad = 1}); };
  const NetworkValue a = layer(x), b = layer(a), c = layer(concat({a, b})), d = layer(concat({b, c}));
  const NetworkValue residual = concat({c, d});
  net.output(conv2d(a, weights.filter(a, 32, 1)) + residual, "y");
  net.output(layer(concat({a, b, c, d})), "z");
  const DeviceReport report = report_of(net.build(), {{"x", {2, 32, 12, 12}}});
  const std::string text = to_string(report.fusion);
  EXPECT_THAT(text, HasSubstr("columns of 'concat_"));
  const auto copies =
      std::ranges::count_if(report.launches, [](const LaunchReport& l) { return l.what.starts_with("concat"); });
  EXPECT_EQ(copies, 2) << text;  // the two parts of the residual, which a contraction's epilogue reads
}

TEST(DeviceReport, RefusesAnUnknownSwitch) {
  NetworkBuilder net("block");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  net.output(relu(conv2d(x, weights.filter(x, 16, 3), {.pad = 1})), "y");
  ::setenv("UNISONO_FILTERS_AHEAD", "perhaps", 1);
  EXPECT_THROW(report_of(net.build(), {{"x", {2, 16, 24, 20}}}), UserError);
  ::unsetenv("UNISONO_FILTERS_AHEAD");
}

TEST(DeviceReport, WithoutFusionEverythingRunsByItself) {
  NetworkBuilder net("forms");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  net.output(max_pool(conv2d(x, weights.filter(x, 16, 3), {.pad = 1})), "y");
  const Network network = net.build();
  EXPECT_EQ(report_of(network, {{"x", {1, 16, 12, 12}}}).launches.size(), 3u);
  EXPECT_EQ(report_of(network, {{"x", {1, 16, 12, 12}}}, false).launches.size(), 4u);
}

// What no kernel serves stands in its place among the launches, with the reason; strict options refuse it by name
TEST(DeviceReport, HostStepsStandAmongTheLaunches) {
  struct OnHost {
    OnHost() { ::setenv("UNISONO_HOST_STEPS", "upper_triangle,reduce_sum", 1); }
    ~OnHost() { ::unsetenv("UNISONO_HOST_STEPS"); }
  } const on_host;
  NetworkBuilder net("host");
  Weights weights(net);
  const NetworkValue x = net.input("x", {"batch", 16, "height", "width"});
  const NetworkValue half = net.apply(operators::Triangle{}, {relu(x)}, "half");
  const NetworkValue conv = conv2d(half, weights.filter(half, 16, 3), {.pad = 1});
  net.output(net.apply(operators::Reduce{.axes = {2}}, {conv}, "summed"), "y");
  const Network network = net.build();
  const Shapes shapes{{"x", {2, 16, 12, 12}}};
  const DeviceReport report = report_of(network, shapes);
  std::vector<std::string> names;
  for (const LaunchReport& l : report.launches) names.push_back(l.on_host ? l.name + " on the host" : l.name);
  ASSERT_EQ(names.size(), 8u) << to_string(report);
  EXPECT_EQ(names[3], "half on the host") << to_string(report);
  EXPECT_EQ(names[7], "y on the host");
  EXPECT_THAT(report.launches[3].how, testing::StartsWith("host step: UNISONO_HOST_STEPS names upper_triangle; "));
  EXPECT_THAT(to_string(report), testing::StartsWith("6 launches and 2 host steps for "));
  EXPECT_THAT(report.decisions, HasSubstr("on the host: UNISONO_HOST_STEPS names upper_triangle"));

  NetworkOptions strict;
  strict.device = Device::cuda, strict.strict = true;
  try {
    ADD_FAILURE() << to_string(explain_device(network, strict, shapes));
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("upper_triangle 'half': UNISONO_HOST_STEPS names upper_triangle"));
    EXPECT_THAT(error.what(), HasSubstr("reduce_sum 'summed': UNISONO_HOST_STEPS names reduce_sum"));
  }
}

}  // namespace
}  // namespace unisono::network
