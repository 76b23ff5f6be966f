/// The losses that come with the library, by their definitions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "../network/cases.hpp"
#include "unisono/elements.hpp"
#include "unisono/gradients.hpp"

namespace unisono {
namespace {

// The loss of logits (2,3,2,2) and a target of f32, and its gradient
class LossOf : public ::testing::Test {
 protected:
  static constexpr std::size_t count = 2 * 3 * 2 * 2;

  void SetUp() override {
    test::Random r(3);
    x_ = test::random_tensor(r, {2, 3, 2, 2});
    t_ = test::random_tensor(r, {2, 3, 2, 2}, 0, 1);
  }
  test::HostTensors run(const Loss& loss) const {
    NetworkBuilder net;
    net.output(identity(net.input("x", {2, 3, 2, 2})), "y");
    const GradientNetwork g = gradients(net.build(), loss, {.inputs = {"x"}});
    const auto out = test::run(compile(g.network), {{"x", x_}, {"target", t_}});
    test::expect_agreement(g.network, {{"x", x_}, {"target", t_}}, out);
    return out;
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  test::HostTensor x_, t_;
};

TEST_F(LossOf, MeanSquaredError) {
  const auto out = run(mean_squared_error());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double d = x_.data[i] - t_.data[i];
    sum += d * d / count;
    EXPECT_NEAR(out.at("gradient:x").data[i], 2 * d / count, 1e-6);
  }
  EXPECT_NEAR(out.at("loss").data[0], sum, 1e-6);
}

TEST_F(LossOf, BinaryCrossEntropy) {
  const auto out = run(binary_cross_entropy());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = sigmoid(x_.data[i]), t = t_.data[i];
    sum -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / count;
    EXPECT_NEAR(out.at("gradient:x").data[i], (p - t) / count, 1e-6);
  }
  EXPECT_NEAR(out.at("loss").data[0], sum, 1e-5);
}

TEST_F(LossOf, BinaryCrossEntropyOfLargeLogits) {
  x_.data.assign(count, 300.0f);
  t_.data.assign(count, 0.0f);
  EXPECT_NEAR(run(binary_cross_entropy()).at("loss").data[0], 300, 1e-3);
}

TEST_F(LossOf, Dice) {
  const auto out = run(dice_loss({}, 0.5));
  double sum = 0;
  for (std::size_t i = 0; i < count; i += 4) {
    double product = 0, p = 0, t = 0;
    for (std::size_t k = i; k < i + 4; ++k)
      product += sigmoid(x_.data[k]) * t_.data[k], p += sigmoid(x_.data[k]), t += t_.data[k];
    sum += (1 - (2 * product + 0.5) / (p + t + 0.5)) / 6;
  }
  EXPECT_NEAR(out.at("loss").data[0], sum, 1e-6);
}

TEST_F(LossOf, HeatmapFocal) {
  t_.data[3] = t_.data[7] = 1;
  const auto out = run(heatmap_focal_loss());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = sigmoid(x_.data[i]), t = t_.data[i];
    sum -= t == 1 ? std::pow(1 - p, 2) * std::log(p) : std::pow(1 - t, 4) * p * p * std::log(1 - p);
  }
  EXPECT_NEAR(out.at("loss").data[0], sum / 2, 1e-5);
}

TEST(CrossEntropy, OfClassesAtPixels) {
  NetworkBuilder net;
  net.output(identity(net.input("x", {2, 3, 1, 2})), "y");
  const GradientNetwork g = gradients(net.build(), cross_entropy({.target = "label"}), {.inputs = {"x"}});
  const NetworkExecutable run = compile(g.network);
  std::vector<float> x{1, 2, 0, -1, 3, 0.5f, 4, 0, 0, 0, -200, 100};
  const std::vector<std::int64_t> label{0, 2, 1, -1};  // the last counts from the end
  std::vector<float> gradient(12), loss(1);
  run.run({{"x", view(x, {2, 3, 1, 2})}, {"label", view(label, {2, 1, 2})}},
          {{"loss", view(loss, {})}, {"gradient:x", view(gradient, {2, 3, 1, 2})}});
  double sum = 0;
  for (std::size_t image = 0; image < 2; ++image)
    for (std::size_t pixel = 0; pixel < 2; ++pixel) {
      const auto at = [&](std::size_t c) { return image * 6 + c * 2 + pixel; };
      double total = 0;
      for (std::size_t c = 0; c < 3; ++c) total += std::exp(static_cast<double>(x[at(c)]));
      const auto truth = static_cast<std::size_t>((label[image * 2 + pixel] + 3) % 3);
      sum += (std::log(total) - x[at(truth)]) / 4;
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_NEAR(gradient[at(c)], (std::exp(static_cast<double>(x[at(c)])) / total - (c == truth ? 1 : 0)) / 4,
                    1e-6);
    }
  EXPECT_NEAR(loss[0], sum, 1e-5);
  const std::vector<std::int64_t> outside{0, 2, 1, 3};
  EXPECT_THROW(run.run({{"x", view(x, {2, 3, 1, 2})}, {"label", view(outside, {2, 1, 2})}},
                       {{"loss", view(loss, {})}, {"gradient:x", view(gradient, {2, 3, 1, 2})}}),
               UserError);
}

TEST(CrossEntropy, OfRows) {
  NetworkBuilder net;
  net.output(identity(net.input("x", {2, 2})), "y");
  const GradientNetwork g = gradients(net.build(), cross_entropy(), {.inputs = {"x"}});
  const std::vector<float> x{0, 0, 1, 1};
  const std::vector<std::int64_t> label{1, 0};
  std::vector<float> gradient(4), loss(1);
  compile(g.network).run({{"x", view(x, {2, 2})}, {"target", view(label, {2})}},
                         {{"loss", view(loss, {})}, {"gradient:x", view(gradient, {2, 2})}});
  EXPECT_NEAR(loss[0], std::log(2), 1e-6);
  EXPECT_THAT(gradient, ::testing::Pointwise(::testing::FloatNear(1e-6f), {0.25f, -0.25f, -0.25f, 0.25f}));
}

}  // namespace
}  // namespace unisono
