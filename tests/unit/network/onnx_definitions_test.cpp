/// The float64 definitions of ONNX's operators where its node tests say nothing, and the check that compares with them.
#include <gmock/gmock.h>

#include <cmath>

#include "onnx_model.hpp"
#include "reference/onnx/check.hpp"

namespace unisono {
namespace {

using float64::check_model;
using float64::NetworkAgreement;
using float64::Tensor64;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using Model = test::OnnxModel;
using Values = std::vector<double>;

Tensor64 tensor(std::vector<std::int64_t> shape, Values values) {
  const std::size_t n = values.size();
  return {std::move(shape), std::move(values), Values(n, 0.0)};
}

float64::OnnxModel defined(const Model& m) {
  const std::string bytes = m.bytes();
  return float64::OnnxModel::parse(std::as_bytes(std::span(bytes)));
}

Values evaluate(const Model& m, const Tensor64& x) { return defined(m).evaluate({{"x", x}}).at("y").value; }

// x (2,3)
TEST(OnnxDefinitions, Norms) {
  const Tensor64 x = tensor({2, 3}, {3, 0, 4, 0, 0, 0});
  Model lp("LpNormalization", 22);
  EXPECT_THAT(evaluate(lp, x), Pointwise(DoubleNear(1e-12), Values{0.6, 0, 0.8, 0, 0, 0}));
  lp.set("p", std::int64_t{1});
  lp.set("axis", std::int64_t{0});
  EXPECT_THAT(evaluate(lp, tensor({2, 3}, {1, -2, 3, 3, 2, 0})),
              Pointwise(DoubleNear(1e-12), Values{0.25, -0.5, 1, 0.75, 0.5, 0}));
  Model pool("GlobalLpPool", 22, {"image"});
  pool.proto.mutable_graph()->clear_input();
  pool.add_input("image", {1, 2, 1, 2});
  const auto norms = defined(pool).evaluate({{"image", tensor({1, 2, 1, 2}, {3, 4, -5, 12})}}).at("y");
  EXPECT_THAT(norms.value, Pointwise(DoubleNear(1e-12), Values{5, 13}));
  EXPECT_THAT(norms.shape, ElementsAre(1, 2, 1, 1));
}

// Two taps of a row: each is the sum of the gradient times the pixels that it meets
TEST(OnnxDefinitions, FilterGradient) {
  Model m("FilterGradient", 21, {"image", "gradient"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("image", {1, 1, 2, 3});
  m.add_input("gradient", {1, 1, 2, 2});
  m.node->set_domain("unisono");
  m.set("kernel_shape", std::vector<std::int64_t>{1, 2});
  const auto taps = defined(m).evaluate(
      {{"image", tensor({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})}, {"gradient", tensor({1, 1, 2, 2}, {1, 10, 100, 1000})}});
  EXPECT_THAT(taps.at("y").value, ElementsAre(5421, 6532));
  EXPECT_THAT(taps.at("y").shape, ElementsAre(1, 1, 1, 2));
}

TEST(OnnxDefinitions, CeluOfANegativeAlpha) {
  Model m("Celu", 12);
  m.set("alpha", -1.F);
  const Values y = evaluate(m, tensor({2, 3}, {-5, -1, 0, 1, 2, 3}));
  EXPECT_NEAR(y[0], 1 - std::exp(5.0), 1e-9);
  EXPECT_EQ(y[4], 2);
}

// Affine and LeakyRelu have numbers, and Sigmoid none. Inputs of gates are clipped to 1, the cell on its way out is
// not.
TEST(OnnxDefinitions, ActivationsTakeTheirNumbersInTurn) {
  Model m("LSTM", 22, {"x", "w", "r"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, 1, 1}), m.add_input("w", {1, 4, 1}), m.add_input("r", {1, 4, 1});
  m.set("hidden_size", std::int64_t{1});
  m.set("clip", 1.F);
  auto* const functions = m.attribute("activations", 8);
  for (const char* name : {"Sigmoid", "Affine", "LeakyRelu"}) functions->add_strings(name);
  auto* const alphas = m.attribute("activation_alpha", 6);
  for (const float alpha : {20.F, 0.5F}) alphas->add_floats(alpha);
  m.attribute("activation_beta", 6)->add_floats(1);
  const auto y = defined(m).evaluate(
      {{"x", tensor({1, 1, 1}, {-3})}, {"w", tensor({1, 4, 1}, {1, 1, 1, 1})}, {"r", tensor({1, 4, 1}, {0, 0, 0, 0})}});
  const double gate = 1 / (1 + std::exp(1.0)), cell = gate * (20 * -1 + 1);
  EXPECT_NEAR(y.at("y").value.at(0), gate * 0.5 * cell, 1e-12);
}

// A vector is a row on the left and a column on the right; x (2,3)
TEST(OnnxDefinitions, ProductsWithVectors) {
  const Tensor64 x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto product = [&](std::vector<std::string> inputs) {
    Model m("MatMul", 13, std::move(inputs));
    m.add_constant("left", {2}, {1, -1});
    m.add_constant("right", {3}, {1, 0, 2});
    m.add_constant("twice", {3}, {2, 2, 2});
    m.add_constant("batch", {2, 3, 1}, {1, 0, 0, 0, 0, 1});
    return defined(m).evaluate({{"x", x}}).at("y");
  };
  const auto expect = [&](std::vector<std::string> inputs, std::vector<std::int64_t> shape, Values values) {
    const Tensor64 y = product(std::move(inputs));
    EXPECT_EQ(y.shape, shape);
    EXPECT_EQ(y.value, values);
    EXPECT_EQ(y.bound.size(), values.size());
  };
  expect({"x", "right"}, {2}, {7, 16});
  expect({"left", "x"}, {3}, {-3, -3, -3});
  expect({"right", "twice"}, {}, {6});
  expect({"right", "batch"}, {2, 1}, {1, 2});
}

TEST(OnnxDefinitions, NaNIsTheExtreme) {
  Model m("ArgMax", 13);
  m.set("axis", std::int64_t{1});
  EXPECT_THAT(evaluate(m, tensor({2, 3}, {1, NAN, 2, 5, 4, 3})), ElementsAre(1, 0));
  Model hard("Hardmax", 13);
  EXPECT_THAT(evaluate(hard, tensor({2, 3}, {1, NAN, 2, 5, 4, 3})), ElementsAre(0, 1, 0, 1, 0, 0));
}

TEST(OnnxDefinitions, WhatIsMissingIsSaid) {
  const auto none = defined(Model("Relu"));
  EXPECT_THAT([&] { none.evaluate({}); }, testing::ThrowsMessage<UserError>(HasSubstr("input 'x' is missing")));
  const auto unknown = defined(Model("NonZero"));
  EXPECT_THAT(
      [&] {
        unknown.evaluate({{"x", tensor({2, 3}, Values(6))}});
      },
      testing::ThrowsMessage<Unsupported>(HasSubstr("'NonZero' has no definition in float64")));
}

// A network that is not the model's: the check names the importer, whatever the result is
TEST(CheckModel, NetworksThatWereReadWrongly) {
  Model model("Sigmoid");
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {2, 3});
  net.output(tanh(x), "y");
  const Values given{-2, -1, 0, 1, 2, 3};
  Values right, wrong;
  for (const double v : given) right.push_back(1 / (1 + std::exp(-v))), wrong.push_back(std::tanh(v));
  const auto check = [&](const Network& network, const Values& y, const float64::Rounding& rounding = {}) {
    return check_model(defined(model), network, {{"x", tensor({2, 3}, given)}}, {{"y", tensor({2, 3}, y)}}, rounding)
        .at(0);
  };
  const NetworkAgreement as_read = check(net.build(), wrong);
  EXPECT_EQ(as_read.outside, 6);
  EXPECT_EQ(as_read.misread, 6);
  EXPECT_FALSE(as_read.ok());
  const NetworkAgreement on_gpu = check(net.build(), wrong, {.tensors = DType::bf16, .stored = {"y"}});
  EXPECT_EQ(on_gpu.outside, 0) << "compared with the network, in 16 bits";
  EXPECT_EQ(on_gpu.misread, 6);
  const Network imported = test::parse(model.bytes());
  EXPECT_TRUE(check(imported, right).ok());
  EXPECT_EQ(check(imported, wrong).outside, 6);
  EXPECT_EQ(check(imported, wrong).misread, 0);
}

// The same numbers lose digits where x − log Σ exp x is computed as it stands
TEST(CheckModel, LostDigitsAreWrong) {
  Model model("LogSoftmax", 13);
  const Values x{1e5, 1e5 + 1, 1e5 + 2, 1e5, 1e5, 1e5};
  const Network network = test::parse(model.bytes());
  const auto outside = [&](const Values& y) {
    return check_model(defined(model), network, {{"x", tensor({2, 3}, x)}}, {{"y", tensor({2, 3}, y)}}).at(0).outside;
  };
  Values right = evaluate(model, tensor({2, 3}, x));
  EXPECT_EQ(outside(right), 0);
  right[1] += 3.7e-3;
  EXPECT_EQ(outside(right), 1);
}

}  // namespace
}  // namespace unisono
