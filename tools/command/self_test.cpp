#include "command/self_test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <vector>

#include "coda/text.hpp"
#include "reference/reference.hpp"

namespace coda::command {
namespace {

/// Some numbers of -1 to 1 that are neither regular nor random.
std::vector<float> numbers(std::int64_t count, double step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i * i % 1009)));
  return values;
}

ConstTensorView view(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return {values.data(), DType::f32, std::move(shape), {}};
}

SelfTest compute(Device device) {
  const Conv2d convolution{.n = 2, .h = 9, .w = 9, .c = 8, .k = 16, .r = 3, .s = 3, .pad = {1, 1, 1, 1}};
  const Graph graph = parse("y = mish(group_norm(acc + bias[n], groups=4))\nstore y : f32\n");
  const auto x = numbers(2 * 9 * 9 * 8, 0.7), w = numbers(16 * 3 * 3 * 8, 1.3), bias = numbers(16, 0.31);
  std::vector<float> y(2 * 9 * 9 * 16, NAN);  // what is not written is seen

  Arguments arguments;
  arguments.a = view(x, shape_a(convolution));
  arguments.b = view(w, shape_b(convolution));
  arguments.operands["bias"] = view(bias, {16});
  arguments.outputs["y"] = {y.data(), DType::f32, shape_mn(convolution), {}};
  CompileOptions options;
  options.device = device;
  compile(convolution, graph, options).run(arguments);

  const auto expected = reference::run(convolution, graph, arguments);
  const auto agreement = reference::compare(expected.at("y"), convolution, arguments.outputs.at("y"));
  const std::string what = "conv2d + bias + group_norm + mish";
  if (agreement.ok()) {
    return {true, fmt::format("{}: all {} values agree with the float64 reference (largest error {:.1e})", what,
                              agreement.elements, agreement.largest_error)};
  }
  return {false,
          fmt::format(
              "{}: {} of {} values differ from the float64 reference by more than their bound (largest error {:.1e})",
              what, agreement.outside, agreement.elements, agreement.largest_error)};
}

}  // namespace

SelfTest self_test(Device device) noexcept {
  try {
    return compute(device);
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

}  // namespace coda::command
