#include "unisono/training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../network/cases.hpp"
#include "support/says.hpp"
#include "unisono/elements.hpp"

namespace unisono {
namespace {

using test::random_elements;
using test::user_error;

// A small U-Net: convolutions, a norm, pooling, upsampling, a skip
Network small_unet(bool batch_norms) {
  test::Random r(5);
  NetworkBuilder net("small");
  const auto weights = [&](const std::string& name, Shape shape) {
    std::int64_t count = 1;
    for (const Dim& d : shape) count *= d.value();
    return net.constant(name, shape, random_elements(r, count, 0.3));
  };
  const auto block = [&](NetworkValue x, std::int64_t from, std::int64_t to, const std::string& name) {
    const NetworkValue h = conv2d(x, weights(name + ".w", {to, from, 3, 3}), weights(name + ".b", {to}), {.pad = 1});
    const NetworkValue scale =
                           net.constant(name + ".scale", {to}, std::vector<float>(static_cast<std::size_t>(to), 1.0f)),
                       shift = weights(name + ".shift", {to});
    if (!batch_norms) return silu(group_norm(h, {.groups = 2, .scale = scale, .shift = shift}));
    const std::vector<float> zeros(static_cast<std::size_t>(to)), ones(static_cast<std::size_t>(to), 1.0f);
    return relu(batch_norm(h, scale, shift, net.constant(name + ".mean", {to}, zeros),
                           net.constant(name + ".variance", {to}, ones)));
  };
  const NetworkValue x = net.input("image", {"batch", 3, 8, 8});
  const NetworkValue top = block(x, 3, 4, "top");
  const NetworkValue low = block(max_pool(top), 4, 6, "low");
  const NetworkValue joined = block(concat({upsample(low), top}), 10, 4, "up");
  net.output(conv2d(joined, weights("head.w", {2, 4, 1, 1}), weights("head.b", {2})), "logits");
  return net.build();
}

class TrainingOf : public ::testing::Test {
 protected:
  static constexpr std::int64_t batch = 4;
  std::map<std::string, ConstTensorView> inputs(std::uint64_t seed) {
    test::Random r(seed);
    image_ = random_elements(r, batch * 3 * 64);
    target_.resize(static_cast<std::size_t>(batch * 2 * 64));
    for (std::size_t i = 0; i < target_.size(); ++i)  // of channel 0 and 1: where the red, or green, is positive
      target_[i] = image_[i / 128 * 192 + i % 128] > 0 ? 1.0f : 0.0f;
    return {{"image", view(std::as_const(image_), {batch, 3, 8, 8})},
            {"target", view(std::as_const(target_), {batch, 2, 8, 8})}};
  }
  static TrainerOptions options(int threads = 1) {
    return {.extents = {{"batch", batch}}, .optimiser = {.weight_decay = 0.01, .clip_norm = 1}, .threads = threads};
  }
  static bool same(const TrainerState& a, const TrainerState& b) {
    return a.steps == b.steps && a.updates == b.updates && a.values == b.values && a.shapes == b.shapes &&
           a.loss_scale == b.loss_scale;
  }

  std::vector<float> image_, target_;
};

TEST_F(TrainingOf, ASmallUnetLearns) {
  for (const bool batch_norms : {false, true}) {
    Trainer t(small_unet(batch_norms), binary_cross_entropy(), options());
    const double before = t.evaluate(inputs(999));
    for (std::uint64_t i = 0; i < 150; ++i) t.step(inputs(i), 0.02);
    const double after = t.evaluate(inputs(999));
    EXPECT_GT(before, 0.6);
    EXPECT_LT(after, 0.25) << batch_norms;
    // the network that is given back is what was evaluated
    Trainer again(t.network(), binary_cross_entropy(), options());
    EXPECT_NEAR(again.evaluate(inputs(999)), after, 1e-6);
  }
}

TEST_F(TrainingOf, TheSameBitsTwiceAndAfterAState) {
  for (const Optimiser::Kind kind : {Optimiser::Kind::adamw, Optimiser::Kind::sgd}) {
    TrainerOptions o = options(2);
    o.optimiser.kind = kind, o.optimiser.accumulate = 2, o.optimiser.average = 0.9;
    Trainer whole(small_unet(true), binary_cross_entropy(), o), first(small_unet(true), binary_cross_entropy(), o);
    for (std::uint64_t i = 0; i < 7; ++i) whole.step(inputs(i), 0.01);
    for (std::uint64_t i = 0; i < 3; ++i) first.step(inputs(i), 0.01);  // between two updates
    Trainer second(small_unet(true), binary_cross_entropy(), o);
    second.set_state(first.state());
    for (std::uint64_t i = 3; i < 7; ++i) second.step(inputs(i), 0.01);
    EXPECT_TRUE(same(whole.state(), second.state()));
    EXPECT_EQ(whole.state().updates, 3);
    EXPECT_NE(whole.evaluate(inputs(1), true), whole.evaluate(inputs(1), false));
  }
}

// Two steps of half a batch each make the update of the whole one
TEST_F(TrainingOf, GradientsAreAccumulated) {
  TrainerOptions o = options();
  o.optimiser.kind = Optimiser::Kind::sgd;
  Trainer whole(small_unet(false), mean_squared_error(), o);
  o.extents["batch"] = batch / 2, o.optimiser.accumulate = 2;
  Trainer halves(small_unet(false), mean_squared_error(), o);
  auto in = inputs(3);
  EXPECT_TRUE(whole.step(in, 0.1).updated);
  for (const bool second : {false, true}) {
    const std::map<std::string, ConstTensorView> half{
        {"image", {image_.data() + (second ? image_.size() / 2 : 0), DType::f32, {batch / 2, 3, 8, 8}, {}}},
        {"target", {target_.data() + (second ? target_.size() / 2 : 0), DType::f32, {batch / 2, 2, 8, 8}, {}}}};
    EXPECT_EQ(halves.step(half, 0.1).updated, second);
  }
  const auto a = whole.state().values, b = halves.state().values;
  for (const auto& p : whole.parameters())
    for (std::size_t i = 0; i < a.at(p.name).size(); ++i) EXPECT_NEAR(a.at(p.name)[i], b.at(p.name)[i], 2e-6) << p.name;
}

TEST_F(TrainingOf, ClippingBoundsTheNorm) {
  TrainerOptions o = options();
  o.optimiser = {.kind = Optimiser::Kind::sgd, .momentum = 0, .weight_decay = 0, .clip_norm = 0.01};
  Trainer t(small_unet(false), binary_cross_entropy(), o);
  const TrainerState before = t.state();
  EXPECT_GT(t.step(inputs(1), 1).gradient_norm, 0.01);
  double moved = 0;
  for (const auto& [name, values] : t.state().values)
    for (std::size_t i = 0; i < values.size(); ++i) moved += std::pow(values[i] - before.values.at(name)[i], 2);
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-4);
}

TEST_F(TrainingOf, RunningStatisticsMove) {
  Trainer t(small_unet(true), binary_cross_entropy(), options());
  t.step(inputs(1), 0);
  const auto values = t.state().values;
  EXPECT_NE(values.at("top.mean")[0], 0);
  EXPECT_NE(values.at("top.variance")[0], 1);
  // at a learning rate of 0 all steps have the same statistics, which the running ones come near
  const auto in = inputs(1);
  for (int i = 0; i < 200; ++i) t.step(in, 0);
  EXPECT_NEAR(t.evaluate(in), t.step(in, 0).loss, 2e-3);
}

TEST_F(TrainingOf, WhatIsNotFiniteChangesNothing) {
  Trainer t(small_unet(false), binary_cross_entropy(), options());
  t.step(inputs(1), 0.01);
  const TrainerState before = t.state();
  auto in = inputs(2);
  image_[5] = std::nanf("");
  EXPECT_THAT(user_error([&] { t.step(in, 0.01); }), ::testing::HasSubstr("in step 2 the loss is nan"));
  EXPECT_TRUE(same(before, t.state()));
  EXPECT_THAT(user_error([&] { t.step(inputs(2), -1); }), ::testing::HasSubstr("learning rate is -1"));
}

// The scale is a power of two, so that nothing is rounded
TEST_F(TrainingOf, AScaleOfTheLossChangesNoBits) {
  Trainer plain(small_unet(true), binary_cross_entropy(), options());
  TrainerOptions o = options();
  o.loss_scaling = {.initial = 1024, .interval = 2};
  Trainer scaled(small_unet(true), binary_cross_entropy(), o);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const StepResult a = plain.step(inputs(i), 0.01), b = scaled.step(inputs(i), 0.01);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm);
    EXPECT_EQ(b.loss_scale, i < 2 ? 1024 : i < 4 ? 2048 : 4096);
    EXPECT_FALSE(b.skipped);
  }
  TrainerState state = scaled.state();
  EXPECT_EQ(state.loss_scale, (LossScaleState{.scale = 4096, .good = 1}));
  state.loss_scale.reset();
  EXPECT_TRUE(same(plain.state(), state));
  EXPECT_THAT(user_error([&] { scaled.set_state(state); }), Says("without loss scaling, … leave out"));
  EXPECT_EQ(scaled.input_shapes().size(), 2);
}

// The second of an update's three steps is not finite; the next update is as if this one had not been
TEST_F(TrainingOf, SkipsUpdatesThatAreNotFinite) {
  TrainerOptions o = options();
  o.optimiser.accumulate = 3;
  o.loss_scaling = {.initial = 8, .growth = 2, .backoff = 0.25, .interval = 1};
  const auto bad = [&](std::uint64_t i) {
    auto in = inputs(i);
    image_[5] = INFINITY;
    return in;
  };
  Trainer t(small_unet(true), binary_cross_entropy(), o), resumed(small_unet(true), binary_cross_entropy(), o),
      twin(small_unet(true), binary_cross_entropy(), o);
  for (std::uint64_t i = 0; i < 3; ++i) t.step(inputs(i), 0.01), twin.step(inputs(i), 0.01);
  EXPECT_EQ(t.state().loss_scale, (LossScaleState{.scale = 16}));
  EXPECT_FALSE(t.step(inputs(4), 0).skipped);
  EXPECT_TRUE(t.step(bad(5), 0.01).skipped);
  resumed.set_state(t.state());
  for (Trainer* one : {&t, &resumed}) {
    const StepResult last = one->step(inputs(6), 0.01);
    EXPECT_TRUE(last.skipped);
    EXPECT_FALSE(last.updated);
    EXPECT_EQ(one->state().updates, 1);
    EXPECT_EQ(one->state().steps, 6);
    EXPECT_EQ(one->state().loss_scale, (LossScaleState{.scale = 4, .skipped = 1}));
    const auto before = one->state().values;
    for (const auto& p : one->parameters()) EXPECT_EQ(before.at(p.name), twin.state().values.at(p.name));
    for (std::uint64_t i = 7; i < 10; ++i) one->step(inputs(i), 0.01);
    EXPECT_EQ(one->state().updates, 2);
  }
  EXPECT_TRUE(same(t.state(), resumed.state()));
  for (std::uint64_t i = 7; i < 10; ++i) twin.step(inputs(i), 0.01);
  for (const auto& p : t.parameters())  // batch statistics had moved by step 4
    EXPECT_EQ(t.state().values.at(p.name), twin.state().values.at(p.name)) << p.name;
}

TEST_F(TrainingOf, AScaleThatCannotFallIsAnError) {
  TrainerOptions o = options();
  o.loss_scaling = {.initial = 1.0 / 8192};
  Trainer t(small_unet(true), binary_cross_entropy(), o);
  auto in = inputs(2);
  image_[5] = std::nanf("");
  EXPECT_TRUE(t.step(in, 0.01).skipped);
  const TrainerState before = t.state();
  EXPECT_THAT(user_error([&] { t.step(in, 0.01); }),
              ::testing::HasSubstr("loss scale of 6.1035156e-05 after 1 skipped updates"));
  EXPECT_TRUE(same(before, t.state()));
  for (const LossScaling& wrong :
       {LossScaling{.initial = 0}, {.growth = 1}, {.backoff = 1}, {.interval = 0}, {.initial = std::nan("")}}) {
    o.loss_scaling = wrong;
    EXPECT_THAT(user_error([&] { Trainer(small_unet(true), binary_cross_entropy(), o); }),
                ::testing::HasSubstr("loss_scaling"));
  }
}

TEST_F(TrainingOf, ResultsComeAStepLate) {
  Trainer t(small_unet(true), binary_cross_entropy(), options()),
      twin(small_unet(true), binary_cross_entropy(), options());
  const double first = twin.step(inputs(1), 0.01).loss, second = twin.step(inputs(2), 0.01).loss;
  EXPECT_FALSE(t.begin_step(inputs(1), 0.01));
  EXPECT_EQ(t.begin_step(inputs(2), 0.01)->loss, first);
  EXPECT_TRUE(same(t.state(), twin.state()));
  EXPECT_EQ(t.finish_step()->loss, second);
  EXPECT_FALSE(t.finish_step());
  EXPECT_FALSE(t.begin_step(inputs(3), 0.01));
}

TEST_F(TrainingOf, ErrorsSayWhatIsWrong) {
  Trainer t(small_unet(false), binary_cross_entropy(), options());
  auto in = inputs(1);
  in["labels"] = in["target"];
  EXPECT_THAT(user_error([&] { t.step(in, 0.01); }),
              ::testing::HasSubstr("'labels' is not an input; expected image, target"));
  EXPECT_THAT(user_error([&] { (void)t.network(true); }), ::testing::HasSubstr("no average"));
  TrainerState other = t.state();
  other.values.erase("head.b");
  EXPECT_THAT(user_error([&] { t.set_state(other); }),
              ::testing::AllOf(::testing::HasSubstr("no 'head.b'"), Says("Optimiser … saved with")));
  other = t.state();
  other.values["head.b"].push_back(0);
  EXPECT_THAT(user_error([&] { t.set_state(other); }), ::testing::HasSubstr("'head.b' has 3 elements"));
  TrainerOptions statistics = options();
  statistics.parameters = {{"top.w", "top.mean"}};
  EXPECT_THAT(user_error([&] { Trainer(small_unet(true), binary_cross_entropy(), statistics); }),
              ::testing::HasSubstr("'top.mean' is a stored statistic"));
}

}  // namespace
}  // namespace unisono
