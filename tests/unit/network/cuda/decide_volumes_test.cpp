// Convolutions of volumes: what becomes one launch of the tensor cores, and what does not and why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "decided.hpp"
#include "network/names.hpp"
#include "support/says.hpp"

namespace unisono::network::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

operators::Conv3d same(std::int64_t taps) {
  const std::vector<std::int64_t> margin(3, taps / 2), ones(3, 1);
  return {.stride = ones, .dilation = ones, .before = margin, .after = margin, .output_pad = {0, 0, 0}};
}

NetworkValue normalised(NetworkBuilder& net, NetworkValue x) {
  return net.apply(operators::ReshapeLike{}, {instance_norm(reshape(x, {0, 0, -1, 1})), x});
}

std::size_t count(const Network& n, const std::function<bool(const OperatorKind&)>& which) {
  return static_cast<std::size_t>(
      std::ranges::count_if(n.operators, [&](const Operator& op) { return which(op.kind); }));
}

bool is_reshape(const OperatorKind& k) { return std::holds_alternative<operators::Reshape>(k); }
bool is_conv3d(const OperatorKind& k) { return std::holds_alternative<operators::Conv3d>(k); }
bool is_stacked(const OperatorKind& k) { return std::holds_alternative<operators::StackedConv3d>(k); }

// Two blocks share their image: one change of order at either end
TEST(Volumes, BlocksAreOneLaunchEach) {
  NetworkBuilder net("blocks");
  Weights weights(net);
  NetworkValue x = net.input("x", {2, 16, 6, 10, 7});
  for (int i = 0; i < 2; ++i)
    x = leaky_relu(normalised(net, net.apply(same(3), {x, weights({16, 16, 3, 3, 3})})), 0.01);
  net.output(x, "y");
  const Decided d(net.build(), {{2, 16, 6, 10, 7}}, "kernels");
  EXPECT_EQ(count(d.network(), is_stacked), 2u);
  EXPECT_EQ(count(d.network(), is_reshape), 2u);
  const std::string text = to_string(d.plan, d.input);
  std::size_t whole = 0;
  for (const RegionPlan& r : d.plan.regions)
    if (r.contraction && r.contraction->whole) {
      ++whole;
      const auto& v = std::get<Conv3d>(r.contraction->whole->lowered.problem.contraction);
      EXPECT_EQ((std::vector<std::int64_t>{v.n, v.d, v.h, v.w, v.c, v.k}),
                (std::vector<std::int64_t>{2, 6, 10, 7, 16, 16}));
      EXPECT_THAT(r.contraction->whole->how, HasSubstr(" volumes"));
    }
  EXPECT_EQ(whole, 2u) << text;
}

// A voxel's channels are those of a pixel
TEST(Volumes, SingleVoxelsAreAConvolutionOfPixels) {
  NetworkBuilder net("head");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 4, 6, 5});
  net.output(sigmoid(net.apply(same(1), {relu(net.apply(same(3), {x, weights({16, 16, 3, 3, 3})})),
                                         weights({3, 16, 1, 1, 1}), weights({3})})),
             "y");
  const Decided d(net.build(), {{1, 16, 4, 6, 5}}, "kernels");
  EXPECT_EQ(count(d.network(), is_stacked), 1u);
  EXPECT_EQ(count(d.network(), is_conv2d), 1u);
}

// The filter of a network's only convolution of volumes, of `channels` and rows of `taps` taps
std::pair<Shape, std::vector<float>> filter_of_stem(std::int64_t channels, std::int64_t taps) {
  NetworkBuilder net("stem");
  Weights weights(net);
  operators::Conv3d how = same(3);
  how.before[2] = how.after[2] = taps / 2;
  net.output(relu(net.apply(how, {net.input("x", {1, channels, 4, 6, 5}), weights({32, channels, 3, 3, taps})})), "y");
  const Decided d(net.build(), {{1, channels, 4, 6, 5}}, "kernels");
  const auto stacked =
      std::ranges::find_if(d.network().operators, [](const Operator& op) { return is_stacked(op.kind); });
  if (stacked == d.network().operators.end()) return {};
  const NetworkTensor& filter = d.network()[stacked->inputs[1]];
  return {filter.shape, *filter.constant};
}

// Channels that TMA cannot count get zeros beside them, in the image and in the filter
TEST(Volumes, ChannelsArePadded) {
  const auto [shape, filter] = filter_of_stem(11, 3);
  EXPECT_EQ(shape, (Shape{32, 16, 9, 3}));
  EXPECT_EQ(std::ranges::count(filter, 0.01f), 32 * 11 * 27);
  EXPECT_EQ(std::ranges::count(filter, 0.f), 32 * 5 * 27);
}

// A row of taps of few channels is padded once
TEST(Volumes, RowsOfTapsAreChannels) {
  const auto [shape, filter] = filter_of_stem(1, 7);
  EXPECT_EQ(shape, (Shape{32, 8, 9, 1}));
  EXPECT_EQ(std::ranges::count(filter, 0.01f), 32 * 63);
  EXPECT_EQ(std::ranges::count(filter, 0.f), 32 * 9);
  EXPECT_EQ(filter_of_stem(3, 5).first, (Shape{32, 16, 9, 1}));
}

// The outputs between two inputs are channels of a convolution, which then become voxels
TEST(Volumes, TransposedOnesAreConvolutions) {
  NetworkBuilder net("transposed");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 4, 6, 5});
  const operators::Conv3d twice{.stride = {2, 2, 2},
                                .dilation = {1, 1, 1},
                                .before = {1, 0, 1},
                                .after = {1, 0, 1},
                                .output_pad = {1, 0, 0},
                                .transposed = true};
  net.output(relu(net.apply(twice, {x, weights({16, 8, 3, 2, 4}), weights({8})})), "y");
  const Decided d(net.build(), {{1, 16, 4, 6, 5}}, "kernels");
  EXPECT_EQ(count(d.network(), is_conv3d), 0u);
  EXPECT_EQ(count(d.network(), is_stacked), 1u);
  EXPECT_THAT(to_string(d.plan, d.input), HasSubstr("pingpong stationary volumes, "));
}

TEST(Volumes, WhatIsNotServedSaysWhy) {
  NetworkBuilder net("others");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 40, 6, 5});
  operators::Conv3d grouped = same(3), far = same(3), transposed = same(3);
  grouped.groups = 2, transposed.transposed = true, transposed.dilation = {2, 1, 1};
  far.dilation = {16, 1, 1}, far.before = far.after = {16, 1, 1};
  net.output(relu(net.apply(grouped, {x, weights({16, 8, 3, 3, 3})})), "grouped");
  net.output(relu(net.apply(far, {x, weights({16, 16, 3, 3, 3})})), "far");
  net.output(relu(net.apply(transposed, {x, weights({16, 16, 3, 3, 3})})), "transposed");
  const Decided d(net.build(), {{1, 16, 40, 6, 5}}, "kernels");
  const std::string text = to_string(d.plan, d.input);
  EXPECT_THAT(text, HasSubstr("its filters are in 2 groups"));
  // im2col tiles reach 31 planes; halo tiles, each of a plane, reach all
  EXPECT_THAT(text, AllOf(HasSubstr(" pingpong volumes, "), Not(HasSubstr("mma.sync"))));
  EXPECT_EQ(count(d.network(), is_conv3d), 1u);  // the transposed one
  EXPECT_EQ(refuse_stacking(d.network(), *std::ranges::find_if(d.network().operators,
                                                               [](const Operator& op) { return is_conv3d(op.kind); }))
                ->first(),
            "it is transposed");
}

// A row of pixels is an image of one image row, which the tensor cores multiply, with all that follows in one launch;
// the second reads what the first makes as it lies
TEST(Volumes, RowsOfPixelsAreImages) {
  NetworkBuilder net("rows");
  Weights weights(net);
  NetworkValue x = net.input("x", {2, 16, 33});
  for (const std::int64_t from : {16, 32}) {
    const NetworkValue image = reshape(x, {0, 0, 1, -1});  // as ONNX's Conv of rank 3 is imported
    const NetworkValue y = conv2d(image, weights({32, from, 1, 5}), {.pad = {0, 2, 0, 2}});
    x = relu(reshape(y, {0, 0, -1}) * weights({32, 1}));
  }
  net.output(x, "y");
  const Decided d(net.build(), {{2, 16, 33}}, "kernels");
  EXPECT_EQ(count(d.network(), is_reshape), 2u);
  std::size_t whole = 0, others = 0;
  for (const RegionPlan& r : d.plan.regions) ++(r.contraction && r.contraction->whole ? whole : others);
  EXPECT_EQ(whole, 2u) << to_string(d.plan, d.input);
  EXPECT_EQ(others, 2u);
}

NetworkValue elementwise(NetworkBuilder& net, Op op, std::vector<NetworkValue> inputs, Attributes attr = {}) {
  return net.apply(operators::Elementwise{op, attr}, inputs);
}

// silu(x / max(√Σx², ε))
NetworkValue normalised_channels(NetworkBuilder& net, NetworkValue x) {
  const NetworkValue sum = net.apply(operators::Reduce{ReduceOp::sum, {1}, true}, {elementwise(net, Op::square, {x})});
  Attributes range;
  range.lower = 1e-12, range.upper = 3e38;
  const NetworkValue below = elementwise(net, Op::clamp, {elementwise(net, Op::sqrt, {sum})}, range);
  const NetworkValue y = elementwise(net, Op::div, {x, below});
  return elementwise(net, Op::mul, {y, sigmoid(y)});
}

// A chunk of a video decoder: the convolution with its norm is one launch, which writes its frames behind the cache;
// what is copied is the cache, and frames become images where they lie
TEST(Volumes, CausalChunksCopyTheirCachesAlone) {
  NetworkBuilder net("chunk");
  Weights weights(net);
  const NetworkValue x = net.input("x", {1, 16, 4, 6, 5});
  const NetworkValue cache = reshape(net.input("cache", {1, 16, 12, 5}), {1, 16, 2, 6, 5});
  operators::Conv3d first = same(3), second = same(3);
  first.before = {2, 1, 1}, first.after = {0, 1, 1};
  second.before = second.after = {0, 1, 1};
  const NetworkValue y = normalised_channels(net, net.apply(first, {x, weights({16, 16, 3, 3, 3})}));
  const NetworkValue joined = net.apply(operators::Concat{2}, {cache, y});
  const NetworkValue z = net.apply(second, {joined, weights({16, 16, 3, 3, 3})});
  const NetworkValue frames = reshape(net.apply(operators::Transpose{{0, 2, 1, 3, 4}}, {z}), {4, 16, 6, 5});
  const operators::Slice last{.starts = {2}, .ends = {4}, .steps = {1}, .axes = {2}};
  net.output(reshape(net.apply(last, {y}), {1, 16, 12, 5}), "new_cache");
  net.output(weights.conv(frames, 8), "images");
  const Decided d(net.build(), {{1, 16, 4, 6, 5}, {1, 16, 12, 5}}, "kernels");
  EXPECT_EQ(count(d.network(), is_stacked), 2u);
  EXPECT_EQ(count(d.network(), [](const OperatorKind& k) { return std::holds_alternative<operators::Transpose>(k); }),
            0u);
  std::size_t joins = 0, whole = 0;
  for (std::size_t i = 0; i < d.plan.regions.size(); ++i) {
    whole += d.plan.regions[i].contraction && d.plan.regions[i].contraction->whole ? 1 : 0;
    const Region& r = d.input.fused.regions[i];
    if (!std::holds_alternative<operators::Concat>(d.network().operators[r.operators[0]].kind)) continue;
    ++joins;
    EXPECT_THAT(r.note, Says("1 of 2 inputs … in place"));
  }
  EXPECT_EQ(joins, 1u);
  EXPECT_EQ(whole, 3u) << to_string(d.plan, d.input);
  for (TensorId id = 0; id < d.network().tensors.size(); ++id)
    if (const auto& place = d.input.fused.placement[id]; place && place->column > 0) {
      EXPECT_FALSE(place->slice);
      EXPECT_EQ(place->column, 12 * 5 * 16);
    }
}

}  // namespace
}  // namespace unisono::network::gpu
