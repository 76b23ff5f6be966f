// Operands of every shape over tensors of every shape, as constants and as tensors in the arena: exactly, with numbers
// that 16 bits hold.

#include <gtest/gtest.h>

#include "gpu/network_problem.hpp"
#include "network/dim.hpp"
#include "support/broadcasts.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using test::broadcast_position;
using test::for_each_index;
using test::operands_over;
using test::shapes_from;

Shape dims(const Sizes& s) { return network::to_shape(s); }

HostTensor ones_and_twos(const Sizes& shape) {
  HostTensor t{shape, {}};
  for (std::int64_t i = 0; i < element_count(shape); ++i) t.data.push_back(i * 7 % 3 == 0 ? 1.0F : 2.0F);
  return t;
}

// All different, and even: a half of one is exact
HostTensor numbers(const Sizes& shape) {
  HostTensor t{shape, {}};
  for (std::int64_t i = 0; i < element_count(shape); ++i) t.data.push_back(static_cast<float>(2 * (i + 1)));
  return t;
}

// x·s, where x has the shape of the result
HostTensor product(const HostTensor& x, const HostTensor& s) {
  HostTensor y{x.shape, {}};
  std::size_t i = 0;
  for_each_index(x.shape, [&](const Sizes& index) {
    y.data.push_back(x.data[i++] * s.data[static_cast<std::size_t>(broadcast_position(s.shape, index))]);
  });
  return y;
}

// Always under the same names, so that few kernels serve
struct Operand {
  NetworkBuilder net;
  HostTensors inputs;
  HostTensor elements;

  NetworkValue operand(const Sizes& shape, bool constant) {
    elements = numbers(shape);
    if (constant) return net.constant("s", dims(shape), elements.data);
    inputs["s"] = elements;
    return net.input("s", dims(shape));
  }
  NetworkValue image(const Sizes& shape) {
    inputs["x"] = ones_and_twos(shape);
    return net.input("x", dims(shape));
  }
  void expect(const HostTensor& y, const std::string& what) {
    const Network n = net.build();
    const HostTensor got = run(compile(n, on_gpu()), inputs).at("y");
    ASSERT_EQ(got.shape, y.shape) << what;
    for (std::size_t i = 0; i < y.data.size(); ++i)
      ASSERT_EQ(got.data[i], y.data[i]) << what << ", element " << i << "\n" << to_string(explain(n));
  }
};

std::string about(const Sizes& operand, const Sizes& space, bool constant) {
  return (constant ? "a constant " : "a tensor ") + to_string(dims(operand)) + " over " + to_string(dims(space));
}

TEST(NetworkSmall, OperandsOfEveryShapeOverEverySpace) {
  int tested = 0;
  for (std::size_t rank = 0; rank <= 4; ++rank) {
    constexpr std::array<std::int64_t, 4> extents{2, 3, 4, 5};
    std::vector<Sizes> choices;
    for (std::size_t i = 0; i < rank; ++i) choices.push_back({1, extents[i]});
    for (const Sizes& space : shapes_from(choices))
      for (const Sizes& shape : operands_over(space))
        for (const bool constant : {true, false}) {
          Operand o;
          const NetworkValue x = o.image(space), s = o.operand(shape, constant);
          o.net.output(x * s, "y");
          o.expect(product(o.inputs.at("x"), o.elements), about(shape, space, constant));
          if (testing::Test::HasFatalFailure()) return;
          ++tested;
        }
  }
  EXPECT_GT(tested, 500);
}

// Tensors of rank 5 are no inputs, but there are some within
TEST(NetworkSmall, OperandsOverFiveAxes) {
  for (const Sizes& space : {Sizes{2, 3, 1, 2, 4}, {1, 2, 1, 1, 3}, {1, 1, 1, 1, 5}})
    for (const Sizes& shape : operands_over(space))
      for (const bool constant : {true, false}) {
        if (shape.size() == 5 && !constant) continue;
        Operand o;
        const NetworkValue x = o.image({element_count(space)}), s = o.operand(shape, constant);
        o.net.output(reshape(reshape(x, space) * s, {element_count(space)}), "y");
        HostTensor full = o.inputs.at("x");
        full.shape = space;
        HostTensor y = product(full, o.elements);
        y.shape = {element_count(space)};
        o.expect(y, about(shape, space, constant));
        if (testing::Test::HasFatalFailure()) return;
      }
}

// After convolutions: in the kernel of the tensor cores (eight channels in and out) and after a plain one (three).
// The filter passes each channel on.
TEST(NetworkSmall, OperandsOfConvolutions) {
  for (const std::int64_t channels : {8, 3})
    for (const Sizes& space : {Sizes{2, channels, 3, 4}, {1, channels, 1, 4}, {1, channels, 1, 1}, {2, channels, 1, 1}})
      for (const Sizes& shape : operands_over(space))
        for (const bool constant : {true, false}) {
          Operand o;
          const NetworkValue x = o.image(space), s = o.operand(shape, constant);
          std::vector<float> filter(static_cast<std::size_t>(channels * channels));
          for (std::int64_t c = 0; c < channels; ++c) filter[static_cast<std::size_t>(c * channels + c)] = 1;
          const NetworkValue w = o.net.constant("w", {channels, channels, 1, 1}, filter);
          o.net.output(conv2d(x, w) * s, "y");
          o.expect(product(o.inputs.at("x"), o.elements), "convolution with " + about(shape, space, constant));
          if (testing::Test::HasFatalFailure()) return;
        }
}

// A vector of channels that is computed with three axes lies in rows of eight: a launch packs it
TEST(NetworkSmall, ComputedVectorsOfThreeAxes) {
  for (const Sizes& space : {Sizes{2, 8, 3, 4}, {2, 3, 4, 5}}) {
    Operand o;
    const std::int64_t channels = space[1];
    const NetworkValue x = o.image(space), s = o.operand({channels, 1, 1}, false);
    std::vector<float> filter(static_cast<std::size_t>(channels * channels));
    for (std::int64_t c = 0; c < channels; ++c) filter[static_cast<std::size_t>(c * channels + c)] = 1;
    const NetworkValue w = o.net.constant("w", {channels, channels, 1, 1}, filter);
    o.net.output(conv2d(x, w) * (s * 0.5), "y");  // by itself the product would be a chain with the vector's
    const Network n = o.net.build();
    const DeviceReport report = explain_device(n, on_gpu(), {{"x", space}, {"s", {channels, 1, 1}}});
    int gathers = 0;
    for (const LaunchReport& l : report.launches) gathers += l.what.starts_with("gathers '") ? 1 : 0;
    EXPECT_EQ(gathers, 1) << to_string(report);
    HostTensor half = o.elements;
    for (float& e : half.data) e /= 2;
    o.expect(product(o.inputs.at("x"), half), "a computed vector");
  }
}

}  // namespace
}  // namespace unisono::gpu
