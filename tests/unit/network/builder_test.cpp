/// The builder, shape inference, and what wrong use says.

#include <gtest/gtest.h>

#include "cases.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::user_error;

std::vector<float> zeros(std::int64_t n) { return std::vector<float>(static_cast<std::size_t>(n), 0.f); }

struct Builder : testing::Test {
  NetworkBuilder net;
  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), zeros(element_count(shape)));
  }
  std::string shape_of(NetworkValue v) { return to_string(v.shape()); }
};

TEST_F(Builder, ShapesOfConvolutions) {
  auto x = net.input("x", {"batch", 3, 32, "width"});
  EXPECT_EQ(shape_of(conv2d(x, weights({16, 3, 3, 3}), {.pad = 1})), "(batch,16,32,width)");
  EXPECT_EQ(shape_of(conv2d(x, weights({16, 3, 3, 3}), {.stride = 2, .pad = 1})), "(batch,16,16,(width+1)/2)");
  EXPECT_EQ(shape_of(conv2d(x, weights({6, 1, 5, 3}), {.dilation = {2, 1}, .groups = 3})), "(batch,6,24,width-2)");
  EXPECT_EQ(shape_of(conv_transpose2d(x, weights({3, 4, 2, 2}), {.stride = 2})), "(batch,4,64,width*2)");
}

TEST_F(Builder, ShapesOfPoolingAndResize) {
  auto x = net.input("x", {"n", 3, 7, "w"});
  EXPECT_EQ(shape_of(max_pool(x)), "(n,3,3,w/2)");
  EXPECT_EQ(shape_of(max_pool(x, {.kernel = 2, .stride = 2, .ceil_mode = true})), "(n,3,4,(w+1)/2)");
  EXPECT_EQ(shape_of(max_pool(max_pool(x))), "(n,3,1,w/4)");
  EXPECT_EQ(shape_of(max_pool(max_pool(x, {.stride = 2, .pad = 1}))), "(n,3,2,(w+2)/4)");
  EXPECT_EQ(shape_of(upsample(max_pool(x))), "(n,3,6,(w/2)*2)");
  EXPECT_EQ(shape_of(resize(x, {.scale_h = 0.5, .width = 9})), "(n,3,3,9)");
  EXPECT_EQ(shape_of(global_average_pool(x)), "(n,3,1,1)");
  // the last window would start in the padding on the right
  auto y = net.input("y", {1, 1, 4, 4});
  EXPECT_EQ(shape_of(average_pool(y, {.kernel = 2, .stride = 3, .pad = 1, .ceil_mode = true})), "(1,1,2,2)");
}

TEST_F(Builder, ShapesOfReshapes) {
  auto x = net.input("x", {"n", 4, 3, 3});
  EXPECT_EQ(shape_of(reshape(x, {0, 2, -1})), "(n,2,18)");
  EXPECT_EQ(shape_of(reshape(x, {-1, 36})), "(n,36)");
  EXPECT_EQ(shape_of(flatten(x)), "(n,36)");
  EXPECT_EQ(shape_of(flatten(x, 2)), "(n*4,9)");
  EXPECT_EQ(shape_of(transpose(x, {1, 0, 3, 2})), "(4,n,3,3)");
  EXPECT_EQ(shape_of(pad(x, {0, 1, 2, 0}, {0, 0, -1, 3})), "(n,5,4,6)");
  EXPECT_EQ(shape_of(concat({x, x}, 0)), "(n+n,4,3,3)");
  EXPECT_EQ(shape_of(concat({x, x, x})), "(n,12,3,3)");
}

TEST_F(Builder, Broadcasting) {
  auto x = net.input("x", {"n", 4, 3, 5});
  EXPECT_EQ(shape_of(x * 2), "(n,4,3,5)");
  EXPECT_EQ(shape_of(weights({4, 1, 1}) + x), "(n,4,3,5)");
  EXPECT_EQ(shape_of(net.input("a", {"n", 4, 1, 1}) - net.input("b", {"n", 1, 3, 5})), "(n,4,3,5)");
  EXPECT_EQ(user_error([&] { (void)(x + weights({4})); }),
            "add 'add_3': shapes (n,4,3,5) and (4) do not broadcast: extents 5 and 4 differ and neither is 1");
}

TEST_F(Builder, ErrorsNameOperatorNodeAndShapes) {
  auto x = net.input("x", {"n", 4, 8, 8});
  EXPECT_EQ(user_error([&] {
              conv2d(x, weights({8, 3, 3, 3}));
            }),
            "conv2d 'conv2d_0': input 'x' (n,4,8,8) has 4 channels, and filter 'w' (8,3,3,3) takes 3 (groups=1)");
  EXPECT_THAT(user_error([&] {
                conv2d(x, weights({8, 4, 9, 9}));
              }),
              Says("conv2d 'conv2d_0': a window of 9 … extent of 8 with 0 of padding"));
  EXPECT_THAT(user_error([&] {
                conv2d(x, weights({6, 1, 3, 3}), {.groups = 4});
              }),
              Says("conv2d 'conv2d_0': 4 input and 6 output channels … groups=4; both must be multiples"));
  EXPECT_THAT(user_error([&] { group_norm(x, {.groups = 3}); }),
              Says("group_norm 'group_norm_0': 4 channels … 3 equal groups"));
  EXPECT_EQ(user_error([&] { group_norm(x, {.groups = 2, .scale = weights({3})}); }),
            "group_norm 'group_norm_0': scale 'w' has shape (3); expected (4)");
  EXPECT_THAT(user_error([&] { max_pool(x, {.kernel = 2, .stride = 2, .pad = 2}); }),
              Says("max_pool 'max_pool_0': pad 2,2,2,2 is not below … 2x2"));
  EXPECT_THAT(user_error([&] {
                concat({x, net.input("y", {"n", 4, 8, 7})});
              }),
              Says("concat 'concat_0': input 'y' (n,4,8,7) does not match 'x' (n,4,8,8) … axis 1"));
  EXPECT_EQ(user_error([&] { reshape(x, {0, 3, -1}); }), "reshape 'reshape_0': (n,4,8,8) does not reshape to (0,3,-1)");
  EXPECT_EQ(user_error([&] {
              reshape(net.input("z", {2, 4}), {3, -1});
            }),
            "reshape 'reshape_0': (2,4) does not reshape to (3,-1)");
  EXPECT_EQ(user_error([&] {
              gemm(x, weights({4, 4}));
            }),
            "gemm 'gemm_0': left operand 'x' has shape (n,4,8,8); expected (M,K) or (B,M,K); reshape it");
  EXPECT_EQ(user_error([&] { clamp(x, 2, 1); }),
            "clamp 'clamp_0': clamp was given lower=2 and upper=1; expected lower <= upper");
}

TEST_F(Builder, ConvolutionsAreCheckedAsContractionsAre) {
  auto x = net.input("x", {"n", 4, 8, 8});
  EXPECT_EQ(shape_of(conv2d(x, weights({6, 4, 3, 3}), weights({6}), {.stride = 2, .pad = 1})), "(n,6,4,4)");
  EXPECT_EQ(shape_of(conv_transpose2d(x, weights({4, 6, 3, 3}), weights({6}), {.stride = 2, .output_pad = {1, 0}})),
            "(n,6,18,17)");
  EXPECT_EQ(user_error([&] {
              conv2d(x, weights({6, 4, 3, 3}), {.stride = {2, 0}});
            }),
            "conv2d 'conv2d_2': stride is 2x0; expected 1 to 2^24");
  EXPECT_EQ(user_error([&] {
              conv2d(x, weights({6, 4, 3, 3}), {.output_pad = 1});
            }),
            "conv2d 'conv2d_2': output_pad is 1x1; expected 0: only conv_transpose2d has one");
  EXPECT_EQ(
      user_error([&] {
        conv_transpose2d(x, weights({4, 6, 3, 3}), {.stride = 2, .output_pad = 2});
      }),
      "conv_transpose2d 'conv_transpose2d_2': output_pad is 2x2; expected 0 to below max(stride, dilation) = 2x2");
  EXPECT_EQ(user_error([&] {
              conv2d(x, weights({6, 4, 3, 3}), {.groups = 0});
            }),
            "conv2d 'conv2d_2': groups is 0; expected 1 to 2^31");
}

TEST_F(Builder, WhatOnlyTheLibraryWritesIsRefused) {
  auto x = net.input("x", {1, 4, 8, 8});
  const std::string rows = "PixelReshape … write Transpose and Reshape";
  EXPECT_THAT(user_error([&] {
                net.apply(operators::UpsampledConv2d{}, {x, weights({4, 4, 1, 1})}, "c");
              }),
              Says("conv2d 'c': UpsampledConv2d … write Resize and Conv2d"));
  EXPECT_THAT(user_error([&] { net.apply(operators::PixelReshape{{64, 4}}, {x}, "r"); }), Says("reshape 'r': " + rows));
  EXPECT_THAT(user_error([&] {
                net.apply(operators::StackedConv3d{}, {x, weights({4, 4, 1, 1})}, "v");
              }),
              Says("conv3d 'v': StackedConv3d … write Conv3d"));
  EXPECT_THAT(user_error([&] {
                net.apply(operators::Attention{}, {x, x, x}, "a");
              }),
              Says("attention 'a': Attention … write MatMul and Softmax"));
  EXPECT_THAT(user_error([&] {
                net.apply(operators::NormGradient{}, {x, x}, "n");
              }),
              Says("norm_gradient 'n': NormGradient … see gradients()"));
  net.output(reshape(x, {64, 4}), "y");
  Network n = net.build();
  n.operators[0].kind = operators::PixelReshape{{64, 4}};
  EXPECT_THAT(user_error([&] { verify(n); }), Says("reshape '" + n.operators[0].name + "': " + rows));
}

TEST_F(Builder, ConstantsAndOutputs) {
  EXPECT_EQ(user_error([&] {
              net.constant("c", {2, 3}, zeros(5));
            }),
            "constant 'c' was given 5 elements; shape (2,3) takes 6");
  EXPECT_EQ(user_error([&] { net.build(); }), "network 'network' has no output");
  auto x = net.input("x", {2, 3});
  net.output(x, "same");
  EXPECT_EQ(user_error([&] { net.output(relu(x), "same"); }), "output 'same' is given twice; give one another name");
  EXPECT_EQ(net.build().operators.size(), 2u);  // the identity, and the relu that nothing reads
  NetworkBuilder other;
  EXPECT_THAT(user_error([&] { (void)(x + other.input("y", {2, 3})); }), Says("add 'add_2' … another NetworkBuilder"));
}

TEST_F(Builder, HugeShapesAreRefused) {
  auto x = net.input("x", {1, 1, 1 << 20, 1 << 20});
  EXPECT_EQ(user_error([&] { upsample(x, 1024.0); }),
            "resize nearest 'resize_nearest_0': shape (1,1,1073741824,1073741824) has more than 2^46 elements");
  EXPECT_EQ(user_error([&] { upsample(x, 0.0); }),
            "resize nearest 'resize_nearest_0': scale is 0; expected above 0, up to 2^20");
  const std::int64_t large = std::int64_t{1} << 31;  // no elements, and strides that no number holds
  const std::string empty = user_error([&] {
    pad(net.input("empty", {0, large, large, large}), {0, 0, 0, 0}, {0, 0, 0, 0});
  });
  EXPECT_NE(empty.find("shape (0,2147483648,2147483648,2147483648) has more than 2^46 elements"), std::string::npos)
      << empty;
}

TEST_F(Builder, VerifyFindsBrokenNetworks) {
  net.output(relu(net.input("x", {2, 3})), "y");
  Network n = net.build();
  Network cyclic = n;
  cyclic.operators[0].inputs[0] = cyclic.operators[0].output;
  EXPECT_THAT(user_error([&] { verify(cyclic); }), Says("relu 'relu_0' reads a tensor … nothing before"));
  Network wrong = n;
  wrong.tensors[wrong.outputs[0]].shape = {3, 2};
  EXPECT_EQ(user_error([&] { verify(wrong); }), "relu 'relu_0' makes shape (2,3); its output 'y' is declared (3,2)");
  Network twice = n;
  twice.operators.push_back(twice.operators[0]);
  EXPECT_THAT(user_error([&] { verify(twice); }), Says("relu 'relu_0' writes a tensor … another source"));
}

}  // namespace
}  // namespace unisono
