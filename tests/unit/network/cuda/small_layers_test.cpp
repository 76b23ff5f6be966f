// Two layers of a pooled image as one launch: how many launches a block has, and what stays apart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decided.hpp"
#include "network/cuda/emit/emission.hpp"
#include "support/says.hpp"

namespace unisono::network::gpu {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Launches that compute, without the changes of layout at the border
std::vector<std::string> computed_by(const Decided& d) {
  std::vector<std::string> all;
  for (const auto& step : emit(d.input, d.plan).steps)
    if (!step->what.starts_with("change of layout")) all.push_back(step->name + ": " + step->what + ": " + step->how);
  return all;
}

struct Squeeze : testing::Test {
  NetworkBuilder net{"squeeze"};
  Weights weights{net};

  static std::int64_t channels_of(const NetworkValue& x) { return x.shape()[1].value(); }
  NetworkValue grouped(NetworkValue x, std::int64_t width, std::int64_t size = 3) {
    const std::int64_t c = channels_of(x);
    return conv2d(x, weights({c, width, size, size}), {.pad = size / 2, .groups = c / width});
  }
  NetworkValue biased(NetworkValue x, std::int64_t to) { return weights.conv(x, to, 1) + weights({to, 1, 1}); }
  NetworkValue gate(NetworkValue pooled, std::int64_t hidden) {
    return sigmoid(biased(relu(biased(pooled, hidden)), channels_of(pooled)));
  }
  Decided decided(std::vector<std::int64_t> shape, std::vector<std::string> on_host = {}) {
    return Decided(net.build(), {std::move(shape)}, "host groups", std::move(on_host));
  }
};

// MobileNetV3's and EfficientNet's: the pool is in the launch, as depthwise kernels have no reductions
TEST_F(Squeeze, ABlockBehindADepthwiseConvolutionIsFourLaunches) {
  const NetworkValue x = net.input("x", {8, 96, 14, 14});
  const NetworkValue h = silu(grouped(x, 1, 5));
  const NetworkValue mean = h.builder().apply(operators::Reduce{ReduceOp::mean, {2, 3}, true}, {h});
  net.output(weights.conv(h * gate(mean, 24), 40, 1), "y");
  const Decided d = decided({8, 96, 14, 14});
  const auto all = computed_by(d);
  EXPECT_EQ(all.size(), 4u) << to_string(d.plan, d.input);
  EXPECT_THAT(all, Contains(HasSubstr("(8,96,14,14) -> (8,96,1,1), then conv2d (8,96,1,1) -> 24, 1x1, then conv2d "
                                      "(8,24,1,1) -> 96, 1x1: small layers, 8 CTAs an image, 64 CTAs")));
}

// RegNetY's: the convolution's kernel computes the pool, and of 26 channels there is no kernel of the tensor cores
TEST_F(Squeeze, ABlockBehindAGroupedConvolutionIsFourLaunches) {
  const NetworkValue x = net.input("x", {8, 104, 28, 28});
  const NetworkValue h = relu(grouped(x, 8));
  net.output(weights.conv(h * gate(global_average_pool(h), 26), 104, 1), "y");
  const Decided d = decided({8, 104, 28, 28});
  const auto all = computed_by(d);
  EXPECT_EQ(all.size(), 4u) << testing::PrintToString(all);
  EXPECT_THAT(all, Contains(HasSubstr("small layers")).Times(1));
}

// Nobody else reads the image, which is small enough for the gate to be given its memory if it were free
TEST_F(Squeeze, WhatTheLaunchReadsIsThereUntilItRuns) {
  const NetworkValue x = net.input("x", {4, 256, 1, 9});
  const NetworkValue g = gate(global_average_pool(grouped(grouped(x, 1), 1)), 256);
  net.output(weights.conv(g, 64, 1), "y");
  const Decided d = decided({4, 256, 1, 9});
  const LaunchSequence launches = emit(d.input, d.plan);
  int found = 0;
  for (const auto& step : launches.steps) {
    if (step->how.find("small layers") == std::string::npos) continue;
    ++found;
    for (const Interval& read : step->uses.reads)
      for (const Interval& written : step->uses.writes) EXPECT_FALSE(overlap(read, written));
  }
  EXPECT_EQ(found, 1) << to_string(d.plan, d.input);
}

TEST_F(Squeeze, LayersThatOthersReadStayApart) {
  const NetworkValue x = net.input("x", {8, 64, 14, 14});
  const NetworkValue shown = global_average_pool(grouped(x, 1)), hidden = relu(biased(shown, 16));
  net.output(shown, "pool");  // of which two layers are one launch all the same
  net.output(gate(shown, 16), "joined");
  net.output(hidden, "hidden");
  net.output(biased(hidden, 64), "apart");
  const Decided d = decided({8, 64, 14, 14});
  EXPECT_TRUE(d.of("joined").layers);
  EXPECT_FALSE(d.of("joined").layers->pools);
  EXPECT_FALSE(d.of("pool").layers_by);
  EXPECT_FALSE(d.of("apart").layers || d.of("hidden").layers_by);
  EXPECT_THAT(computed_by(d), Contains(HasSubstr("small layers")).Times(1));
}

// Eight CTAs would read 2 MB an image
TEST_F(Squeeze, APoolOfALargeImageHasALaunchOfItsOwn) {
  const NetworkValue x = net.input("x", {1, 64, 128, 128});
  net.output(gate(global_average_pool(grouped(x, 1)), 16), "y");
  const Decided d = decided({1, 64, 128, 128});
  EXPECT_TRUE(d.of("y").layers);
  EXPECT_FALSE(d.of("y").layers->pools);
  EXPECT_THAT(computed_by(d), Contains(HasSubstr("global_average_pool")));
}

TEST_F(Squeeze, LayersOfManyWeightsStayApart) {
  const NetworkValue x = net.input("x", {2, 1536, 7, 7});
  net.output(gate(global_average_pool(grouped(x, 1)), 384), "large");
  const Decided d = decided({2, 1536, 7, 7});
  EXPECT_FALSE(d.of("large").layers);
  ASSERT_TRUE(d.of("large").not_layers);
  EXPECT_THAT(computed_by(d), Contains(Says("not one launch … 1179648 weights")));
  EXPECT_THAT(computed_by(d), Not(Contains(HasSubstr("small layers"))));
}

TEST_F(Squeeze, APoolOnTheHostIsReadThere) {
  const NetworkValue x = net.input("x", {2, 64, 7, 7});
  net.output(gate(global_average_pool(grouped(x, 1)), 16), "y");
  const Decided d = decided({2, 64, 7, 7}, {"global_average_pool"});
  EXPECT_TRUE(d.of("y").layers);
  EXPECT_FALSE(d.of("y").layers->pools);
  const Decided layer = decided({2, 64, 7, 7}, {"conv2d"});
  EXPECT_FALSE(layer.of("y").layers);
}

}  // namespace
}  // namespace unisono::network::gpu
