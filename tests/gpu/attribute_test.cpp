// Attributes that are values: one kernel of every family for every slope, limit, alpha and beta, by value and by
// pointer, from launch to launch and within captures.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gpu/case.hpp"
#include "gpu/device.hpp"
#include "gpu/testbed.hpp"

namespace unisono::gpu {
namespace {

using Setting = std::map<std::string, double>;
const std::vector<Setting> settings{{{"slope", 0.25}, {"lower", -0.5}, {"upper", 1}, {"alpha", 1}},
                                    {{"slope", -2}, {"lower", 0}, {"upper", 0.75}, {"alpha", 0.5}},
                                    {{"slope", 0}, {"lower", -4}, {"upper", 4}, {"alpha", -1.5}}};

Case on_gpu(std::string name, const Conv2d& conv, std::string plan, const std::string& h) {
  Case c{.name = std::move(name), .conv = conv, .text = {}, .options = {}};
  c.text = "h = " + h +
           "\nv = clamp(leaky_relu(h, slope=slope[]), lower=lower[], upper=upper[])\n"
           "store elu(v, alpha=alpha[]) + hardsigmoid(h, alpha=alpha, beta=slope) as y : bf16";
  c.options.device = Device::cuda;
  c.options.plan = std::move(plan);
  return c;
}

// Small problems of every family, one of them with a normalisation
std::vector<Case> kernels() {
  const Conv2d conv{.n = 2,
                    .h = 9,
                    .w = 8,
                    .c = 16,
                    .k = 16,
                    .r = 3,
                    .s = 3,
                    .pad = {1, 1, 1, 1},
                    .dtype_x = DType::bf16,
                    .dtype_w = DType::bf16};
  Conv2d depthwise = conv;
  depthwise.groups = 16;
  return {on_gpu("tensor cores", conv, "family=sm90_conv", "acc + bias[n]"),
          on_gpu("tensor cores, normalised", conv, "family=sm90_conv", "group_norm(acc + bias[n], groups=2)"),
          on_gpu("depthwise", depthwise, "family=sm90_depthwise", "acc + bias[n]"),
          on_gpu("plain", conv, "family=plain", "acc + bias[n]")};
}

TEST(AttributesSmall, ByValueFromLaunchToLaunch) {
  for (Case c : kernels()) {
    c.scalars = settings[0];
    const Executable kernel = Testbed(c).compile();
    for (const Setting& s : settings) {
      c.scalars = s;
      EXPECT_EQ(Testbed(c).check(kernel), "") << c.name;
    }
  }
}

// By slots: the bits of a call with these numbers, others than those of the call before
TEST(AttributesSmall, ByValueThroughSlots) {
  for (Case c : kernels()) {
    c.scalars = settings[0];
    Testbed testbed(c);
    const Executable kernel = testbed.compile();
    Launch launch = kernel.bind(testbed.arguments());
    std::vector<std::vector<std::byte>> before;
    for (const Setting& s : {settings[1], settings[2], settings[0]}) {
      Arguments arguments = testbed.arguments();
      arguments.scalars = s;
      kernel.run(arguments);
      const auto expected = testbed.outputs();
      EXPECT_EQ(expected == before, false) << c.name;
      for (const auto& [name, value] : s) launch.rebind(launch.slot(name), value);
      testbed.poison(nullptr);
      launch.enqueue(nullptr);
      wait(nullptr, c.describe());
      before = testbed.outputs();
      EXPECT_EQ(before == expected, true) << c.name;
    }
  }
}

void write(Testbed& testbed, const std::string& name, double value) {
  const auto number = static_cast<float>(value);
  Tensor& scalar = testbed.tensor(name);
  std::memcpy(scalar.host.data(), &number, sizeof number);
  scalar.device->upload(scalar.host.data());
}

TEST(AttributesSmall, ByPointerFromLaunchToLaunch) {
  for (Case c : kernels()) {
    for (const auto& [name, value] : settings[0]) c.options.device_scalars.insert(name);
    Testbed testbed(c);
    const Executable kernel = testbed.compile();
    for (const Setting& s : settings) {
      for (const auto& [name, value] : s) write(testbed, name, value);
      EXPECT_EQ(testbed.check(kernel), "") << c.name;
    }
  }
}

// A capture keeps what was given by value; what a pointer leads to is read by each replay
TEST(AttributesSmall, WithinACapture) {
  Case c = kernels()[0];
  c.scalars = settings[0];
  c.scalars.erase("upper");
  c.options.device_scalars = {"upper"};
  Testbed testbed(c);
  write(testbed, "upper", 1);
  const Executable kernel = testbed.compile();
  Launch launch = kernel.bind(testbed.arguments());
  const TestStream stream;
  const TestGraph graph(stream.get(), [&] { launch.enqueue(stream); });
  launch.rebind(launch.slot("slope"), -2.0);
  std::vector<std::vector<std::byte>> before;
  for (const double upper : {1.0, 0.125}) {
    write(testbed, "upper", upper);
    kernel.run(testbed.arguments());
    const auto expected = testbed.outputs();
    EXPECT_EQ(expected == before, false) << "the limit is in the memory";
    testbed.poison(stream.get());
    graph.replay(stream.get());
    wait(stream.get(), "a replay");
    before = testbed.outputs();
    EXPECT_EQ(before == expected, true) << "upper " << upper;
  }
  launch.enqueue(stream);
  wait(stream.get(), "another slope");
  EXPECT_EQ(testbed.outputs() == before, false);
}

}  // namespace
}  // namespace unisono::gpu
