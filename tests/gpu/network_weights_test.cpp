// Weights that kernels read where the caller has them: NetworkOptions::weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/device.hpp"
#include "gpu/network_problem.hpp"
#include "support/float_convert.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

constexpr std::size_t result_elements = 2 * 24 * 9 * 7;

Network two_layers() {
  NetworkBuilder net("two_layers");
  const NetworkValue x = net.input("x", {2, 16, 9, 7}), bias = net.input("bias", {16});
  const NetworkValue y = relu(conv2d(x, net.input("filter", {16, 16, 3, 3}), bias, {.pad = 1}));
  net.output(conv2d(y, net.input("second", {24, 16, 1, 1})), "y");
  return net.build();
}

const Shapes given_weights{
    {"x", {2, 16, 9, 7}}, {"bias", {16}}, {"filter", {16, 16, 3, 3}}, {"second", {24, 16, 1, 1}}};

NetworkOptions with_weights() {
  NetworkOptions options = on_gpu();
  options.weights = {"bias", "filter", "second"};
  return options;
}

// Values that bf16 holds
HostTensors inputs_of(std::uint64_t seed) {
  HostTensors inputs = random_inputs(given_weights, seed);
  for (auto& [name, t] : inputs)
    for (float& v : t.data) v = support::bf16_to_float(support::float_to_bf16(v));
  return inputs;
}

// In bf16, channels last
std::vector<std::uint16_t> packed(const HostTensor& t) {
  std::vector<std::uint16_t> y(t.data.size());
  const std::int64_t taps = t.shape.size() == 4 ? t.shape[2] * t.shape[3] : 1, channels = t.shape.back();
  const std::int64_t c = t.shape.size() == 4 ? t.shape[1] : channels;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), k = at / (c * taps), from_c = at / taps % c, tap = at % taps;
    y[static_cast<std::size_t>((k * taps + tap) * c + from_c)] = support::float_to_bf16(t.data[i]);
  }
  return y;
}

Sizes channels_last(const Sizes& s) {
  return s.size() == 4 ? Sizes{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]} : Sizes{1};
}

// Its tensors in the GPU's memory
struct GivenWeights {
  NetworkExecutable executable = compile(two_layers(), with_weights());
  TestStream stream;
  Buffer y{result_elements * 4};
  std::map<std::string, std::unique_ptr<Buffer>> memory;
  std::map<std::string, ConstTensorView> in;

  explicit GivenWeights(std::uint64_t seed) { give(seed); }
  // All anew, elsewhere
  void give(std::uint64_t seed) {
    auto before = std::move(memory);  // as long as the new ones are made
    for (const auto& [name, t] : inputs_of(seed)) {
      memory[name] = std::make_unique<Buffer>(t.data.size() * (name == "x" ? 4 : 2));
      write(name, t);
      in[name] = name == "x" ? ConstTensorView{memory[name]->data(), DType::f32, t.shape, {}}
                             : ConstTensorView{memory[name]->data(), DType::bf16, t.shape, channels_last(t.shape)};
    }
  }
  void write(const std::string& name, const HostTensor& t) {
    if (name == "x") return memory[name]->upload(t.data.data());
    memory[name]->upload(packed(t).data());
  }
  // Values in the memory that is there
  void overwrite(std::uint64_t seed) {
    for (const auto& [name, t] : inputs_of(seed)) write(name, t);
  }
  std::map<std::string, TensorView> out() const { return {{"y", {y.data(), DType::f32, {2, 24, 9, 7}, {}}}}; }
  std::vector<float> result() const {
    wait(stream.get(), "a network");
    std::vector<float> all(result_elements);
    y.download(all.data());
    return all;
  }
  std::vector<float> enqueued() {
    y.poison(stream.get());
    executable.enqueue(in, out(), stream);
    return result();
  }
};

std::vector<float> expected(std::uint64_t seed) {
  return run(compile(two_layers(), on_gpu()), inputs_of(seed)).at("y").data;
}

std::size_t borders(const NetworkOptions& options) {
  std::size_t count = 0;
  for (const LaunchReport& l : explain_device(two_layers(), options, given_weights).launches)
    count += l.name.starts_with("input ");
  return count;
}

TEST(NetworkSmall, WeightsAreReadWhereTheyLie) {
  EXPECT_EQ(borders(on_gpu()), 4u);
  EXPECT_EQ(borders(with_weights()), 1u);
  GivenWeights r(1);
  EXPECT_EQ(r.enqueued(), expected(1));
  r.overwrite(2);
  EXPECT_EQ(r.enqueued(), expected(2)) << "other values in the same memory";
  r.give(3);
  EXPECT_EQ(r.enqueued(), expected(3)) << "other memory";
  EXPECT_EQ(r.enqueued(), expected(3));
}

TEST(NetworkSmall, WeightsThatLieOtherwiseAreCopied) {
  GivenWeights r(1);
  const HostTensors inputs = inputs_of(1);
  Buffer filter(inputs.at("filter").data.size() * 4), second(inputs.at("second").data.size() * 2 + 16);
  filter.upload(inputs.at("filter").data.data());
  r.in.at("filter") = {filter.data(), DType::f32, given_weights.at("filter"), {}};
  std::vector<std::uint16_t> behind(8);
  for (const std::uint16_t v : packed(inputs.at("second"))) behind.push_back(v);
  second.upload(behind.data());
  r.in.at("second").data = static_cast<const std::byte*>(second.data()) + 16;
  EXPECT_EQ(r.enqueued(), expected(1));
  EXPECT_EQ(run(r.executable, inputs).at("y").data, expected(1)) << "of the host";
}

TEST(NetworkSmall, WeightsInCapturesAndBySlot) {
  GivenWeights r(1), other(2);
  const TestGraph graph(r.stream.get(), [&] { r.executable.enqueue(r.in, r.out(), r.stream); });
  NetworkLaunch launch = r.executable.bind(r.in, r.out());
  launch.enqueue(r.stream);
  EXPECT_EQ(r.result(), expected(1));
  for (const char* name : {"x", "bias", "filter", "second"})
    launch.rebind(launch.slot(name), other.memory.at(name)->data());
  launch.enqueue(r.stream);
  EXPECT_EQ(r.result(), expected(2));
  r.overwrite(3);
  graph.replay(r.stream.get());
  EXPECT_EQ(r.result(), expected(3)) << "what was captured reads the first memory";
  EXPECT_THROW(
      launch.rebind(launch.slot("filter"), static_cast<const std::byte*>(other.memory.at("filter")->data()) + 2),
      UserError);
}

TEST(NetworkSmall, WeightsThatAreNoInputs) {
  NetworkOptions options = on_gpu();
  options.weights = {"filters"};
  EXPECT_THAT([&] { compile(two_layers(), options); },
              testing::ThrowsMessage<UserError>(Says("weights has 'filters'; … inputs")));
}

}  // namespace
}  // namespace unisono::gpu
