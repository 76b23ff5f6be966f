/// What the fuser joins, what it must not, and how it says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cases.hpp"
#include "network/regions.hpp"
#include "support/says.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

using testing::ElementsAre;
using Kind = RegionReport::Kind;

struct Fuser : testing::Test {
  test::Random random{3};
  NetworkBuilder net;
  NetworkValue x = net.input("x", {"n", 8, 6, 6});

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  NetworkValue conv(NetworkValue v, std::int64_t to = 8) {
    return conv2d(v, weights({to, v.shape()[1].value(), 3, 3}), weights({to}), {.pad = 1});
  }
  FusionReport fused(NetworkValue y, bool fuse = true) {
    net.output(y, "y");
    return explain(net.build(), {.fuse = fuse});
  }
};

TEST_F(Fuser, BlockIsOneKernel) {
  const auto r = fused(mish(group_norm(conv(x), {.groups = 4, .scale = weights({8}), .shift = weights({8})})));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.kernels, 1);
  EXPECT_EQ(r.operators, 3);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d", "group_norm", "mish"));
  EXPECT_EQ(r.regions[0].contraction, "conv2d (n,8,6,6) -> 8, 3x3, pad 1");
  EXPECT_EQ(r.regions[0].epilogue,
            "y = mish(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n]))\nstore y : f32\n");
  EXPECT_EQ(r.regions[0].note, "'y' is an output");
}

// A convolution of single pixels runs before the upsampling, except where that would keep something from being fused
TEST_F(Fuser, ConvolutionOfPixelsComesBeforeItsImageGrows) {
  const NetworkValue narrow = conv2d(upsample(x), weights({4, 8, 1, 1}), weights({4}));
  const auto r = fused(concat({narrow, upsample(x)}));
  ASSERT_EQ(r.regions.size(), 4u);
  EXPECT_EQ(r.regions[0].contraction, "conv2d (n,8,6,6) -> 4, 1x1");
  EXPECT_EQ(r.regions[1].contraction, "resize nearest (n,4,6,6) -> (n,4,12,12)");
}
// A convolution takes the small image where it may run by phases, for a backend that can
TEST_F(Fuser, ImagesAreUpsampledByTheConvolution) {
  net.output(conv2d(upsample(x), weights({16, 8, 3, 3}), {.pad = 1}), "y");
  const Network given = net.build(), n = network::legalise(given, true);
  ASSERT_EQ(n.operators.size(), 1u);
  EXPECT_EQ(network::describe(n, n.operators[0]), "conv2d (n,8,6,6) -> 16, 3x3, pad 1, image upsampled 2x2");
  EXPECT_EQ(network::legalise(given).operators.size(), 2u);
}
TEST_F(Fuser, ImagesAreUpsampledAheadOfOtherConvolutions) {
  const NetworkValue large = upsample(x);
  const std::vector<NetworkValue> all{
      conv2d(large, weights({8, 8, 3, 3}), {.pad = 1}) + large,
      conv2d(upsample(x), weights({12, 8, 3, 3}), {.pad = 1}),
      conv2d(upsample(x), weights({8, 8, 3, 3}), {.stride = 2, .pad = 1}),
      conv2d(upsample(x), weights({8, 8, 3, 3}), {.pad = 3}),
      conv2d(upsample(x), weights({8, 4, 3, 3}), {.pad = 1, .groups = 2}),
      conv2d(resize(x, {.mode = ResizeMode::linear, .scale_h = 2, .scale_w = 2}), weights({8, 8, 3, 3}), {.pad = 1}),
      conv2d(resize(x, {.scale_h = 2, .scale_w = 3}), weights({8, 8, 3, 3}), {.pad = 1})};
  for (std::size_t i = 0; i < all.size(); ++i) net.output(all[i], "y" + std::to_string(i));
  std::size_t count = 0;
  for (const Operator& op : network::legalise(net.build(), true).operators)
    count += std::holds_alternative<operators::Resize>(op.kind) ? 1 : 0;
  EXPECT_EQ(count, all.size());
}
TEST_F(Fuser, ConvolutionOfPixelsStaysWhereSomethingJoinsIt) {
  const auto r = fused(relu(conv2d(upsample(x), weights({4, 8, 1, 1}))));
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_EQ(r.regions[1].contraction, "conv2d (n,8,12,12) -> 4, 1x1");
}
TEST_F(Fuser, ConvolutionOfPixelsStaysWhereOthersReadTheLargeImage) {
  const NetworkValue large = upsample(x);
  const auto r = fused(concat({conv2d(large, weights({4, 8, 1, 1})), large}));
  EXPECT_EQ(r.regions[1].contraction, "conv2d (n,8,12,12) -> 4, 1x1");
}

TEST_F(Fuser, TextFormIsParsedBack) {
  net.output(mish(group_norm(conv(x) + x, {.groups = 4})), "y");
  const auto f = network::fuse(net.build());
  for (const auto& region : f.regions) EXPECT_TRUE(structurally_equal(parse(print(region.graph)), region.graph));
}

TEST_F(Fuser, ResidualOfAnEarlierTensorJoins) {
  const auto r = fused(relu(conv(relu(conv(x))) + x));
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_THAT(r.regions[1].operators, ElementsAre("conv2d", "add", "relu"));
  EXPECT_NE(r.regions[1].epilogue.find("x[m,n]"), std::string::npos);
}

// Both convolutions, whose taps differ, could take the addition; one does, and the other's result is its operand
TEST_F(Fuser, SumOfTwoConvolutionsJoinsTheLast) {
  const auto dilated = conv2d(x, weights({8, x.shape()[1].value(), 3, 3}), {.pad = 2, .dilation = 2});
  const auto r = fused(relu(dilated + conv(x)));
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d"));
  EXPECT_THAT(r.regions[1].operators, ElementsAre("conv2d", "add", "relu"));
}

// a = conv, b = conv, a + b and b·a: joining one to each would make the two regions wait for each other
TEST_F(Fuser, NoCycleOfRegions) {
  auto a = conv(x), b = conv(x);
  auto p = relu(a) + b, q = relu(b) * a;
  net.output(p, "p");
  const auto r = fused(q);
  std::size_t operators = 0;
  for (const auto& region : r.regions) operators += region.operators.size();
  EXPECT_EQ(operators, 6u);  // every operator stands in one region
}

// A region that begins before another operand and ends behind it: the operand's mean needs a, whose region needs p
TEST_F(Fuser, NoCycleThroughARegionThatEndsLater) {
  const NetworkValue other = net.input("z", {"n", 8, 6, 6});
  const NetworkValue a = relu(x), mean = global_average_pool(a), p = tanh(other);
  net.output(a * p, "product");
  const auto r = fused(p + mean);
  ASSERT_EQ(r.regions.size(), 4u);
  EXPECT_EQ(r.regions[0].operators.size() + r.regions[1].operators.size(), 3u);
}

TEST_F(Fuser, RawValueThatASkipNeedsIsASecondOutput) {
  auto h = conv(x);
  auto y = relu(h);
  net.output(max_pool(h), "pooled");
  const auto r = fused(y);
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d", "relu"));
  EXPECT_EQ(r.regions[0].outputs.size(), 2u);
  EXPECT_EQ(r.regions[0].epilogue, "y2 = acc + bias[n]\ny = relu(y2)\nstore y : f32\nstore y2 : f32\n");
}

TEST_F(Fuser, OperandThatNeedsTheRegionStaysOutside) {
  auto h = conv(x);
  auto gate = sigmoid(conv(global_average_pool(h)));
  const auto r = fused(h * gate);  // the gate is made of the whole of h
  ASSERT_EQ(r.regions.size(), 4u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d"));
  EXPECT_NE(r.regions[0].note.find("needs this region's result"), std::string::npos) << r.regions[0].note;
  EXPECT_EQ(r.regions[3].kind, Kind::epilogue);
  EXPECT_EQ(r.regions[3].epilogue, "y = acc * sigmoid_3[b,n]\nstore y : f32\n");
}

TEST_F(Fuser, PerImageVectorJoins) {
  auto time = net.input("time", {"n", 8, 1, 1});
  const auto r = fused(silu(conv(x) + time));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.regions[0].epilogue, "y = silu(acc + bias[n] + time[b,n])\nstore y : f32\n");
}

TEST_F(Fuser, AnotherShapeDoesNotJoin) {
  const auto r = fused(conv2d(x, weights({1, 8, 1, 1})) * x);  // (n,1,6,6)·(n,8,6,6)
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d"));
  EXPECT_NE(r.regions[0].note.find("has shape (n,8,6,6), the region (n,1,6,6)"), std::string::npos)
      << r.regions[0].note;
}

TEST_F(Fuser, OperandThatNoAxesDescribeIsExpanded) {
  const auto r = fused(conv(x) + weights({6}));  // along the columns of pixels
  ASSERT_EQ(r.regions.size(), 2u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("expand"));
  EXPECT_THAT(r.regions[1].operators, ElementsAre("conv2d", "add"));
}

TEST_F(Fuser, GemmTakesRowsAndColumns) {
  auto a = net.input("a", {"rows", 4});
  auto scale = net.input("scale", {"rows", 1});
  const auto r = fused(softmax(gelu(gemm(a, weights({4, 8}), {.bias = weights({8})})) * scale));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.regions[0].contraction, "gemm (rows,4) -> (rows,8)");
  EXPECT_NE(r.regions[0].epilogue.find("scale[m]"), std::string::npos) << r.regions[0].epilogue;
}

TEST_F(Fuser, BatchNormIsFoldedIntoScaleAndShift) {
  auto n = batch_norm(conv(x), weights({8}), weights({8}), weights({8}),
                      net.constant("var", {8}, std::vector<float>(8, 2.f)));
  const auto r = fused(relu(n));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_THAT(r.regions[0].operators, ElementsAre("conv2d", "mul", "add", "relu"));
}

TEST_F(Fuser, FoldedBatchNormHasTheRightNumbers) {
  auto v = net.input("v", {2, 1});
  net.output(batch_norm(v, net.constant("g", {1}, {3}), net.constant("b", {1}, {0.5}), net.constant("m", {1}, {4}),
                        net.constant("var", {1}, {0.25f}), 0),
             "y");
  const auto out =
      test::run(compile(net.build()), {{"x", {{1, 8, 6, 6}, std::vector<float>(288)}}, {"v", {{2, 1}, {4, 5}}}});
  EXPECT_EQ(out.at("y").data, (std::vector<float>{0.5f, 6.5f}));  // (v − 4)/0.5·3 + 0.5
}

// Weights that the caller gives with each run: the vectors are one kernel, and the image's is one as with constants
TEST_F(Fuser, BatchNormOfGivenVectorsIsOneKernelAhead) {
  std::vector<NetworkValue> given;
  test::HostTensors inputs{{"x", test::random_tensor(random, {2, 8, 6, 6})}};
  for (const char* name : {"scale", "shift", "mean", "variance"}) {
    given.push_back(net.input(name, {8}));
    inputs.emplace(name, test::random_tensor(random, {8}, 0.5, 2));
  }
  const auto r = fused(relu(batch_norm(conv(x), given[0], given[1], given[2], given[3])));
  EXPECT_EQ(r.kernels, 2) << to_string(r);
  test::expect_agreement(net.build(), inputs, test::run(compile(net.build()), inputs));
}

TEST_F(Fuser, ProductsByTheTransposeOfAGivenMatrixReadTheMatrix) {
  const NetworkValue a = net.input("a", {3, 4}), w = net.input("w", {8, 4}), kept = net.input("kept", {4, 8});
  const NetworkValue turned = transpose(kept, {1, 0});
  net.output(turned, "turned");
  net.output(gemm(gemm(a, transpose(w, {1, 0})), turned), "z");
  const auto r = fused(gemm(a, turned, {.transpose_b = true}));  // the transpose of the transpose
  EXPECT_EQ(r.kernels, 4) << to_string(r);                       // three products, and the output
  const test::HostTensors inputs{{"x", test::random_tensor(random, {1, 8, 6, 6})},
                                 {"a", test::random_tensor(random, {3, 4})},
                                 {"w", test::random_tensor(random, {8, 4})},
                                 {"kept", test::random_tensor(random, {4, 8})}};
  test::expect_agreement(net.build(), inputs, test::run(compile(net.build()), inputs));
}

TEST_F(Fuser, WithoutFusionEveryOperatorStandsAlone) {
  const auto r = fused(mish(group_norm(conv(x), {.groups = 4})), false);
  EXPECT_EQ(r.kernels, 3);
}

TEST_F(Fuser, ConcatenationIsFreeWhereItsProducersCanWriteIntoIt) {
  const auto r = fused(concat({relu(conv(x)), max_pool(x, {.kernel = 3, .stride = 1, .pad = 1})}));
  ASSERT_EQ(r.regions.size(), 3u);
  EXPECT_EQ(r.regions[2].kind, Kind::free);
}

TEST_F(Fuser, ConcatenationCopiesWhatItCannotPlace) {
  auto h = conv(x);
  const auto r = fused(concat({h, h, x}));  // twice the same, and an input
  EXPECT_EQ(r.regions[1].kind, Kind::single);
  EXPECT_THAT(r.regions[1].note, Says("0 of 3 inputs … in place"));
}

TEST_F(Fuser, ConcatenationOfOneTensorIsThatTensor) {
  const auto r = fused(relu(concat({conv(x)})));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.regions[0].kind, Kind::contraction);
}

TEST_F(Fuser, DeadOperatorsAndIdentitiesGo) {
  (void)conv(x);
  const auto r = fused(relu(identity(identity(x))));
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.regions[0].kind, Kind::epilogue);
}

TEST_F(Fuser, WhatIsReadForItsShapeAloneIsStored) {
  net.output(net.apply(operators::Expand{}, {net.input("scale", {1, 8, 1, 1}), tanh(conv(x) + 1.0)}), "y");
  const Network n = net.build();
  const test::HostTensors inputs{{"x", test::random_tensor(random, {2, 8, 6, 6})},
                                 {"scale", test::random_tensor(random, {1, 8, 1, 1})}};
  for (const bool fuse : {true, false})
    test::expect_agreement(n, inputs, test::run(compile(n, {.fuse = fuse}), inputs));
}

TEST_F(Fuser, ReportIsForPeople) {
  const auto text = to_string(fused(max_pool(relu(conv(x)))));
  EXPECT_THAT(
      text,
      Says(
          "3 operators in 2 kernels\n    1  conv2d (n,8,6,6) -> 8, 3x3, pad 1   [conv2d + relu]\n         y = relu(acc "
          "+ bias[n])\n         store y : f32\n       -> relu_1   (max_pool 'max_pool_2' reads windows of pixels)\n    "
          "2  max_pool (n,8,6,6) -> (n,8,3,3)\n       -> y   (cannot … epilogue: it reads windows of pixels)\n"));
}

}  // namespace
}  // namespace unisono
