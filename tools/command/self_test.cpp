#include "command/self_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <vector>

#include "reference/reference.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/float_convert.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

/// Some numbers of -1 to 1 that are neither regular nor random.
std::vector<float> numbers(std::int64_t count, double step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i * i % 1009)));
  return values;
}

ConstTensorView view_of(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return {values.data(), DType::f32, std::move(shape), {}};
}

SelfTest verdict(const std::string& what, const reference::Agreement& agreement) {
  if (agreement.ok()) {
    return {true, fmt::format("{}: all {} values agree with the float64 reference (largest error {:.1e})", what,
                              agreement.elements, agreement.largest_error)};
  }
  return {false,
          fmt::format(
              "{}: {} of {} values differ from the float64 reference by more than their bound (largest error {:.1e})",
              what, agreement.outside, agreement.elements, agreement.largest_error)};
}

SelfTest compute_on_cpu() {
  const Conv2d convolution{.n = 2, .h = 9, .w = 9, .c = 8, .k = 16, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  const Graph graph = parse("y = mish(group_norm(acc + bias[n], groups=4))\nstore y : f32\n");
  const auto x = numbers(2 * 9 * 9 * 8, 0.7), w = numbers(16 * 3 * 3 * 8, 1.3), bias = numbers(16, 0.31);
  std::vector<float> y(2 * 9 * 9 * 16, NAN);  // what is not written is seen

  unisono::Arguments arguments;
  arguments.image = view_of(x, shape_a(convolution));
  arguments.filter = view_of(w, shape_b(convolution));
  arguments.operands["bias"] = view_of(bias, {16});
  arguments.outputs["y"] = {y.data(), DType::f32, shape_mn(convolution), {}};
  compile(convolution, graph).run(arguments);

  const auto expected = reference::run(convolution, graph, arguments);
  return verdict("conv2d + bias + group_norm + mish",
                 reference::compare(expected.at("y"), convolution, arguments.outputs.at("y")));
}

std::vector<std::uint16_t> bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), support::float_to_bf16);
  return bits;
}

// relu has one form in every precision; what rounds is the matrix product, the statistics and the output
SelfTest compute_on_gpu() {
  const Conv2d convolution{.n = 2,
                           .h = 9,
                           .w = 9,
                           .c = 8,
                           .k = 16,
                           .r = 3,
                           .s = 3,
                           .pad = {1, 1, 1, 1},
                           .dtype_x = DType::bf16,
                           .dtype_w = DType::bf16};
  const Graph graph = parse("y = relu(group_norm(acc + bias[n], groups=4))\nstore y : bf16\n");
  const auto x = bf16(numbers(2 * 9 * 9 * 8, 0.7)), w = bf16(numbers(16 * 3 * 3 * 8, 1.3));
  const auto bias = numbers(16, 0.31);
  std::vector<std::uint16_t> y(2 * 9 * 9 * 16, 0xffff);  // what is not written is seen
  unisono::Arguments host, device;
  host.image = {x.data(), DType::bf16, shape_a(convolution), {}};
  host.filter = {w.data(), DType::bf16, shape_b(convolution), {}};
  host.operands["bias"] = view_of(bias, {16});
  host.outputs["y"] = {y.data(), DType::bf16, shape_mn(convolution), {}};
  const cuda::DeviceBuffer a(0, x.data(), 2 * x.size()), b(0, w.data(), 2 * w.size()),
      c(0, bias.data(), 4 * bias.size()), out(0, y.data(), 2 * y.size());
  device = host;
  device.image.data = a.data(), device.filter.data = b.data(), device.operands["bias"].data = c.data();
  device.outputs["y"].data = out.data();
  CompileOptions options;
  options.device = Device::cuda;
  compile(convolution, graph, options).run(device);
  out.download(y.data());
  const auto expected = reference::run(convolution, graph, host, {.accumulate = 0x1p-22});  // tensor cores cut off
  return verdict("conv2d + bias + group_norm + relu in bf16",
                 reference::compare(expected.at("y"), convolution, host.outputs.at("y")));
}

}  // namespace

SelfTest self_test(Device device) noexcept {
  try {
    return device == Device::cpu ? compute_on_cpu() : compute_on_gpu();
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

}  // namespace unisono::command
