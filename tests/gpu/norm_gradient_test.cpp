// Gradients of normalisations over groups of channels by their own kernels, next to those of the CPU.

#include <gtest/gtest.h>

#include <cmath>

#include "host_steps/networks.hpp"
#include "support/float_convert.hpp"
#include "unisono/gradients.hpp"

namespace unisono::gpu {
namespace {

struct NormCase {
  std::vector<std::int64_t> x;
  int groups;
  bool has_scale, has_shift;
  float mean = 0;  // of x, whose deviation is 1 or so
};

// One group, a group a channel, channels that are no octets, one pixel a line, a part of a tile, several chunks
const std::vector<NormCase>& norm_cases() {
  static const std::vector<NormCase> all{{{2, 16, 5, 7}, 4, true, true},       {{1, 24, 1, 9}, 3, true, false},
                                         {{3, 20, 6, 6}, 20, true, true, 4},   {{2, 12, 4, 5}, 1, false, true},
                                         {{1, 40, 33, 31}, 5, true, true, 30}, {{2, 328, 3, 2}, 41, true, true},
                                         {{5, 6, 17, 3}, 2, false, false}};
  return all;
}

Network normalised(const NormCase& c) {
  NetworkBuilder net("normalised");
  const auto vector = [&](const char* name, float step) {
    std::vector<float> v(static_cast<std::size_t>(c.x[1]));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1 + step * std::sin(static_cast<float>(3 * i + 1));
    return net.constant(name, {Dim(c.x[1])}, std::move(v));
  };
  const NetworkValue x = net.input("x", Shape(c.x.begin(), c.x.end()));
  NetworkNormOptions norm{.groups = c.groups};
  if (c.has_scale) norm.scale = vector("scale", 0.5f);
  if (c.has_shift) norm.shift = vector("shift", 0.25f);
  std::vector<float> identity(static_cast<std::size_t>(c.x[1] * c.x[1]));
  for (std::int64_t i = 0; i < c.x[1]; ++i) identity[static_cast<std::size_t>(i * c.x[1] + i)] = 1;
  const NetworkValue filter = net.constant("filter", {Dim(c.x[1]), Dim(c.x[1]), 1, 1}, std::move(identity));
  const NetworkValue bias = net.constant("bias", {Dim(c.x[1])}, std::vector<float>(static_cast<std::size_t>(c.x[1])));
  net.output(group_norm(conv2d(x, filter, bias), norm), "y");  // of x as it is, which 16 bits hold
  return net.build();
}

std::vector<std::string> learnt(const NormCase& c) {
  std::vector<std::string> names{"bias"};
  if (c.has_scale) names.emplace_back("scale");
  if (c.has_shift) names.emplace_back("shift");
  return names;
}

void round_to_bf16(std::vector<float>& values) {
  for (float& x : values) x = support::bf16_to_float(support::float_to_bf16(x));
}

double largest(const std::vector<float>& x) {
  double most = 0;
  for (const float v : x) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

TEST(NormGradients, AreThoseOfTheCpu) {
  for (const NormCase& c : norm_cases()) {
    const GradientNetwork g =
        gradients(normalised(c), mean_squared_error(), {.parameters = learnt(c), .inputs = {"x"}});
    Shapes shapes{{"x", c.x}, {"target", c.x}};
    for (const NetworkParameter& p : g.parameters) shapes[p.name] = p.shape;
    HostTensors inputs = random_inputs(shapes, 7);
    for (float& x : inputs.at("x").data) x += c.mean;
    for (const NetworkParameter& p : g.parameters) inputs.at(p.name).data = *p.values;
    for (auto& [name, t] : inputs) round_to_bf16(t.data);
    const HostTensors expected = run(compile(g.network, {.threads = 1}), inputs),
                      found = run(compile(g.network, {.device = Device::cuda}), inputs);
    for (const auto& [name, t] : expected) {
      const double most = largest(t.data);
      for (std::size_t i = 0; i < t.data.size(); ++i)
        ASSERT_NEAR(found.at(name).data[i], t.data[i], 0.02 * most + 1e-6)  // 0: of a bias ahead of a group a channel
            << c.x[1] << " channels in " << c.groups << " groups, " << name << ' ' << i;
    }
    EXPECT_EQ(run(compile(g.network, {.device = Device::cuda}), inputs).at(g.input_gradients.at("x")).data,
              found.at(g.input_gradients.at("x")).data);
    const DeviceReport report = explain_device(g.network, {.device = Device::cuda}, shapes);
    const auto count = std::ranges::count_if(report.launches,
                                             [](const LaunchReport& l) { return l.what.starts_with("norm_gradient"); });
    EXPECT_EQ(count, 4 + (c.has_scale ? 1 : 0) + (c.has_shift ? 1 : 0)) << to_string(report);
  }
}

}  // namespace
}  // namespace unisono::gpu
