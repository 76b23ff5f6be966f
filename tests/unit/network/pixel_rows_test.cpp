/// Values between permutes of an image as rows of matrices, and constants that are computed ahead.

#include <gtest/gtest.h>

#include <cstring>

#include "cases.hpp"
#include "network/regions.hpp"

namespace unisono {
namespace {

struct PixelRows : testing::Test {
  test::Random random{5};
  NetworkBuilder net;

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  NetworkValue integers(std::vector<std::int64_t> x, Shape shape) {
    std::vector<std::byte> bytes(x.size() * sizeof(std::int64_t));
    std::memcpy(bytes.data(), x.data(), bytes.size());
    return net.constant("i", std::move(shape), DType::i64, std::move(bytes));
  }
  NetworkValue multiply(NetworkValue a, NetworkValue b) { return net.apply(operators::MatMul{}, {a, b}); }
  NetworkValue slice(NetworkValue x, int axis, std::int64_t from, std::int64_t to) {
    return net.apply(operators::Slice{{from}, {to}, {1}, {axis}}, {x});
  }
  // How many operators are left once the network is ready; it agrees with the float64 reference
  std::size_t operators_of(std::vector<std::int64_t> input) {
    const Network n = net.build();
    const test::HostTensors inputs{{"x", test::random_tensor(random, std::move(input))}};
    for (const bool fuse : {true, false})
      test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2, .fuse = fuse}), inputs));
    return network::legalise(n).operators.size();
  }
  int kernels() const { return explain(net.build()).kernels; }
};

// As torch writes a block of ConvNeXt
TEST_F(PixelRows, ABlockBetweenPermutesIsFourKernels) {
  const NetworkValue x = relu(net.input("x", {2, 8, 5, 6}));
  const NetworkValue spatial = conv2d(x, weights({8, 1, 3, 3}), {.pad = 1, .groups = 8});
  const NetworkValue rows = layer_norm(reshape(transpose(spatial, {0, 2, 3, 1}), {60, 8}));
  const NetworkValue image = reshape(rows, {2, 5, 6, 8}) * weights({8}) + weights({1, 1, 1, 8});
  const NetworkValue wide = reshape(gemm(reshape(image, {60, 8}), weights({8, 16})), {2, 5, 6, 16});
  const NetworkValue hidden = reshape(mish(wide + weights({16})), {60, 16});
  const NetworkValue back =
      transpose(reshape(gemm(hidden, weights({16, 8})), {2, 5, 6, 8}) + weights({8}), {0, 3, 1, 2});
  net.output(max_pool(back * weights({8, 1, 1}) + x), "y");
  operators_of({2, 8, 5, 6});
  EXPECT_EQ(kernels(), 6);  // with what stands before and behind the block
}

// The scale of the layer and a reshaped matrix are given with each run
TEST_F(PixelRows, GivenVectorsAndViewsOfInputsAreNoKernels) {
  const NetworkValue x = net.input("x", {2, 8, 5, 6}), scale = net.input("scale", {8}), w = net.input("w", {4, 2, 8});
  const NetworkValue pixels = reshape(transpose(relu(x), {0, 2, 3, 1}), {60, 8});
  const NetworkValue image = reshape(gemm(pixels, reshape(w, {8, 8})), {2, 5, 6, 8});
  net.output(max_pool(transpose(image, {0, 3, 1, 2}) * reshape(scale, {1, 8, 1, 1}) + x), "y");
  net.output(reshape(scale, {2, 4}), "z");
  const Network n = net.build();
  const test::HostTensors inputs{{"x", test::random_tensor(random, {2, 8, 5, 6})},
                                 {"scale", test::random_tensor(random, {8})},
                                 {"w", test::random_tensor(random, {4, 2, 8})}};
  for (const bool fuse : {true, false})
    test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2, .fuse = fuse}), inputs));
  EXPECT_EQ(kernels(), 4) << to_string(explain(n));  // the activation, the product with all behind it, the pool, z
}

TEST_F(PixelRows, WhatOthersReadIsWrittenOut) {
  const NetworkValue x = net.input("x", {2, 3, 4, 5});
  const NetworkValue pixels = transpose(relu(x), {0, 2, 3, 1});
  const NetworkValue scaled = pixels * weights({3});
  net.output(scaled, "y");
  net.output(transpose(scaled, {0, 3, 1, 2}), "image");
  net.output(reshape(scaled, {2, 4, 15}), "lines");
  net.output(transpose(scaled, {0, 2, 1, 3}), "turned");
  net.output(softmax(reshape(pixels, {40, 3})), "classes");
  net.output(scaled + transpose(weights({2, 4, 3, 5}), {0, 1, 3, 2}), "sum");
  net.output(mish(pixels + weights({4, 5, 1})), "plane");
  EXPECT_GT(operators_of({2, 3, 4, 5}), 8u);
}

TEST_F(PixelRows, WindowsOfAnImage) {
  const NetworkValue x = net.input("x", {1, 6, 4, 8});
  const NetworkValue rows = layer_norm(reshape(transpose(relu(x), {0, 2, 3, 1}), {32, 6}));
  const NetworkValue image = reshape(rows, {1, 4, 8, 6}) * weights({6});
  const NetworkValue windows = transpose(reshape(image, {1, 2, 2, 4, 2, 6}), {0, 1, 3, 2, 4, 5});
  const NetworkValue matrix = gemm(reshape(windows, {32, 6}), weights({6, 6}));
  const NetworkValue whole = transpose(reshape(matrix, {1, 2, 4, 2, 2, 6}), {0, 1, 3, 2, 4, 5});
  net.output(transpose(reshape(whole, {1, 4, 8, 6}) + image, {0, 3, 1, 2}), "y");
  operators_of({1, 6, 4, 8});
}

// Scores of rank 4 would lie in memory with the heads innermost
TEST_F(PixelRows, AttentionWorksOnMatricesInOrder) {
  const NetworkValue x = net.input("x", {2, 6, 8});
  const auto heads = [&] {
    return transpose(reshape(gemm(reshape(x, {12, 8}), weights({8, 8})), {2, 6, 4, 2}), {0, 2, 1, 3});
  };
  const NetworkValue scores = multiply(heads(), transpose(heads(), {0, 1, 3, 2})) + weights({4, 6, 6});
  const NetworkValue shares = reshape(softmax(reshape(scores + weights({2, 1, 1, 6}), {48, 6})), {2, 4, 6, 6});
  const NetworkValue mixed = transpose(multiply(shares, heads()), {0, 2, 1, 3});
  net.output(gemm(reshape(mixed, {12, 8}), weights({8, 8})), "y");
  operators_of({2, 6, 8});
  const Network n = network::legalise(net.build());
  for (const Operator& op : n.operators)
    EXPECT_TRUE(op.kind != OperatorKind(operators::MatMul{}) || n[op.output].shape.size() == 5);
}

// As torch writes attention by cosine (Swin V2): the three parts of a product by indices, each divided by its lengths,
// which are repeated along the columns first
TEST_F(PixelRows, AttentionByCosineIsNeitherRepeatedNorTurned) {
  const NetworkValue x = net.apply(operators::Pad{{0, 0, 0}, {0, 0, 0}}, {net.input("x", {3, 6, 8})});
  const NetworkValue parts =
      transpose(reshape(gemm(reshape(x, {18, 8}), weights({8, 24})), {3, 6, 3, 4, 2}), {2, 0, 3, 1, 4});
  const auto part = [&](std::int64_t i) {
    const NetworkValue at = integers({i}, Shape{});
    return net.apply(operators::Gather{0}, {parts, at});
  };
  const auto direction = [&](const NetworkValue& v) {
    const NetworkValue length = net.apply(operators::Reduce{ReduceOp::l2, {3}, true}, {v});
    return v / net.apply(operators::Tile{{1, 1, 1, 2}}, {length + weights({1})});
  };
  const NetworkValue keys = transpose(direction(part(1)), {0, 1, 3, 2});
  const NetworkValue scores = multiply(direction(part(0)), keys) * weights({4, 1, 1});
  const NetworkValue shares = reshape(softmax(reshape(scores, {72, 6})), {3, 4, 6, 6});
  net.output(reshape(transpose(multiply(shares, part(-1)), {0, 2, 1, 3}), {18, 8}), "y");
  operators_of({3, 6, 8});
  const Network n = network::legalise(net.build());
  for (const Operator& op : n.operators) {
    EXPECT_FALSE(std::holds_alternative<operators::Tile>(op.kind));
    EXPECT_FALSE(std::holds_alternative<operators::Gather>(op.kind));
    EXPECT_FALSE(std::holds_alternative<operators::Expand>(op.kind));  // a factor of each head
    EXPECT_FALSE(std::holds_alternative<operators::Pad>(op.kind));
    EXPECT_NE(n[op.output].shape.size(), 4u) << op.name;
  }
}

TEST_F(PixelRows, AReductionOfMatricesAsANumber) {
  const NetworkValue x = net.input("x", {2, 7, 56});
  const NetworkValue images = reshape(x, {2, 7, 8, 7});
  const NetworkValue largest = net.apply(operators::Reduce{ReduceOp::max, {0, 1, 2, 3}, true}, {images});
  net.output(relu(images) * net.apply(operators::Reshape{.shape = {}, .literal = true}, {largest}), "y");
  net.output(net.apply(operators::Reshape{.shape = {}, .literal = true}, {largest}), "largest");
  operators_of({2, 7, 56});
}

// What another operator reads, or gives the result its shape, is repeated all the same; an index outside is an error
// As the gradient of a group normalisation has them: they lie in either order, and the image stays as it is
TEST_F(PixelRows, ANumberForEachChannelGivesAnImageNoOrder) {
  const NetworkValue x = relu(net.input("x", {2, 6, 4, 5}));
  const NetworkValue each = net.apply(operators::Reduce{.op = ReduceOp::mean, .axes = {2, 3}}, {x});
  const NetworkValue groups =
      net.apply(operators::Reduce{.op = ReduceOp::mean, .axes = {2}}, {reshape(each, {2, 3, 2})});
  const NetworkValue numbers = reshape(groups * weights({2, 3, 2}), {2, 6, 1, 1});
  net.output(square(x - numbers), "y");
  operators_of({2, 6, 4, 5});
  for (const NetworkTensor& t : network::legalise(net.build()).tensors) EXPECT_LE(t.shape.size(), 4u) << t.name;
}

TEST_F(PixelRows, RepeatedOperandsThatAreNeeded) {
  const NetworkValue x = net.input("x", {2, 3, 1});
  const NetworkValue wide = net.apply(operators::Tile{{1, 1, 4}}, {relu(x)});
  net.output(wide + weights({3, 1}), "lone");
  const NetworkValue twice = net.apply(operators::Tile{{1, 2, 1}}, {x});
  net.output(twice * weights({6, 1}), "not broadcast");
  const NetworkValue other = net.apply(operators::Tile{{1, 1, 4}}, {mish(x)});
  net.output(other * weights({2, 3, 4}), "sum");
  net.output(other, "other");
  operators_of({2, 3, 1});
  const NetworkValue at = integers({3}, Shape{});
  net.output(net.apply(operators::Gather{1}, {x, at}), "outside");
  const test::HostTensors inputs{{"x", test::random_tensor(random, {2, 3, 1})}};
  EXPECT_THROW(test::run(compile(net.build(), {.threads = 1}), inputs), UserError);
}

// An output, an image and a reduction read the tensor itself
TEST_F(PixelRows, ProductsThatOthersReadInAnotherOrder) {
  const NetworkValue x = net.input("x", {2, 3, 4, 4});
  const NetworkValue product = multiply(reshape(x, {2, 3, 4, 4}), weights({4, 4}));
  const NetworkValue halves = concat({slice(product, 3, 0, 2), slice(product, 3, 2, 4)}, 2);
  net.output(product, "product");
  net.output(halves, "halves");
  net.output(multiply(transpose(reshape(x, {2, 48}), {1, 0}), reshape(x, {2, 48})), "square");
  net.output(max_pool(relu(multiply(weights({3, 4, 4}), x) * weights({2, 3, 4, 1}))), "pooled");
  operators_of({2, 3, 4, 4});
}

// Weights that are standardised when the model runs, as big as they may be
TEST_F(PixelRows, OperatorsOnConstantsAreComputedAhead) {
  const NetworkValue x = net.input("x", {1, 3, 6, 6});
  const NetworkValue rows = layer_norm(reshape(weights({4, 3, 3, 3}), {4, 27}));
  net.output(conv2d(x, reshape(rows * weights({4, 1}), {4, 3, 3, 3}), {.pad = 1}), "y");
  net.output(relu(x) + transpose(reshape(weights({36, 3}), {1, 6, 6, 3}), {0, 3, 1, 2}), "sum");
  EXPECT_EQ(operators_of({1, 3, 6, 6}), 3u);
}

// A table of positions: a small product whose rows are gathered more often than there are
TEST_F(PixelRows, SmallProductsOfConstantsAreComputedAhead) {
  const NetworkValue x = net.input("x", {1, 9, 16});
  const NetworkValue table = gemm(weights({5, 7}), weights({7, 16}));
  const NetworkValue at = integers({0, 1, 2, 3, 4, -1, 1, 0, 3}, Shape{9});
  net.output(relu(x) + net.apply(operators::Gather{0}, {table, at}), "y");
  EXPECT_EQ(operators_of({1, 9, 16}), 2u);
}

}  // namespace
}  // namespace unisono
