// The kernels that move the parameters of a training, beside the CPU's optimiser and its formulas in float64.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "support/float_convert.hpp"
#include "training/device_optimiser.hpp"

namespace unisono::gpu {
namespace {

using training::DeviceOptimiser;
using training::DeviceOrder;
using training::DeviceStep;
using training::LearntParameter;

// Parameters of odd extents: more than one part, rounded copies of several orders, one element
struct Case {
  std::vector<NetworkParameter> parameters;
  std::vector<DeviceOrder> orders;
  std::mt19937_64 random;

  explicit Case(std::uint64_t seed) : random(seed) {
    const auto any = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
    add({1}, {});
    add({any(1, 200)}, {1, 1, true});
    for (const std::uint32_t taps : {1u, 9u, 25u, 7u}) {
      const std::int64_t filters = any(1, 40), channels = any(1, 40);
      add({filters, channels, taps}, {static_cast<std::size_t>(channels), taps, taps != 25});
    }
    add({3, 5, 1000}, {5, 1000, true});
    add({any(4097, 9000)}, {});
  }
  std::vector<float> numbers(std::size_t count, double scale) {
    std::normal_distribution<double> normal(0, scale);
    std::vector<float> all(count);
    for (float& x : all) x = static_cast<float>(normal(random));
    return all;
  }

 private:
  void add(const std::vector<std::int64_t>& shape, const DeviceOrder& order) {
    std::size_t count = 1;
    for (const std::int64_t x : shape) count *= static_cast<std::size_t>(x);
    const std::string name = "p" + std::to_string(parameters.size());
    parameters.push_back({name, 0, shape, std::make_shared<const std::vector<float>>(numbers(count, 1)), "g" + name});
    orders.push_back(order);
  }
};

// What a training has on either side
struct Learning {
  static constexpr float part = 0.25f, factor = 1.25f;
  std::vector<LearntParameter> parameters;
  std::vector<float> running = std::vector<float>(131, 1.0f), batch = std::vector<float>(131, 3.0f);

  void move_statistics() {
    for (std::size_t i = 0; i < running.size(); ++i) running[i] += part * (batch[i] * factor - running[i]);
  }
};

class OnGpu {
 public:
  OnGpu(const Case& c, const Optimiser& o, Learning& l, const std::optional<LossScaling>& scaling = {})
      : o_(o),
        l_(l),
        optimiser_(0, o, scaling, Learning::part, l.parameters, c.orders, {{&l.running, Learning::factor}}) {
    optimiser_.upload(stream_.get());
    for (std::uint32_t i = 0; i < DeviceOptimiser::slots; ++i) launches_.push_back(optimiser_.launches(nullptr, i));
  }
  const UpdateResult& step(const std::vector<std::vector<float>>& gradients, float loss, const DeviceStep& step) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      put(optimiser_.gradient(i), optimiser_.in_order(i, gradients[i]));
    put(optimiser_.batch_statistic(0), l_.batch);
    put(optimiser_.loss(), {loss});
    optimiser_.prepare(step, stream_.get());
    for (const Launch& launch : launches_.at(step.slot)) launch.enqueue(stream_.get());
    cuda::wait(0, stream_.get());
    return optimiser_.result(step.slot);
  }
  void download() { optimiser_.download(); }
  void set_scale(const UpdateScale& scale) { optimiser_.set_scale(scale); }
  UpdateScale scale() {
    UpdateScale scale{};
    cuda::copy(0, &scale, optimiser_.loss_scale(), sizeof scale, stream_.get());
    cuda::wait(0, stream_.get());
    return scale;
  }
  void forget_failure() { optimiser_.forget_failure(stream_.get()); }
  std::vector<std::uint16_t> rounded(std::size_t i) {
    std::vector<std::uint16_t> all(l_.parameters[i].values.size());
    cuda::copy(0, all.data(), optimiser_.rounded(i), all.size() * 2, stream_.get());
    cuda::wait(0, stream_.get());
    return all;
  }

 private:
  void put(float* to, const std::vector<float>& from) {
    cuda::copy(0, to, from.data(), from.size() * sizeof(float), stream_.get());
  }
  Optimiser o_;
  Learning& l_;
  cuda::OwnStream stream_{0};
  DeviceOptimiser optimiser_;
  std::vector<std::vector<Launch>> launches_;  // by slot
};

std::vector<Optimiser> optimisers() {
  Optimiser adamw{.weight_decay = 0.1, .groups = {{"p1", 0, 1}, {"p3", 0.5, 3}}};
  Optimiser all = adamw;
  all.clip_norm = 2, all.accumulate = 3, all.average = 0.9;
  const Optimiser sgd{.kind = Optimiser::Kind::sgd, .weight_decay = 0.01, .groups = {{"p2", 0, 0.5}}};
  Optimiser nesterov = sgd, plain = sgd;
  nesterov.nesterov = true, nesterov.clip_norm = 1e9, nesterov.average = 0.5;
  plain.momentum = 0, plain.clip_norm = 0.5, plain.accumulate = 2;
  return {adamw, all, sgd, nesterov, plain};
}

// Relative to what a tensor of such numbers has
void expect_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(static_cast<double>(b[i])))) << what << ", element " << i;
}

void expect_near(const Learning& a, const Learning& b, double tolerance, const std::string& what) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const LearntParameter &p = a.parameters[i], &q = b.parameters[i];
    expect_near(p.values, q.values, tolerance, what + ", " + p.name);
    expect_near(p.first, q.first, tolerance, what + ", first of " + p.name);
    expect_near(p.second, q.second, tolerance, what + ", second of " + p.name);
    expect_near(p.average, q.average, tolerance, what + ", average of " + p.name);
    expect_near(p.accumulated, q.accumulated, tolerance, what + ", accumulated of " + p.name);
  }
  expect_near(a.running, b.running, tolerance, what + ", statistics");
}

bool same_bits(const Learning& a, const Learning& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    const LearntParameter &p = a.parameters[i], &q = b.parameters[i];
    if (p.values != q.values || p.first != q.first || p.second != q.second || p.average != q.average ||
        p.accumulated != q.accumulated)
      return false;
  }
  return a.running == b.running;
}

// A step as TrainerImpl makes it
void step_on_cpu(Learning& l, std::vector<std::vector<float>> gradients, const Optimiser& o, const DeviceStep& step) {
  l.move_statistics();
  for (std::size_t i = 0; i < gradients.size() && o.accumulate > 1; ++i)
    for (std::size_t k = 0; k < gradients[i].size(); ++k) {
      float& sum = l.parameters[i].accumulated[k];
      sum += gradients[i][k];
      if (step.is_update) gradients[i][k] = sum / static_cast<float>(o.accumulate), sum = 0;
    }
  if (!step.is_update) return;
  const double norm = training::norm_of(gradients);
  const double scale = o.clip_norm > 0 && norm > o.clip_norm ? o.clip_norm / norm : 1;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    training::update(l.parameters[i], gradients[i], scale, o, step.learning_rate, step.update);
}

class Steps {
 public:
  Steps(std::uint64_t seed, const Optimiser& o) : c(seed), o_(o) {
    learning.parameters = training::learnt_parameters(c.parameters, o);
  }
  DeviceStep next() {
    const std::int64_t number = ++steps_;
    return {.learning_rate = 0.01 / static_cast<double>(number),
            .update = (number - 1) / o_.accumulate + 1,
            .is_update = number % o_.accumulate == 0,
            .slot = static_cast<std::uint32_t>(number % 2)};
  }
  std::vector<std::vector<float>> gradients() {
    std::vector<std::vector<float>> all;
    for (const NetworkParameter& p : c.parameters) all.push_back(c.numbers(p.values->size(), 0.1));
    return all;
  }

  Case c;
  Learning learning;

 private:
  Optimiser o_;
  std::int64_t steps_ = 0;
};

TEST(Update, IsThatOfTheCpuAndTheSameEachTime) {
  std::uint64_t seed = 1;
  for (const Optimiser& o : optimisers()) {
    Steps steps(seed++, o);
    Learning cpu = steps.learning, twin = steps.learning;
    OnGpu gpu(steps.c, o, steps.learning), again(steps.c, o, twin);
    for (int i = 0; i < 7; ++i) {
      const DeviceStep step = steps.next();
      const auto gradients = steps.gradients();
      const UpdateResult told = gpu.step(gradients, 1.5f, step), second = again.step(gradients, 1.5f, step);
      EXPECT_EQ(told.outcome, kMoved);
      EXPECT_EQ(told.loss, 1.5f);
      EXPECT_NEAR(told.own_norm, training::norm_of(gradients), 1e-12 * told.own_norm);
      EXPECT_EQ(told.norm != 0, step.is_update);
      EXPECT_EQ(told.norm, second.norm);
      step_on_cpu(cpu, gradients, o, step);
    }
    gpu.download(), again.download();
    expect_near(steps.learning, cpu, 2e-6, "optimiser " + std::to_string(seed - 1));
    EXPECT_TRUE(same_bits(steps.learning, twin));
  }
}

// Beside float64: the formulas of the paper
TEST(Update, IsAdamw) {
  const Optimiser o{.weight_decay = 0.1};
  Steps steps(77, o);
  std::vector<double> x, m, v;
  for (const LearntParameter& p : steps.learning.parameters) x.insert(x.end(), p.values.begin(), p.values.end());
  m.resize(x.size()), v.resize(x.size());
  OnGpu gpu(steps.c, o, steps.learning);
  for (int t = 1; t <= 9; ++t) {
    const DeviceStep step = steps.next();
    const auto gradients = steps.gradients();
    gpu.step(gradients, 0, step);
    std::size_t i = 0;
    for (const auto& of_one : gradients)
      for (const double g : of_one) {
        m[i] = 0.9 * m[i] + 0.1 * g, v[i] = 0.999 * v[i] + 0.001 * g * g;
        const double unbiased = m[i] / (1 - std::pow(0.9, t)), root = std::sqrt(v[i] / (1 - std::pow(0.999, t)));
        x[i] -= step.learning_rate * (0.1 * x[i] + unbiased / (root + 1e-8)), ++i;
      }
  }
  gpu.download();
  std::size_t i = 0;
  for (const LearntParameter& p : steps.learning.parameters)
    for (const float value : p.values) {
      ASSERT_NEAR(value, x[i], 1e-6 * (1 + std::abs(x[i]))) << p.name;
      ++i;
    }
}

// (filter, channel, tap) → (filter, tap, channel), of what was uploaded and of what has moved
TEST(Update, KeepsCopiesIn16Bits) {
  const Optimiser o{};
  Steps steps(5, o);
  for (std::size_t i = 0; i < steps.c.orders.size(); ++i) steps.c.orders[i].is_f16 = i % 2 == 0;
  OnGpu gpu(steps.c, o, steps.learning);
  for (const bool has_moved : {false, true}) {
    if (has_moved) gpu.step(steps.gradients(), 0, steps.next()), gpu.download();
    for (std::size_t i = 0; i < steps.c.orders.size(); ++i) {
      if (!steps.c.orders[i].is_rounded) continue;
      const std::size_t channels = steps.c.orders[i].channels, taps = steps.c.orders[i].taps;
      const std::vector<float>& values = steps.learning.parameters[i].values;
      const std::vector<std::uint16_t> copy = gpu.rounded(i);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const std::size_t filter = k / (channels * taps), channel = k / taps % channels, tap = k % taps;
        const auto rounded =
            steps.c.orders[i].is_f16 ? support::float_to_f16(values[k]) : support::float_to_bf16(values[k]);
        ASSERT_EQ(copy[(filter * taps + tap) * channels + channel], rounded) << i << ", " << k;
      }
    }
  }
}

// Neither a step with such a number nor one behind it moves anything, until that is forgotten
TEST(Update, LeavesEverythingWhereANumberIsNotFinite) {
  for (const Optimiser& o : optimisers()) {
    Steps steps(9, o);
    OnGpu gpu(steps.c, o, steps.learning);
    gpu.step(steps.gradients(), 1, steps.next()), gpu.download();
    const Learning before = steps.learning;
    for (int what = 0; what < 3; ++what) {
      auto gradients = steps.gradients();
      const DeviceStep step = steps.next();
      if (what < 2) gradients[what == 0 ? 0 : 7].back() = what == 0 ? INFINITY : NAN;
      EXPECT_EQ(gpu.step(gradients, what == 2 ? NAN : 1.0f, step).outcome, kFailed);
      EXPECT_EQ(gpu.step(steps.gradients(), 1, step).outcome, kVoid);
      gpu.download();
      EXPECT_TRUE(same_bits(steps.learning, before)) << what;
      gpu.forget_failure();
    }
    EXPECT_EQ(gpu.step(steps.gradients(), 1, steps.next()).outcome, kMoved);
    gpu.download();
    EXPECT_FALSE(same_bits(steps.learning, before));
  }
}

// One of a loss's scale, as the CPU's training makes it
class Scaled {
 public:
  Scaled(const LossScaling& s, const Optimiser& o)
      : rule_(training::rule_of(s)), o_(o), now(training::first_scale(s)) {}
  /// Whether the step is skipped. `gradients`: divided by the scale
  bool step(Learning& l, const std::vector<std::vector<float>>& gradients, DeviceStep step) {
    auto means = gradients;
    for (std::size_t i = 0; i < means.size() && o_.accumulate > 1; ++i)
      for (std::size_t k = 0; k < means[i].size(); ++k) means[i][k] += l.parameters[i].accumulated[k];
    const bool skipped = is_skipped(now, std::isfinite(training::norm_of(means)), step.is_update);
    step.update = static_cast<std::int64_t>(now.made) + 1;
    if (!skipped) step_on_cpu(l, gradients, o_, step);
    if (skipped && step.is_update)
      for (LearntParameter& p : l.parameters) std::ranges::fill(p.accumulated, 0.0f);
    now = after_step(now, rule_, skipped, step.is_update);
    return skipped;
  }

 private:
  UpdateScaling rule_;
  Optimiser o_;

 public:
  UpdateScale now;
};

// With infinite gradients in some steps. The host knows how many updates there were but for the step ahead
TEST(Update, ScalesTheLossAsTheCpu) {
  std::uint64_t seed = 100;
  for (const Optimiser& o : optimisers()) {
    const LossScaling scaling{.initial = 1024, .growth = 4, .backoff = 0.125, .interval = 2};
    Steps steps(seed++, o);
    Learning cpu = steps.learning;
    OnGpu gpu(steps.c, o, steps.learning, scaling);
    Scaled scaled(scaling, o);
    std::uint64_t made = 0, skips = 0;
    for (int i = 0; i < 16; ++i) {
      DeviceStep step = steps.next();
      step.update = static_cast<std::int64_t>(made) + 1;
      made = scaled.now.made;
      auto gradients = steps.gradients();
      if (i % 5 == 3) gradients[i % 2 == 0 ? 0 : 7].back() = i % 2 == 0 ? INFINITY : NAN;
      auto given = gradients;
      const float factor = inverse_of(scaled.now);
      for (auto& of_one : given)
        for (float& x : of_one) x *= scaled.now.scale;
      for (std::size_t p = 0; p < given.size(); ++p)
        for (std::size_t k = 0; k < given[p].size(); ++k) gradients[p][k] = given[p][k] * factor;
      const UpdateResult& told = gpu.step(given, 1.5f, step);
      EXPECT_EQ(gpu.scale().factors[0] * gpu.scale().factors[1], scaled.now.scale) << "what kernels of the step read";
      const bool skipped = scaled.step(cpu, gradients, step);
      EXPECT_EQ(told.outcome, skipped ? kSkipped : kMoved) << i;
      EXPECT_EQ(std::memcmp(&told.scale, &scaled.now, sizeof told.scale), 0) << i;
      skips += skipped ? 1 : 0;
    }
    EXPECT_GE(skips, 3);
    gpu.download();
    expect_near(steps.learning, cpu, 2e-6, "optimiser " + std::to_string(seed - 1));
  }
}

TEST(Update, FailsWhereTheScaleCannotBeLowered) {
  const Optimiser o{};
  Steps steps(9, o);
  OnGpu gpu(steps.c, o, steps.learning, LossScaling{.initial = 1.0 / 8192});
  gpu.download();
  const Learning before = steps.learning;
  auto gradients = steps.gradients();
  gradients[0][0] = INFINITY;
  EXPECT_EQ(gpu.step(gradients, 1, steps.next()).outcome, kSkipped);
  EXPECT_EQ(gpu.step(gradients, 1, steps.next()).outcome, kFailed);
  EXPECT_EQ(gpu.step(steps.gradients(), 1, steps.next()).outcome, kVoid);
  gpu.download();
  EXPECT_TRUE(same_bits(steps.learning, before));
}

}  // namespace
}  // namespace unisono::gpu
