/// Convolutions of one image that are added become one.

#include "network/joined_convolutions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cases.hpp"

namespace unisono {
namespace {

struct JoinedConvolutions : testing::Test {
  test::Random random{9};
  NetworkBuilder net;

  NetworkValue weights(std::vector<std::int64_t> shape) {
    return net.constant("w", Shape(shape.begin(), shape.end()), test::random_elements(random, element_count(shape)));
  }
  static std::ptrdiff_t convolutions(const Network& n) {
    return std::count_if(n.operators.begin(), n.operators.end(),
                         [](const Operator& op) { return std::holds_alternative<operators::Conv2d>(op.kind); });
  }
  // How many convolutions are left; what runs agrees with the float64 reference
  std::ptrdiff_t left(std::vector<std::int64_t> input) {
    const Network n = net.build(), joined = network::join_convolutions(n);
    const test::HostTensors inputs{{"x", test::random_tensor(random, std::move(input))}};
    for (const bool fuse : {true, false})
      test::expect_agreement(n, inputs, test::run(compile(n, {.threads = 2, .fuse = fuse}), inputs));
    return convolutions(joined);
  }
};

// As networks of several branches are exported: convolutions with and without bias, small windows in the large one's
TEST_F(JoinedConvolutions, OfOneImageAreOne) {
  const NetworkValue x = net.input("x", {2, 6, 9, 8});
  const NetworkValue branch = conv2d(x, weights({6, 6, 1, 1}), weights({6})) + relu(x);
  const NetworkValue sum = branch + conv2d(x, weights({6, 6, 3, 3}), weights({6}), {.pad = 1}) +
                           conv2d(x, weights({6, 6, 3, 3}), {.pad = 1}) +
                           conv2d(x, weights({6, 6, 1, 3}), {.pad = {0, 1, 0, 1}});
  net.output(relu(sum), "y");
  EXPECT_EQ(left({2, 6, 9, 8}), 1);
  EXPECT_EQ(explain(net.build()).kernels, 2);
}

TEST_F(JoinedConvolutions, WithGroupsAndStridesAndASymbol) {
  const NetworkValue x = net.input("x", {"batch", 8, 11, 10});
  const auto attributes = [](std::int64_t pad) { return ConvAttributes{.stride = 2, .pad = pad, .groups = 4}; };
  const NetworkValue small = conv2d(x, weights({12, 2, 1, 1}), weights({12}), attributes(0));
  const NetworkValue large = conv2d(x, weights({12, 2, 5, 5}), attributes(2));
  net.output(small + large, "y");
  EXPECT_EQ(left({3, 8, 11, 10}), 1);
}

TEST_F(JoinedConvolutions, DilatedOnesOnlyIfTheirTapsAreTheSame) {
  const NetworkValue x = net.input("x", {1, 4, 9, 9});
  const ConvAttributes dilated{.pad = 2, .dilation = 2};
  const NetworkValue same = conv2d(x, weights({4, 4, 3, 3}), dilated) + conv2d(x, weights({4, 4, 3, 3}), dilated);
  net.output(same + conv2d(x, weights({4, 4, 3, 3}), {.pad = 1}), "y");
  EXPECT_EQ(left({1, 4, 9, 9}), 2);
}

TEST_F(JoinedConvolutions, NotOthers) {
  const NetworkValue x = net.input("x", {1, 4, 8, 8}), filter = net.input("filter", {4, 4, 3, 3});
  const NetworkValue read_twice = conv2d(x, weights({4, 4, 1, 1}));
  net.output(read_twice * read_twice, "squares");
  const NetworkValue beside = conv2d(x, weights({4, 4, 1, 3}), {.pad = {0, 1, 0, 1}});
  const NetworkValue above = conv2d(x, weights({4, 4, 3, 1}), {.pad = {1, 0, 1, 0}});  // neither window holds the other
  const NetworkValue given = conv2d(x, filter, {.pad = 1});
  const NetworkValue other_image = conv2d(relu(x), weights({4, 4, 1, 1}));
  const NetworkValue one_channel = conv2d(x, weights({1, 4, 1, 1}));  // broadcast
  net.output(read_twice + beside + above + given + other_image + one_channel, "y");
  const Network n = net.build();
  EXPECT_EQ(convolutions(network::join_convolutions(n)), convolutions(n));
}

TEST_F(JoinedConvolutions, ThatAreOutputsStay) {
  const NetworkValue x = net.input("x", {1, 4, 8, 8});
  const NetworkValue a = conv2d(x, weights({4, 4, 1, 1})), b = conv2d(x, weights({4, 4, 1, 1}));
  const NetworkValue c = conv2d(x, weights({4, 4, 1, 1}));
  net.output(a, "a");
  net.output(a + b + c, "y");
  EXPECT_EQ(left({1, 4, 8, 8}), 2);
}

TEST_F(JoinedConvolutions, NanComesThrough) {
  const NetworkValue x = net.input("x", {1, 2, 3, 3});
  net.output(relu(conv2d(x, weights({2, 2, 1, 1})) + conv2d(x, weights({2, 2, 1, 1}))), "y");
  test::HostTensors inputs{{"x", test::random_tensor(random, {1, 2, 3, 3})}};
  inputs.at("x").data[4] = std::numeric_limits<float>::quiet_NaN();
  const test::HostTensors y = test::run(compile(net.build(), {.threads = 1}), inputs);
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(std::isnan(y.at("y").data[i]), i % 9 == 4) << i;
}

}  // namespace
}  // namespace unisono
