#include "reference/network/answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "unisono/error.hpp"

namespace unisono::command {

using namespace float64;

namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

Tensor64 tensor(std::vector<std::int64_t> shape, std::vector<double> values) {
  Tensor64 x{std::move(shape), std::move(values), {}};
  x.bound.assign(x.value.size(), 0.0);
  return x;
}

Tensor64 counting(std::vector<std::int64_t> shape) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return tensor(std::move(shape), std::move(values));
}

/// Evaluates a network of one input x and one output y.
Tensor64 evaluate(const Tensor64& x, const std::function<NetworkValue(NetworkBuilder&, NetworkValue)>& make) {
  NetworkBuilder net;
  const Shape shape(x.shape.begin(), x.shape.end());
  const NetworkValue input = net.input("x", shape);
  net.output(make(net, input), "y");
  return evaluate_network(net.build(), {{"x", x}}).at("y");
}

TEST(NetworkReference, ConvolutionWithBiasInChannelOrder) {
  // two channels of 2 × 2; a 1 × 1 filter that swaps them and adds 10 and 20
  const Tensor64 y = evaluate(counting({1, 2, 2, 2}), [](NetworkBuilder& net, NetworkValue x) {
    return conv2d(x, net.constant("w", {2, 2, 1, 1}, {0, 1, 1, 0}), net.constant("b", {2}, {10, 20}));
  });
  EXPECT_THAT(y.shape, ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(y.value, ElementsAre(14, 15, 16, 17, 20, 21, 22, 23));
}

TEST(NetworkReference, PaddedAndStridedConvolution) {
  const Tensor64 y = evaluate(counting({1, 1, 3, 3}), [](NetworkBuilder& net, NetworkValue x) {
    return conv2d(x, net.constant("w", {1, 1, 3, 3}, std::vector<float>(9, 1)), {.stride = 2, .pad = 1});
  });
  EXPECT_THAT(y.shape, ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(y.value, ElementsAre(0 + 1 + 3 + 4, 1 + 2 + 4 + 5, 3 + 4 + 6 + 7, 4 + 5 + 7 + 8));
}

TEST(NetworkReference, MatrixProduct) {
  const Tensor64 y = evaluate(counting({2, 3}), [](NetworkBuilder& net, NetworkValue x) {
    return gemm(x, net.constant("w", {2, 3}, {1, 0, 0, 0, 1, 1}),
                {.transpose_b = true, .bias = net.constant("b", {2}, {100, 200})});
  });
  EXPECT_THAT(y.shape, ElementsAre(2, 2));
  EXPECT_THAT(y.value, ElementsAre(100, 203, 103, 209));
}

TEST(NetworkReference, OperandsBroadcast) {
  const Tensor64 y = evaluate(counting({1, 2, 1, 2}), [](NetworkBuilder& net, NetworkValue x) {
    return x * net.constant("c", {2, 1, 1}, {1, 10}) + 0.5;
  });
  EXPECT_THAT(y.value, ElementsAre(0.5, 1.5, 20.5, 30.5));
}

TEST(NetworkReference, GroupNormHasZeroMeanAndUnitVarianceAGroup) {
  const Tensor64 y = evaluate(counting({2, 4, 3, 5}), [](NetworkBuilder& net, NetworkValue x) {
    return group_norm(x, {.groups = 2,
                          .scale = net.constant("s", {4}, {1, 1, 2, 2}),
                          .shift = net.constant("t", {4}, {0, 0, 7, 7}),
                          .eps = 0});
  });
  for (std::size_t group = 0; group < 4; ++group) {  // (image, group), 30 values each
    const auto begin = y.value.begin() + static_cast<std::ptrdiff_t>(30 * group);
    const double mean = std::accumulate(begin, begin + 30, 0.0) / 30;
    const double squares = std::inner_product(begin, begin + 30, begin, 0.0) / 30;
    EXPECT_NEAR(mean, group % 2 == 0 ? 0 : 7, 1e-12);
    EXPECT_NEAR(squares - mean * mean, group % 2 == 0 ? 1 : 4, 1e-9);
  }
}

TEST(NetworkReference, BatchNormUsesStoredStatistics) {
  const Tensor64 y = evaluate(tensor({1, 2, 1, 1}, {3, 8}), [](NetworkBuilder& net, NetworkValue x) {
    const auto vector = [&](const char* name, float a, float b) { return net.constant(name, {2}, {a, b}); };
    return batch_norm(x, vector("s", 2, 1), vector("t", 1, -1), vector("m", 1, 4), vector("v", 4, 16), 0);
  });
  EXPECT_THAT(y.value, Pointwise(DoubleNear(1e-12), {2 * (3.0 - 1) / 2 + 1, (8.0 - 4) / 4 - 1}));
}

TEST(NetworkReference, SoftmaxRunsOverChannels) {
  const Tensor64 y = evaluate(tensor({1, 2, 1, 2}, {0, 1, std::log(3.0), 1}),
                              [](NetworkBuilder&, NetworkValue x) { return softmax(x); });
  EXPECT_THAT(y.value, Pointwise(DoubleNear(1e-12), {0.25, 0.5, 0.75, 0.5}));
}

TEST(NetworkReference, PoolingAndResizing) {
  EXPECT_THAT(evaluate(counting({1, 1, 2, 4}), [](NetworkBuilder&, NetworkValue x) { return max_pool(x); }).value,
              ElementsAre(5, 7));
  EXPECT_THAT(evaluate(counting({1, 1, 2, 4}), [](NetworkBuilder&, NetworkValue x) { return average_pool(x); }).value,
              ElementsAre(2.5, 4.5));
  EXPECT_THAT(
      evaluate(counting({1, 2, 2, 2}), [](NetworkBuilder&, NetworkValue x) { return global_average_pool(x); }).value,
      ElementsAre(1.5, 5.5));
  EXPECT_THAT(evaluate(counting({1, 1, 1, 2}), [](NetworkBuilder&, NetworkValue x) { return upsample(x); }).value,
              ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
}

TEST(NetworkReference, MovesOfData) {
  EXPECT_THAT(evaluate(counting({1, 2, 1, 2}),
                       [](NetworkBuilder&, NetworkValue x) {
                         return concat({x, x + 10});
                       })
                  .value,
              ElementsAre(0, 1, 2, 3, 10, 11, 12, 13));
  EXPECT_THAT(evaluate(counting({2, 2}),
                       [](NetworkBuilder&, NetworkValue x) {
                         return concat({x, x}, 1);
                       })
                  .value,
              ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(evaluate(counting({2, 3}),
                       [](NetworkBuilder&, NetworkValue x) {
                         return transpose(x, {1, 0});
                       })
                  .value,
              ElementsAre(0, 3, 1, 4, 2, 5));
  const Tensor64 padded = evaluate(counting({2, 2}), [](NetworkBuilder&, NetworkValue x) {
    return pad(x, {0, 1}, {1, -1}, 9);
  });
  EXPECT_THAT(padded.shape, ElementsAre(3, 2));
  EXPECT_THAT(padded.value, ElementsAre(9, 0, 9, 2, 9, 9));
  EXPECT_THAT(evaluate(counting({2, 3, 2}), [](NetworkBuilder&, NetworkValue x) { return flatten(x, 1); }).shape,
              ElementsAre(2, 6));
  EXPECT_THAT(evaluate(counting({2, 3, 2}),
                       [](NetworkBuilder&, NetworkValue x) {
                         return reshape(x, {0, -1, 3});
                       })
                  .shape,
              ElementsAre(2, 2, 3));
}

TEST(NetworkReference, NoImagesHaveTheExtentsOfOne) {
  const Tensor64 y = evaluate(counting({0, 2, 6, 4}), [](NetworkBuilder& net, NetworkValue x) {
    const NetworkValue c = conv2d(x, net.constant("w", {3, 2, 3, 3}, std::vector<float>(54, 1)), {.pad = 1});
    return upsample(max_pool(c), 3);
  });
  EXPECT_THAT(y.shape, ElementsAre(0, 3, 9, 6));
  EXPECT_TRUE(y.value.empty());
}

TEST(NetworkReference, ALiteralExtentOfNothingIsNotTheInputs) {
  const Tensor64 y = evaluate(counting({2, 0, 3}), [](NetworkBuilder&, NetworkValue x) {
    return x.builder().apply(operators::Reshape{{0, 3, 2}, true}, {x});
  });
  EXPECT_THAT(y.shape, ElementsAre(0, 3, 2));
}

TEST(NetworkReference, MissingInputIsNamed) {
  NetworkBuilder net;
  net.output(mish(net.input("picture", {1, 2})), "y");
  EXPECT_THAT([&] { evaluate_network(net.build(), {}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("picture")));
}

// In 16 bits 1.001 is 1 or 1.0078125, and the product's error is that of its operand
TEST(NetworkReference, InputsThatLieInMemoryInFullAreNotRounded) {
  NetworkBuilder net;
  net.output(net.input("x", {1, 4}) * 8.0, "y");
  const Tensors64 inputs{{"x", tensor({1, 4}, {1.001, 1.001, -1.001, 3e38})}};
  Rounding rounding{.tensors = DType::bf16, .stored = {"y"}};
  EXPECT_NE(evaluate_network(net.build(), inputs, {}, rounding).at("y").value[0], 8 * 1.001);
  rounding.exact = {"x"};
  const Tensor64 exact = evaluate_network(net.build(), inputs, {}, rounding).at("y");
  EXPECT_EQ(exact.value[0], 8 * 1.001);
  EXPECT_GT(exact.bound[0], 0x1p-9) << "y is rounded when it is stored";
  rounding.stored.clear();
  EXPECT_LT(evaluate_network(net.build(), inputs, {}, rounding).at("y").bound[0], 1e-5);
}

// What moves an input that is not rounded may round it
TEST(NetworkReference, MovedElementsAreRoundedOnce) {
  NetworkBuilder net;
  net.output(transpose(net.input("x", {2, 3}), {1, 0}), "y");
  const Tensors64 inputs{{"x", counting({2, 3})}};
  Rounding rounding{.tensors = DType::bf16, .stored = {"y"}};
  EXPECT_EQ(evaluate_network(net.build(), inputs, {}, rounding).at("y").bound[5], 0);
  rounding.exact = {"x"};
  EXPECT_GT(evaluate_network(net.build(), inputs, {}, rounding).at("y").bound[5], 0);
}

class Check : public testing::Test {
 protected:
  Check() {
    const NetworkValue x = net_.input("x", {1, 2, 8, 8});
    std::vector<float> weights(4 * 2 * 9);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)));
    net_.output(mish(group_norm(conv2d(x, net_.constant("w", {4, 2, 3, 3}, weights), {.pad = 1}), {.groups = 2})), "y");
    input_ = counting({1, 2, 8, 8});
    for (double& v : input_.value) v = std::cos(v);
    const Tensors64 expected = evaluate_network(net_.build(), {{"x", input_}});
    exact_.assign(expected.at("y").value.begin(), expected.at("y").value.end());
  }
  NetworkAgreement check(const std::vector<float>& y) {
    return check_network(net_.build(), {{"x", input_}}, {{"y", tensor({1, 4, 8, 8}, {y.begin(), y.end()})}}).at(0);
  }

  NetworkBuilder net_;
  Tensor64 input_;
  std::vector<float> exact_;
};

TEST_F(Check, RoundedReferenceAgrees) {
  const NetworkAgreement a = check(exact_);
  EXPECT_TRUE(a.ok());
  EXPECT_EQ(a.elements, 4 * 64);
  EXPECT_LT(a.largest_error, 1e-6);
  EXPECT_GT(a.tolerance, a.largest_error);
  EXPECT_LT(a.tolerance, 1e-3);  // no tolerance that lets anything pass
}

TEST_F(Check, ErrorBeyondTheToleranceIsCounted) {
  const double tolerance = check(exact_).tolerance;
  exact_[17] += static_cast<float>(1.5 * tolerance);
  exact_[40] -= static_cast<float>(3 * tolerance);
  const NetworkAgreement a = check(exact_);
  EXPECT_EQ(a.outside, 2);
  EXPECT_NEAR(a.largest_error, 3 * tolerance, 0.1 * tolerance);
}

TEST_F(Check, NotANumberDisagrees) {
  exact_[3] = std::nanf("");
  const NetworkAgreement a = check(exact_);
  EXPECT_EQ(a.outside, 1);
  EXPECT_TRUE(std::isinf(a.largest_error));
}

}  // namespace
}  // namespace unisono::command
