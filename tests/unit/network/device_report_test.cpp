// What runs on a GPU, planned without one: which launches a network becomes, and what was folded into them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "coda/network.hpp"

namespace coda::network {
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

// Two Conv3x3, GroupNorm, Mish a level; enlarged, then 1x1; a heatmap a class
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
    x = concat({skips[i], conv2d(up, weights.filter(up, widths[i], 1), {.bias = weights({widths[i]})})});
    x = block(block(x, widths[i]), widths[i]);
  }
  net.output(conv2d(x, weights.filter(x, classes, 1), {.bias = weights({classes})}), "heatmaps");
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
    EXPECT_EQ(count(report, "enlarged only"), 4) << to_string(report);
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
  NetworkValue x = net.input("x", {"batch", 32, "height", "width"});
  x = max_pool(conv2d(x, weights.filter(x, 16, 3), {.stride = 2, .pad = 1}));                 // no patches
  x = max_pool(conv2d(x, weights.filter(x, 16, 3), {.pad = 1}), {.kernel = 3, .stride = 2});  // no windows of 2x2
  net.output(x, "y");
  const DeviceReport report = report_of(net.build(), {{"x", {2, 32, 40, 40}}});
  ASSERT_EQ(report.launches.size(), 6u) << to_string(report);
  EXPECT_THAT(report.launches[2].how, HasSubstr("the kernel of 'conv2d_0' does not store it: pooled: runs of pixels"))
      << to_string(report);
  EXPECT_THAT(report.launches[4].how, HasSubstr("store max-pools of 2x2 pixels")) << to_string(report);
}

// A skip that is pooled, enlarged and read as it is, and an output of the network
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
  EXPECT_EQ(count(report, "enlarged, pooled"), 1) << to_string(report);
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

}  // namespace
}  // namespace coda::network
