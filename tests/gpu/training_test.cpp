// Trainings on a GPU, next to those of the CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host_steps/networks.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/float_convert.hpp"
#include "support/says.hpp"
#include "training/device_steps.hpp"
#include "unisono/error.hpp"
#include "unisono/training.hpp"

namespace unisono::gpu {
namespace {

using ::testing::HasSubstr;

using Views = std::map<std::string, ConstTensorView>;

NetworkValue weights(NetworkBuilder& net, const char* name, const Shape& shape, float scale = 0.3f) {
  std::size_t count = 1;
  for (const Dim& d : shape) count *= static_cast<std::size_t>(d.value());
  std::vector<float> w(count);
  for (std::size_t i = 0; i < count; ++i) w[i] = scale * std::sin(static_cast<float>(7 * i + 1));
  return net.constant(name, shape, std::move(w));
}

// Convolutions with what a U-Net has between them
Network small_unet() {
  NetworkBuilder net("small U-Net");
  const NetworkValue x = net.input("x", {2, 3, 8, 12});
  const NetworkValue h = conv2d(x, weights(net, "first", {16, 3, 3, 3}), {.pad = 1});
  const NetworkValue top = silu(group_norm(h, {.groups = 4, .scale = weights(net, "scale", {16})}));
  const NetworkValue low =
      silu(conv2d(max_pool(top), weights(net, "second", {8, 16, 3, 3}), weights(net, "bias", {8}), {.pad = 1}));
  net.output(conv2d(concat({upsample(low), top}), weights(net, "head", {8, 24, 1, 1})), "y");
  return net.build();
}

// With running statistics, and a filter that has no multiple of 8 channels
Network normalised_by_batch() {
  NetworkBuilder net("batch norms");
  const NetworkValue x = net.input("x", {2, 5, 6, 6});
  const NetworkValue h = conv2d(x, weights(net, "first", {16, 5, 3, 3}), {.pad = 1});
  const NetworkValue mean = net.constant("mean", {16}, std::vector<float>(16)),
                     variance = net.constant("variance", {16}, std::vector<float>(16, 1.0f));
  const NetworkValue n =
      relu(batch_norm(h, weights(net, "scale", {16}, 1), weights(net, "shift", {16}), mean, variance));
  net.output(conv2d(n, weights(net, "head", {3, 16, 1, 1})), "y");
  return net.build();
}

struct Data {
  HostTensors tensors;
  Data(const std::map<std::string, std::vector<std::int64_t>>& shapes, std::uint64_t seed)
      : tensors(random_inputs(shapes, seed)) {}
  Views views() const { return gpu::views<ConstTensorView>(tensors); }
};
Data unet_data(std::uint64_t seed) { return {{{"x", {2, 3, 8, 12}}, {"target", {2, 8, 8, 12}}}, seed}; }
Data batch_data(std::uint64_t seed) { return {{{"x", {2, 5, 6, 6}}, {"target", {2, 3, 6, 6}}}, seed}; }

bool same(const TrainerState& a, const TrainerState& b) {
  return a.steps == b.steps && a.updates == b.updates && a.values == b.values && a.shapes == b.shapes &&
         a.loss_scale == b.loss_scale;
}

TrainerOptions on_gpu(const Optimiser& o = {}) { return {.optimiser = o, .device = Device::cuda}; }
TrainerOptions on_cpu(const Optimiser& o = {}) { return {.optimiser = o, .threads = 1}; }

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<double> losses_of(Trainer& trainer, int steps, bool ahead = false) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const Data data = unet_data(3);
    if (!ahead)
      losses.push_back(trainer.step(data.views(), 0.02).loss);
    else if (const auto before = trainer.begin_step(data.views(), 0.02))
      losses.push_back(before->loss);
  }
  if (ahead) losses.push_back(trainer.finish_step()->loss);
  EXPECT_FALSE(trainer.finish_step());
  return losses;
}

TEST(TrainingOnGpu, StepsAreThoseOfTheCpuAndTheSameEachTime) {
  Trainer cpu(small_unet(), mean_squared_error(), on_cpu()), gpu(small_unet(), mean_squared_error(), on_gpu()),
      again(small_unet(), mean_squared_error(), on_gpu());
  const std::vector<double> expected = losses_of(cpu, 6), losses = losses_of(gpu, 6);
  EXPECT_EQ(losses_of(again, 6, true), losses);  // with a step in flight
  EXPECT_TRUE(same(again.state(), gpu.state()));
  EXPECT_LT(losses.back(), 0.9 * losses.front());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]) << i;
  const Data held = unet_data(4);
  EXPECT_NEAR(gpu.evaluate(held.views()), cpu.evaluate(held.views()), 0.02);
  // what is given back is what was evaluated
  Trainer copy(gpu.network(), mean_squared_error(), on_gpu());
  EXPECT_EQ(copy.evaluate(held.views()), gpu.evaluate(held.views()));
}

// The root of the mean square of differences: AdamW moves an element by its rate, however small the gradient is
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

std::vector<Optimiser> optimisers() {
  Optimiser adamw{.weight_decay = 0.05, .groups = {{"*shift", 0, 2}}, .clip_norm = 0.5, .accumulate = 2};
  adamw.average = 0.8;
  return {adamw,
          {.kind = Optimiser::Kind::sgd, .nesterov = true, .groups = {{"scale", 0, 0.5}}, .accumulate = 3},
          {.kind = Optimiser::Kind::sgd, .momentum = 0, .clip_norm = 0.1}};
}

// Averages, accumulated gradients and running statistics, too; begun by a state that the GPU or the CPU left
TEST(TrainingOnGpu, GoesOnBitByBit) {
  for (const Optimiser& o : optimisers()) {
    Trainer whole(normalised_by_batch(), mean_squared_error(), on_gpu(o)),
        first(normalised_by_batch(), mean_squared_error(), on_gpu(o)),
        second(normalised_by_batch(), mean_squared_error(), on_gpu(o)),
        cpu(normalised_by_batch(), mean_squared_error(), on_cpu(o));
    for (std::uint64_t i = 0; i < 7; ++i) {
      const StepResult a = whole.step(batch_data(i).views(), 0.05), b = cpu.step(batch_data(i).views(), 0.05);
      EXPECT_EQ(a.updated, b.updated);
      EXPECT_NEAR(a.loss, b.loss, 0.02 * b.loss);
      EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 0.05 * b.gradient_norm);
    }
    for (std::uint64_t i = 0; i < 4; ++i) first.step(batch_data(i).views(), 0.05);
    second.step(batch_data(9).views(), 0.3);
    second.set_state(first.state());
    for (std::uint64_t i = 4; i < 7; ++i) second.begin_step(batch_data(i).views(), 0.05);
    EXPECT_TRUE(same(whole.state(), second.state()));
    EXPECT_TRUE(second.finish_step()) << "state() keeps the result";
    EXPECT_EQ(whole.state().updates, 7 / o.accumulate);
    const TrainerState gpu = whole.state(), expected = cpu.state();
    for (const auto& [name, values] : expected.values) {
      if (name.starts_with("optimiser.")) continue;
      EXPECT_LT(distance(gpu.values.at(name), values), 0.02) << name;
    }
    cpu.set_state(gpu);
    EXPECT_NEAR(cpu.evaluate(batch_data(1).views()), whole.evaluate(batch_data(1).views()), 0.02);
    if (o.average == 0) continue;
    EXPECT_NEAR(cpu.evaluate(batch_data(1).views(), true), whole.evaluate(batch_data(1).views(), true), 0.02);
    EXPECT_NE(whole.evaluate(batch_data(1).views(), true), whole.evaluate(batch_data(1).views(), false));
  }
}

TrainerOptions in_f16(Device device, const LossScaling& scaling, const Optimiser& o = {}) {
  TrainerOptions options{.optimiser = o, .loss_scaling = scaling, .threads = 1};
  options.device = device, options.precision = DType::f16;
  return options;
}

// A scale of 65536 is no number of f16. Gradients of this loss, far below the least of f16, get there by it alone
TEST(TrainingOnGpu, ScalesTheLossInF16) {
  const Loss tiny = [](NetworkBuilder& net, const NamedTensors& tensors) {
    return mean_squared_error()(net, tensors) * 1e-4;
  };
  Trainer cpu(small_unet(), tiny, in_f16(Device::cpu, {})), gpu(small_unet(), tiny, in_f16(Device::cuda, {})),
      again(small_unet(), tiny, in_f16(Device::cuda, {}));
  const std::vector<double> expected = losses_of(cpu, 6), losses = losses_of(gpu, 6);
  EXPECT_EQ(losses_of(again, 6, true), losses);
  EXPECT_TRUE(same(again.state(), gpu.state()));
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 0.01 * expected[i]) << i;
  EXPECT_EQ(gpu.state().loss_scale, cpu.state().loss_scale);
  EXPECT_EQ(gpu.state().loss_scale, (LossScaleState{.scale = 65536, .good = 6}));
  const StepResult a = gpu.step(unet_data(3).views(), 0.02), b = cpu.step(unet_data(3).views(), 0.02);
  EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 0.03 * b.gradient_norm);
}

// Steps whose inputs are not finite, with a step in flight: the decisions are the CPU's, and go on from a checkpoint
TEST(TrainingOnGpu, SkipsStepsAsTheCpu) {
  for (const Optimiser& o : optimisers()) {
    const auto options = [&](Device device) { return in_f16(device, {.initial = 256, .interval = 2}, o); };
    Trainer cpu(normalised_by_batch(), mean_squared_error(), options(Device::cpu)),
        gpu(normalised_by_batch(), mean_squared_error(), options(Device::cuda)),
        resumed(normalised_by_batch(), mean_squared_error(), options(Device::cuda));
    std::vector<StepResult> expected, told;
    for (std::uint64_t i = 0; i < 14; ++i) {
      Data data = batch_data(i);
      if (i % 6 == 3) data.tensors.at("x").data[i] = std::nanf("");
      expected.push_back(cpu.step(data.views(), 0.01));
      if (const auto before = gpu.begin_step(data.views(), 0.01)) told.push_back(*before);
      if (i == 5) resumed.set_state(gpu.state());
      if (i > 5) resumed.step(data.views(), 0.01);
    }
    told.push_back(*gpu.finish_step());
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].skipped, expected[i].skipped) << i;
      EXPECT_EQ(told[i].updated, expected[i].updated) << i;
      EXPECT_EQ(told[i].loss_scale, expected[i].loss_scale) << i;
      EXPECT_NEAR(told[i].gradient_norm, expected[i].gradient_norm, 0.05 * expected[i].gradient_norm) << i;
    }
    EXPECT_EQ(gpu.state().updates, cpu.state().updates);
    EXPECT_EQ(gpu.state().loss_scale, cpu.state().loss_scale);
    EXPECT_GE(gpu.state().loss_scale->skipped, 1);
    EXPECT_TRUE(same(gpu.state(), resumed.state()));
    for (const TrainerState expected_state = cpu.state(); const auto& [name, values] : expected_state.values) {
      if (name.starts_with("optimiser.")) continue;
      EXPECT_LT(distance(gpu.state().values.at(name), values), 0.02) << name;
    }
  }
}

// The step in flight behind it moves nothing either, and the next one is as if neither had been
TEST(TrainingOnGpu, WhatIsNotFiniteChangesNothing) {
  Trainer t(normalised_by_batch(), mean_squared_error(), on_gpu()),
      spared(normalised_by_batch(), mean_squared_error(), on_gpu());
  for (Trainer* trainer : {&t, &spared}) trainer->step(batch_data(1).views(), 0.01);
  const TrainerState before = t.state();
  Data broken = batch_data(2);
  broken.tensors.at("x").data[5] = std::nanf("");
  EXPECT_THAT(error_of([&] { t.step(broken.views(), 0.01); }), HasSubstr("in step 2 the loss is nan"));
  EXPECT_TRUE(same(before, t.state()));
  EXPECT_FALSE(t.begin_step(broken.views(), 0.01));
  EXPECT_THAT(error_of([&] { t.begin_step(batch_data(3).views(), 0.01); }), HasSubstr("in step 2 the loss is nan"));
  EXPECT_FALSE(t.finish_step());
  EXPECT_FALSE(t.begin_step(broken.views(), 0.01));
  EXPECT_TRUE(same(before, t.state())) << "waits, and keeps the failure";
  EXPECT_THAT(error_of([&] { t.finish_step(); }), HasSubstr("in step 2 the loss is nan"));
  for (Trainer* trainer : {&t, &spared}) trainer->step(batch_data(3).views(), 0.01);
  EXPECT_TRUE(same(t.state(), spared.state()));
  EXPECT_THAT(error_of([&] { t.step(batch_data(1).views(), -1); }), HasSubstr("learning rate is -1"));
}

Network classifier_of_rows() {
  NetworkBuilder net("classifier");
  net.output(gemm(net.input("x", {6, 24}), weights(net, "w", {24, 16})), "y");
  return net.build();
}

TEST(TrainingOnGpu, AClassThatIsNoneChangesNothing) {
  Trainer t(classifier_of_rows(), cross_entropy(), on_gpu()), cpu(classifier_of_rows(), cross_entropy(), on_cpu());
  const Data data({{"x", {6, 24}}}, 1);
  std::vector<std::int64_t> classes{0, 5, 15, -1, 3, 2};
  Views inputs = data.views();
  inputs["target"] = {classes.data(), DType::i64, {6}, {}};
  EXPECT_NEAR(t.step(inputs, 0.01).loss, cpu.step(inputs, 0.01).loss, 0.02);
  const TrainerState before = t.state();
  classes[4] = 16;
  EXPECT_THAT(error_of([&] { t.step(inputs, 0.01); }), Says("index 16 is outside … extent 16"));
  EXPECT_TRUE(same(before, t.state()));
  classes[4] = 1;
  EXPECT_NEAR(t.step(inputs, 0.01).loss, cpu.step(inputs, 0.01).loss, 0.02);
  EXPECT_EQ(t.state().steps, 2);
}

// Inputs on the GPU are read in place: a slice of classes begins at any multiple of 8 bytes
TEST(TrainingOnGpu, ClassesAtAnyAddress) {
  const Data data({{"x", {6, 24}}}, 1);
  const std::vector<std::int64_t> classes{7, 0, 5, 15, 1, 3, 2, 7};
  const cuda::DeviceBuffer there(0, classes.data(), classes.size() * sizeof(std::int64_t));
  const auto trained = [&](const std::int64_t* first) {
    Trainer t(classifier_of_rows(), cross_entropy(), on_gpu());
    Views inputs = data.views();
    inputs["target"] = {first, DType::i64, {6}, {}};
    t.begin_step(inputs, 0.01), t.begin_step(inputs, 0.01);  // by both lanes
    return t.state();
  };
  const auto* const on_gpu = static_cast<const std::int64_t*>(there.data());
  for (const int first : {0, 1, 2})
    EXPECT_TRUE(same(trained(classes.data() + first), trained(on_gpu + first))) << first;
}

// In the host's memory or the GPU's, in 16 bits, with other strides: the same step
TEST(TrainingOnGpu, InputsOfAnyKind) {
  Data data = batch_data(5);
  for (auto& [name, t] : data.tensors)
    for (float& x : t.data) x = support::bf16_to_float(support::float_to_bf16(x));
  const HostTensor& x = data.tensors.at("x");
  const cuda::DeviceBuffer there(0, x.data.data(), x.data.size() * sizeof(float));
  std::vector<std::uint16_t> rounded;
  for (const float v : x.data) rounded.push_back(support::float_to_bf16(v));
  std::vector<float> pixels(x.data.size());  // channels last
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[(i / 180 * 36 + i % 36) * 5 + i / 36 % 5] = x.data[i];
  const std::vector<ConstTensorView> kinds{{x.data.data(), DType::f32, x.shape, {}},
                                           {there.data(), DType::f32, x.shape, {}},
                                           {rounded.data(), DType::bf16, x.shape, {}},
                                           {pixels.data(), DType::f32, x.shape, {180, 1, 30, 5}}};
  Trainer t(normalised_by_batch(), mean_squared_error(), on_gpu());
  const TrainerState start = t.state();
  std::optional<TrainerState> expected;
  for (const ConstTensorView& kind : kinds) {
    Views inputs = data.views();
    inputs["x"] = kind;
    t.set_state(start);
    t.begin_step(inputs, 0.01), t.begin_step(inputs, 0.01);  // by both lanes
    if (!expected) expected = t.state();
    EXPECT_TRUE(same(*expected, t.state()));
  }
  Views inputs = data.views();
  inputs["x"] = {there.data(), DType::f32, x.shape, {180, 1, 30, 5}};
  EXPECT_THAT(error_of([&] { t.step(inputs, 0.01); }), HasSubstr("expected (180,36,6,1), row-major"));
  const cuda::DeviceBuffer half(0, x.data.data(), x.data.size() * sizeof(float) / 2);
  inputs["x"] = {half.data(), DType::f32, x.shape, {}};
  EXPECT_THAT(error_of([&] { t.step(inputs, 0.01); }), HasSubstr("the input 'x'"));
  inputs.erase("x");
  EXPECT_THAT(error_of([&] { t.step(inputs, 0.01); }), HasSubstr("'x' is missing"));
}

// No launch copies a gradient to where it is read
TEST(TrainingOnGpu, GradientsAreWrittenWhereTheyAreRead) {
  const GradientNetwork g = gradients(small_unet(), mean_squared_error());
  const TrainerOptions options = on_gpu();
  const NetworkOptions network{.device = Device::cuda};
  std::vector<training::LearntParameter> parameters = training::learnt_parameters(g.parameters, options.optimiser);
  training::DeviceSteps steps(g, network, options, parameters, {});
  steps.begin(unet_data(1).views(), {.learning_rate = 0.01});
  EXPECT_EQ(steps.finish().outcome, kMoved);
  Shapes shapes;
  for (const TensorId id : g.network.inputs)
    for (const Dim& d : g.network[id].shape) shapes[g.network[id].name].push_back(d.value());
  const DeviceReport report = explain_device(g.network, training::with_weights(network, g), shapes);
  const auto copies = std::ranges::count_if(
      report.launches, [](const LaunchReport& l) { return l.name.starts_with("output gradient:"); });
  const auto vectors = std::ranges::count_if(
      report.launches, [](const LaunchReport& l) { return l.how.starts_with("sums over images"); });
  EXPECT_EQ(copies, 5);
  EXPECT_EQ(vectors, 1) << "the scale's, which the launch of the input's gradient writes";
  EXPECT_EQ(steps.launches(), report.launches.size() - static_cast<std::size_t>(copies + vectors) + 2);
}

// A part of the network that the host computes divides the step into two graphs. The update waits for both, also for
// gradients that the host makes
TEST(TrainingOnGpu, WithHostSteps) {
  for (const char* host : {"silu,sigmoid", "filter_gradient", "filter_gradient,reduce_sum"}) {
    ::setenv("UNISONO_HOST_STEPS", host, 1);
    Trainer t(small_unet(), mean_squared_error(), on_gpu());
    Trainer cpu(small_unet(), mean_squared_error(), on_cpu());
    for (int i = 0; i < 3; ++i) {
      const StepResult a = t.step(unet_data(3).views(), 0.02), b = cpu.step(unet_data(3).views(), 0.02);
      EXPECT_NEAR(a.loss, b.loss, 0.02) << host;
      EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 0.03 * b.gradient_norm) << host;
    }
    ::unsetenv("UNISONO_HOST_STEPS");
  }
}

}  // namespace
}  // namespace unisono::gpu
