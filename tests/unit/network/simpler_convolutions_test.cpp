/// Convolutions as others that cost less give the same in float64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
