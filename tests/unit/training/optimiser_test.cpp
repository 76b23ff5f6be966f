#include "training/optimiser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../network/cases.hpp"
#include "training/patterns.hpp"

namespace unisono::training {
namespace {

std::vector<NetworkParameter> parameters(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {{"layer.weight", 0, {count}, std::make_shared<const std::vector<float>>(std::move(values)), "g"}};
}

TEST(Patterns, StandForNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.bias", "down.0.bias"));
  EXPECT_TRUE(matches("a*b*c", "axxbbxc"));
  EXPECT_TRUE(matches("x?z", "xyz"));
  EXPECT_FALSE(matches("*.bias", "down.0.bias2"));
  EXPECT_FALSE(matches("x?z", "xz"));
  EXPECT_FALSE(matches("", "x"));
}

// By the formulas of the paper, in float64
TEST(AdamW, MovesByItsMoments) {
  const Optimiser o{.weight_decay = 0.1};
  auto p = learnt_parameters(parameters({1, -2, 0.5f}), o);
  std::vector<double> x{1, -2, 0.5}, m(3), v(3);
  for (int t = 1; t <= 20; ++t) {
    std::vector<float> g;
    for (int i = 0; i < 3; ++i) g.push_back(static_cast<float>(std::sin(t * (i + 1))));
    update(p[0], g, 0.5, o, 0.01, t);
    for (std::size_t i = 0; i < 3; ++i) {
      const double h = 0.5 * g[i];
      m[i] = 0.9 * m[i] + 0.1 * h, v[i] = 0.999 * v[i] + 0.001 * h * h;
      const double unbiased_m = m[i] / (1 - std::pow(0.9, t)), unbiased_v = v[i] / (1 - std::pow(0.999, t));
      x[i] = x[i] - 0.01 * 0.1 * x[i] - 0.01 * unbiased_m / (std::sqrt(unbiased_v) + 1e-8);
      EXPECT_NEAR(p[0].values[i], x[i], 1e-6) << t;
    }
  }
}

TEST(Sgd, HasMomentumAndDecay) {
  for (const bool nesterov : {false, true}) {
    const Optimiser o{.kind = Optimiser::Kind::sgd, .momentum = 0.8, .nesterov = nesterov, .weight_decay = 0.1};
    auto p = learnt_parameters(parameters({2}), o);
    double x = 2, buffer = 0;
    for (int t = 1; t <= 10; ++t) {
      update(p[0], std::vector<float>{static_cast<float>(t)}, 1, o, 0.01, t);
      const double g = t + 0.1 * x;
      buffer = t == 1 ? g : 0.8 * buffer + g;
      x -= 0.01 * (nesterov ? g + 0.8 * buffer : buffer);
      EXPECT_NEAR(p[0].values[0], x, 1e-5);
    }
  }
}

TEST(Groups, SayWhatDecays) {
  Optimiser o{.groups = {{.names = "*.bias", .weight_decay = 0},
                         {.names = "layer.*", .weight_decay = 0.5, .learning_rate = 2}}};
  auto two = parameters({1});
  two.push_back(two[0]);
  two[1].name = "layer.bias";
  const auto p = learnt_parameters(two, o);
  EXPECT_EQ(p[0].weight_decay, 0.5);
  EXPECT_EQ(p[0].learning_rate, 2);
  EXPECT_EQ(p[1].weight_decay, 0);
  o.groups.push_back({.names = "head.*"});
  EXPECT_THAT(test::user_error([&] { (void)learnt_parameters(two, o); }),
              ::testing::HasSubstr("'head.*' names no parameter"));
}

TEST(Average, FollowsTheParameters) {
  const Optimiser o{.kind = Optimiser::Kind::sgd, .momentum = 0, .weight_decay = 0, .average = 0.75};
  auto p = learnt_parameters(parameters({4}), o);
  update(p[0], std::vector<float>{1}, 1, o, 1, 1);  // 3
  EXPECT_FLOAT_EQ(p[0].average[0], 3.75f);
}

TEST(OptimiserFields, HaveRanges) {
  EXPECT_THAT(test::user_error([] { check({.beta2 = 1}); }), ::testing::HasSubstr("beta2 is 1"));
  EXPECT_THAT(test::user_error([] { check({.accumulate = 0}); }), ::testing::HasSubstr("accumulate"));
  EXPECT_THAT(test::user_error([] { check({.clip_norm = std::nan("")}); }), ::testing::HasSubstr("clip_norm"));
  EXPECT_THAT(test::user_error([] { check({.nesterov = true}); }), ::testing::HasSubstr("nesterov"));
}

}  // namespace
}  // namespace unisono::training
