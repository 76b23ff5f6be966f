/// Reshapes, permutes, slices and concatenations that follow one another: what is left of them, and what they compute.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cases.hpp"
#include "network/dim.hpp"
#include "network/regions.hpp"

namespace unisono {
namespace {

struct Moves : testing::Test {
  test::Random random{7};
  NetworkBuilder net;

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  NetworkValue slice(NetworkValue x, int axis, std::int64_t from, std::int64_t to, std::int64_t step = 1) {
    return net.apply(operators::Slice{{from}, {to}, {step}, {axis}}, {x});
  }
  // As exporters write torch.roll
  NetworkValue rolled(NetworkValue x, int axis, std::int64_t by) {
    return concat({slice(x, axis, by, 1 << 20), slice(x, axis, 0, by)}, axis);
  }
  // The network as it is run; it agrees with the float64 reference
  Network ready(std::vector<std::int64_t> input) {
    const Network n = net.build();
    const test::HostTensors inputs{{"x", test::random_tensor(random, std::move(input))}};
    for (const bool fuse : {true, false})
      test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2, .fuse = fuse}), inputs));
    return network::legalise(n);
  }
  template <class K>
  static std::ptrdiff_t count(const Network& n) {
    return std::ranges::count_if(n.operators, [](const Operator& o) { return std::holds_alternative<K>(o.kind); });
  }
  int kernels() const { return explain(net.build()).kernels; }
};

// As torch writes the hidden layer of SegFormer: flatten(2).transpose(1, 2) and back
TEST_F(Moves, PixelsAsRowsAndBackAreViews) {
  const NetworkValue x = net.input("x", {2, 8, 5, 6});
  const NetworkValue rows = transpose(reshape(conv2d(x, weights({8, 8, 3, 3}), {.pad = 1}), {2, 8, 30}), {0, 2, 1});
  const NetworkValue wide = gemm(reshape(layer_norm(rows), {60, 8}), weights({8, 16}));
  const NetworkValue image = reshape(transpose(reshape(wide, {2, 30, 16}), {0, 2, 1}), {2, 16, 5, 6});
  const NetworkValue deep = conv2d(image, weights({16, 1, 3, 3}), {.pad = 1, .groups = 16});
  const NetworkValue active = elementwise(Op::gelu, {transpose(reshape(deep, {2, 16, 30}), {0, 2, 1})});
  net.output(gemm(reshape(active, {60, 16}), weights({16, 8})), "y");
  const Network n = ready({2, 8, 5, 6});
  EXPECT_EQ(count<operators::Transpose>(n), 0) << to_string(n);
  EXPECT_EQ(kernels(), 4) << "the activation is part of the convolution, the normalisation of the first";
}

// As a LayerNormalization of 16 bits is imported, whose scale and shift are operators of their own
TEST_F(Moves, ScalesAndShiftsOfColumnsGoWithTheNormalisation) {
  const NetworkValue x = net.input("x", {2, 8, 5, 6});
  const NetworkValue image = conv2d(x, weights({8, 8, 3, 3}), {.pad = 1});
  const NetworkValue rows = reshape(transpose(image, {0, 2, 3, 1}), {60, 8});
  const NetworkValue scaled = elementwise(Op::mul, {layer_norm(rows), weights({8})});
  const NetworkValue shifted = elementwise(Op::add, {weights({1, 8}), scaled});
  net.output(gemm(shifted, weights({8, 16})), "y");
  const NetworkValue pixels = elementwise(Op::mul, {reshape(transpose(image, {0, 2, 3, 1}), {10, 48}), weights({48})});
  net.output(pixels, "z");  // columns of the reshaped tensor are no channels
  ready({2, 8, 5, 6});
  const FusionReport report = explain(net.build());
  const auto convolution =
      std::ranges::find_if(report.regions, [](const RegionReport& r) { return !r.contraction.empty(); });
  EXPECT_THAT(convolution->operators, testing::IsSupersetOf({"layer_norm", "mul", "add"})) << to_string(report);
}

// A window of Swin that is shifted, and back
TEST_F(Moves, ShiftedWindowsAreOneGatherEachWay) {
  const NetworkValue image = reshape(layer_norm(net.input("x", {192, 16})), {2, 8, 12, 16});
  const NetworkValue shifted = rolled(rolled(image, 1, 2), 2, 3);
  const NetworkValue windows = transpose(reshape(shifted, {2, 2, 4, 3, 4, 16}), {0, 1, 3, 2, 4, 5});
  const NetworkValue matrix = gemm(reshape(windows, {192, 16}), weights({16, 16}));
  const NetworkValue whole = transpose(reshape(matrix, {2, 2, 3, 4, 4, 16}), {0, 1, 3, 2, 4, 5});
  const NetworkValue back = rolled(rolled(reshape(whole, {2, 8, 12, 16}), 1, 6), 2, 9);
  net.output(reshape(slice(slice(back, 1, 0, 8), 2, 0, 12), {192, 16}) * 2.0, "y");
  const Network n = ready({192, 16});
  EXPECT_EQ(count<operators::Gather>(n), 2) << to_string(n);
  EXPECT_EQ(count<operators::Slice>(n) + count<operators::Concat>(n) + count<operators::Transpose>(n), 0)
      << to_string(n);
}

// Four pixels side by side, as Swin merges patches
TEST_F(Moves, MergedPatchesAreOneGather) {
  const NetworkValue x = relu(reshape(net.input("x", {96, 16}), {2, 6, 8, 16}));
  const auto part = [&](int i, int j) { return slice(slice(x, 1, i, 6, 2), 2, j, 8, 2); };
  const NetworkValue merged = concat({part(0, 0), part(1, 0), part(0, 1), part(1, 1)}, 3);
  net.output(gemm(reshape(merged, {24, 64}), weights({64, 8})), "y");
  const Network n = ready({96, 16});
  EXPECT_EQ(count<operators::Gather>(n), 1) << to_string(n);
  EXPECT_EQ(count<operators::Slice>(n) + count<operators::Concat>(n), 0) << to_string(n);
}

TEST_F(Moves, WhatMovesNothingIsNoCopy) {
  const NetworkValue x = net.input("x", {2, 8, 5, 6});
  const NetworkValue a = slice(relu(x), 2, 0, 5);
  const NetworkValue b = net.apply(operators::Pad{{0, 0, 0, 0}, {0, 0, 0, 0}}, {transpose(a, {0, 1, 2, 3})});
  net.output(conv2d(net.apply(operators::Tile{{1, 1, 1, 1}}, {b}), weights({8, 8, 1, 1})), "y");
  const Network n = ready({2, 8, 5, 6});
  EXPECT_EQ(n.operators.size(), 2u) << to_string(n);
}

// A slice that turns an axis around has the shape of what it reads
TEST_F(Moves, BackwardsIsAMove) {
  const NetworkValue x = net.input("x", {4, 8});
  net.output(relu(slice(relu(x), 0, -1, -100, -1)), "y");
  EXPECT_EQ(count<operators::Slice>(ready({4, 8})), 1);
}

// The table of the first image would not do for the others
TEST_F(Moves, ImagesInReverseOrderAgree) {
  const NetworkValue x = reshape(relu(net.input("x", {48, 16})), {4, 12, 16});
  net.output(relu(slice(rolled(x, 1, 5), 0, -1, -100, -1)), "y");
  ready({48, 16});
}

// Forty rolls, each read twice by the next one, are followed once
TEST_F(Moves, ManyRollsAreOneGather) {
  NetworkValue x = reshape(relu(net.input("x", {24, 16})), {4, 6, 16});
  for (int i = 0; i < 40; ++i) x = rolled(x, i % 2, 1 + i % 3);
  net.output(relu(reshape(x, {24, 16})), "y");
  const Network n = ready({24, 16});
  EXPECT_EQ(count<operators::Gather>(n), 1) << to_string(n);
  EXPECT_EQ(count<operators::Slice>(n) + count<operators::Concat>(n), 0);
}

TEST_F(Moves, ALongChainIsCutInPieces) {
  NetworkValue x = relu(net.input("x", {2, 3, 4, 5, 6}));
  for (int i = 0; i < 300; ++i) x = transpose(x, {1, 2, 3, 4, 0});
  net.output(relu(x), "y");
  EXPECT_LE(count<operators::Transpose>(ready({2, 3, 4, 5, 6})), 5);
}

// Chains that nobody wrote down, of which every tensor may be read by others too
struct RandomMoves : Moves, testing::WithParamInterface<int> {
  RandomMoves() { random = test::Random(static_cast<std::uint64_t>(GetParam())); }

  std::int64_t pick(std::int64_t below) { return random.below(static_cast<int>(below)); }
  std::vector<int> order_of(std::size_t rank) {
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    for (int i = static_cast<int>(rank); i > 1; --i)
      std::swap(order[static_cast<std::size_t>(i) - 1], order[static_cast<std::size_t>(random.below(i))]);
    return order;
  }
  NetworkValue moved(NetworkValue v) {
    const std::vector<std::int64_t> shape = network::values(v.shape());
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto axis = static_cast<std::size_t>(pick(rank));
    const std::int64_t extent = shape[axis];
    std::vector<std::int64_t> made = shape;
    const auto second = made.begin() + static_cast<std::ptrdiff_t>(axis) + 1;
    switch (pick(7)) {
      case 0: return transpose(v, order_of(shape.size()));
      case 1:  // two axes as one
        if (second == made.end()) return v;
        made[axis] *= *second;
        made.erase(second);
        return reshape(v, made);
      case 2:  // one axis as two
        if (extent % 2 != 0 || rank > 6) return v;
        made.insert(second, 2);
        made[axis] /= 2;
        return reshape(v, made);
      case 3: return extent > 1 ? rolled(v, static_cast<int>(axis), 1 + pick(extent - 1)) : v;
      case 4:
        return concat({slice(v, static_cast<int>(axis), 0, extent, 2),
                       slice(v, static_cast<int>(axis), extent > 1 ? 1 : 0, extent, 2)},
                      static_cast<int>(axis));
      case 5: return slice(v, static_cast<int>(axis), 0, std::max<std::int64_t>(1, extent - 1));
      default: return pick(2) == 0 ? relu(v) : v * 0.5 + v;
    }
  }
};

TEST_P(RandomMoves, Agree) {
  const std::vector<std::int64_t> extents{1 + pick(2), 8 * (1 + pick(2)), 2 * (1 + pick(3)), 2 + 2 * pick(3)};
  NetworkValue x = net.input("x", Shape(extents.begin(), extents.end()));
  if (pick(2) == 0) x = conv2d(x, weights({extents[1], extents[1], 1, 1}));
  std::vector<NetworkValue> made{x};
  for (int step = 0; step < 8; ++step) {
    const std::int64_t back = pick(8) == 0 ? pick(static_cast<std::int64_t>(made.size())) : 0;
    made.push_back(moved(made[made.size() - 1 - static_cast<std::size_t>(back)]));
  }
  net.output(relu(made.back()), "y");
  if (pick(3) == 0) net.output(made[made.size() / 2] * 3.0, "z");
  ready(extents);
  if (HasFailure()) ADD_FAILURE() << to_string(net.build()) << to_string(network::legalise(net.build()));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomMoves, testing::Range(0, 150));

// x[:, 1:, :2] = y, by a table of all tuples and as torch writes it; x[:] = y is y
TEST_F(Moves, AssignedRangesAreConcatenations) {
  const auto numbers = [&](Shape shape, const std::vector<std::int64_t>& all) {
    std::vector<std::byte> bytes(all.size() * sizeof(std::int64_t));
    std::memcpy(bytes.data(), all.data(), bytes.size());
    return net.constant("n", std::move(shape), DType::i64, std::move(bytes));
  };
  const NetworkValue x = net.input("x", {2, 3, 5, 4}), part = relu(slice(slice(x, 1, 0, 2), 2, 2, 4));
  std::vector<std::int64_t> tuples;
  for (const std::int64_t a : {0, 1})
    for (const std::int64_t b : {1, 2})
      for (const std::int64_t c : {0, 1}) tuples.insert(tuples.end(), {a, b, c});
  net.output(net.apply(operators::ScatterND{}, {x, numbers({2, 2, 2, 3}, tuples), part}), "by a table");
  const auto component = [&](Shape shape, const std::vector<std::int64_t>& all, std::vector<std::int64_t> repeats) {
    return reshape(net.apply(operators::Tile{std::move(repeats)}, {numbers(std::move(shape), all)}), {2, 2, 2, 1});
  };
  const NetworkValue joined = concat({component({2, 1, 1}, {0, 1}, {1, 2, 2}), component({1, 2, 1}, {1, 2}, {2, 1, 2}),
                                      component({1, 1, 2}, {0, 1}, {2, 2, 1})},
                                     3);
  net.output(net.apply(operators::ScatterND{}, {x, joined, part}), "by components");
  net.output(net.apply(operators::ScatterND{}, {x, numbers({2, 1}, {0, 1}), x * 2.0}), "whole");
  net.output(net.apply(operators::ScatterND{}, {x, numbers({2, 1}, {1, 0}), x * 3.0}), "turned");
  ready({2, 3, 5, 4});
  const Network n = network::fuse(net.build()).network;
  EXPECT_EQ(count<operators::ScatterND>(n), 1) << "the one in another order\n" << to_string(n);
  EXPECT_EQ(count<operators::Concat>(n), 4);
}

}  // namespace
}  // namespace unisono
