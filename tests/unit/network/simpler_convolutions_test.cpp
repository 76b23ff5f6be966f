/// Convolutions as others that cost less, and norms that are written out, give the same in float64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cases.hpp"
#include "network/regions.hpp"
#include "reference/network/evaluate.hpp"

namespace unisono {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

struct SimplerConvolutions : testing::Test {
  test::Random random{11};
  NetworkBuilder net;

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  // The shape of the first convolution's filter, once what is computed is the same
  Shape filter(std::vector<std::int64_t> input) {
    const Network n = net.build(), simpler = network::simpler_convolutions(n, true);
    float64::Tensor64 x{std::move(input), {}, {}};
    for (const float f : test::random_elements(random, element_count(x.shape))) x.value.push_back(f);
    x.bound.assign(x.value.size(), 0);
    const float64::Tensors64 expected = float64::evaluate_network(n, {{"x", x}}),
                             found = float64::evaluate_network(simpler, {{"x", x}});
    EXPECT_EQ(found.at("y").shape, expected.at("y").shape);
    EXPECT_THAT(found.at("y").value, Pointwise(DoubleNear(1e-12), expected.at("y").value));
    return simpler[simpler.operators[0].inputs[1]].shape;
  }
  operators::Conv3d volumes() {
    std::vector<std::int64_t> stride(3), none(3, 0), ones(3, 1);
    for (std::int64_t& s : stride) s = random.below(3) + 1;
    return {.stride = stride, .dilation = ones, .before = none, .after = none, .output_pad = none};
  }
};

TEST_F(SimplerConvolutions, OfAnImageOfOnePixelHaveOneTap) {
  net.output(conv2d(net.input("x", {2, 6, 1, 1}), weights({4, 6, 3, 5}), {.pad = {1, 2, 1, 2}}), "y");
  EXPECT_EQ(filter({2, 6, 1, 1}), (Shape{4, 6, 1, 1}));
}

// A dilated filter whose outer taps fall beside an image of three rows; the columns are wide enough
TEST_F(SimplerConvolutions, WithoutTapsBesideTheImage) {
  net.output(conv2d(net.input("x", {1, 3, 3, 9}), weights({4, 3, 3, 3}), {.pad = {4, 4, 4, 4}, .dilation = 4}), "y");
  EXPECT_EQ(filter({1, 3, 3, 9}), (Shape{4, 3, 1, 3}));
}

TEST_F(SimplerConvolutions, KeepTapsThatAnyOutputReads) {
  net.output(conv2d(net.input("x", {1, 3, 2, 2}), weights({4, 3, 3, 3}), {.pad = 1}), "y");
  EXPECT_EQ(filter({1, 3, 2, 2}), (Shape{4, 3, 3, 3}));
}

TEST_F(SimplerConvolutions, OfOneVoxelHaveOneTap) {
  operators::Conv3d c = volumes();
  c.before = c.after = {1, 1, 1};
  net.output(net.apply(c, {net.input("x", {2, 5, 1, 1, 1}), weights({4, 5, 3, 3, 3})}), "y");
  EXPECT_EQ(filter({2, 5, 1, 1, 1}), (Shape{4, 5, 1, 1, 1}));
}

// Zeros ahead of a convolution, more at the beginning of an axis than at its end, as causal ones have them
struct OwnPadding : SimplerConvolutions {
  // Whether the convolution, the network's last operator, reads the image, once what is computed is the same
  bool reads_image(const std::vector<std::int64_t>& input) {
    const Network n = net.build(), own = network::with_own_padding(n);
    float64::Tensor64 x{input, {}, {}};
    for (const float f : test::random_elements(random, element_count(x.shape))) x.value.push_back(f);
    x.bound.assign(x.value.size(), 0);
    EXPECT_THAT(float64::evaluate_network(own, {{"x", x}}).at("y").value,
                Pointwise(DoubleNear(1e-12), float64::evaluate_network(n, {{"x", x}}).at("y").value));
    return own.operators.back().inputs[0] == own.inputs[0];
  }
  NetworkValue padded(const std::vector<std::int64_t>& shape, const operators::Pad& pad) {
    return net.apply(pad, {net.input("x", Shape(shape.begin(), shape.end()))});
  }
};

TEST_F(OwnPadding, OfVolumes) {
  operators::Conv3d c = volumes();
  c.before = {0, 1, 0}, c.after = {0, 0, 1};
  const NetworkValue x = padded({2, 3, 3, 4, 5}, {.before = {0, 0, 2, 0, 1}, .after = {0, 0, 0, 1, 0}});
  net.output(net.apply(c, {x, weights({4, 3, 3, 3, 3})}), "y");
  EXPECT_TRUE(reads_image({2, 3, 3, 4, 5}));
}

TEST_F(OwnPadding, OfImages) {
  const NetworkValue x = padded({2, 3, 4, 5}, {.before = {0, 0, 0, 2}, .after = {0, 0, 1, 0}});
  net.output(conv2d(x, weights({4, 3, 3, 2}), {.pad = {1, 0, 0, 1}, .dilation = {1, 2}}), "y");
  EXPECT_TRUE(reads_image({2, 3, 4, 5}));
}

class ForeignPadding : public OwnPadding, public testing::WithParamInterface<operators::Pad> {};

TEST_P(ForeignPadding, StaysAhead) {
  const std::int64_t channels = 3 + GetParam().before[1];
  net.output(conv2d(padded({1, 3, 4, 5}, GetParam()), weights({4, channels, 3, 3})), "y");
  EXPECT_FALSE(reads_image({1, 3, 4, 5}));
}

// Another value or mode, channels, a window without a pixel of the image, a crop
INSTANTIATE_TEST_SUITE_P(
    Pads, ForeignPadding,
    testing::Values(operators::Pad{.before = {0, 0, 1, 1}, .after = {0, 0, 0, 0}, .value = 0.5},
                    operators::Pad{.before = {0, 0, 1, 1}, .after = {0, 0, 0, 0}, .value = 0, .mode = PadMode::edge},
                    operators::Pad{.before = {0, 1, 1, 1}, .after = {0, 0, 0, 0}},
                    operators::Pad{.before = {0, 0, 3, 1}, .after = {0, 0, 0, 0}},
                    operators::Pad{.before = {0, 0, -1, 1}, .after = {0, 0, 0, 0}}));

// x / max(√Σx², ε)·factors, of rank 4 and 5
struct ChannelNorms : SimplerConvolutions, testing::WithParamInterface<int> {
  NetworkValue elementwise(Op op, std::vector<NetworkValue> inputs, Attributes attr = {}) {
    return net.apply(operators::Elementwise{op, attr}, inputs);
  }
  NetworkValue root_of_squares(NetworkValue x, int axis) {
    return elementwise(Op::sqrt,
                       {net.apply(operators::Reduce{ReduceOp::sum, {axis}, true}, {elementwise(Op::square, {x})})});
  }
  NetworkValue bounded(NetworkValue x, NetworkValue root, double bound) {
    Attributes range;
    range.lower = bound, range.upper = std::numeric_limits<float>::max();
    return elementwise(Op::div, {x, elementwise(Op::clamp, {root}, range)});
  }
  NetworkValue divided(NetworkValue x, double bound, int axis = 1) {
    return bounded(x, root_of_squares(x, axis), bound);
  }
  std::size_t norms(const std::vector<std::int64_t>& input, std::size_t operators_left) {
    const Network n = net.build(), with = network::with_channel_norms(n);
    float64::Tensor64 x{input, {}, {}};
    for (const float f : test::random_elements(random, element_count(x.shape))) x.value.push_back(f);
    x.bound.assign(x.value.size(), 0);
    EXPECT_THAT(float64::evaluate_network(with, {{"x", x}}).at("y").value,
                Pointwise(DoubleNear(1e-5), float64::evaluate_network(n, {{"x", x}}).at("y").value));
    const auto is_norm = [](const Operator& op) { return std::holds_alternative<operators::Normalisation>(op.kind); };
    const auto others = [](const Operator& op) {
      const auto* e = std::get_if<operators::Elementwise>(&op.kind);
      return e != nullptr && e->op != Op::square && e->op != Op::sqrt && e->op != Op::clamp;
    };
    EXPECT_EQ(std::ranges::count_if(with.operators, others), operators_left);
    return static_cast<std::size_t>(std::ranges::count_if(with.operators, is_norm));
  }
};

TEST_P(ChannelNorms, TakeFactorsOfChannels) {
  std::vector<std::int64_t> shape{2, 6, 3, 4, 5}, gamma{6, 1, 1, 1};
  shape.resize(static_cast<std::size_t>(GetParam())), gamma.resize(shape.size() - 1);
  NetworkValue y = divided(net.input("x", Shape(shape.begin(), shape.end())), 1e-12);
  y = elementwise(Op::mul, {y, net.constant("root", {}, {2.5f})});
  y = elementwise(Op::mul, {weights(gamma), y});
  net.output(elementwise(Op::sigmoid, {y}), "y");
  EXPECT_EQ(norms(shape, 1), 1u);
}

TEST_P(ChannelNorms, TakeReduceL2) {
  std::vector<std::int64_t> shape{2, 6, 3, 4, 5};
  shape.resize(static_cast<std::size_t>(GetParam()));
  const NetworkValue x = net.input("x", Shape(shape.begin(), shape.end()));
  const auto root = [&](ReduceOp op, int axis) { return net.apply(operators::Reduce{op, {axis}, true}, {x}); };
  NetworkValue y = bounded(x, root(ReduceOp::l2, 1), 1e-12);
  for (const NetworkValue other : {root(ReduceOp::l2, 2), root(ReduceOp::l1, 1)})
    y = elementwise(Op::add, {y, bounded(x, other, 1e-12)});
  net.output(y, "y");
  EXPECT_EQ(norms(shape, 4), 1u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ChannelNorms, testing::Values(4, 5));

using ChannelNormsKept = ChannelNorms;

// Other axes, bounds that elements reach, and a factor that is read again
TEST_P(ChannelNormsKept, WhatIsNone) {
  const NetworkValue x = net.input("x", {2, 6, 3, 4});
  const NetworkValue norm = divided(x, 1e-12);
  const NetworkValue scaled = elementwise(Op::mul, {norm, net.constant("root", {}, {2.5f})});
  NetworkValue y = elementwise(Op::add, {scaled, norm});
  for (const NetworkValue other : {divided(x, 1e-12, 2), divided(x, 0.5)}) y = elementwise(Op::add, {y, other});
  net.output(y, "y");
  EXPECT_EQ(norms({2, 6, 3, 4}, 6), 1u);
}

INSTANTIATE_TEST_SUITE_P(Once, ChannelNormsKept, testing::Values(4));

class SimplerVolumes : public SimplerConvolutions, public testing::WithParamInterface<int> {};

TEST_P(SimplerVolumes, TransposedOnesAreConvolutions) {
  random = test::Random(static_cast<std::uint64_t>(GetParam()));
  operators::Conv3d c = volumes();
  c.transposed = true;
  std::vector<std::int64_t> shape{2, 3}, taps{3, random.below(4) + 1};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t extent = random.below(4) + 2, k = random.below(4) + 1;
    c.before[i] = random.below(2) % k, c.after[i] = random.below(2) % k;
    c.output_pad[i] = random.below(static_cast<int>(c.stride[i]));
    shape.push_back(extent), taps.push_back(k);
  }
  std::vector<NetworkValue> inputs{net.input("x", Shape(shape.begin(), shape.end())), weights(taps)};
  if (random.below(2) == 0) inputs.push_back(weights({taps[1]}));
  net.output(net.apply(c, inputs), "y");
  const std::int64_t places = c.stride[0] * c.stride[1] * c.stride[2];
  EXPECT_EQ(filter(shape)[0], Dim(places * taps[1]));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimplerVolumes, testing::Range(0, 60));

}  // namespace
}  // namespace unisono
