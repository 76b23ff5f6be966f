#include "command/execution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>

#include "coda/error.hpp"

namespace coda::command {
namespace {

double run_once(const NetworkExecutable& network, const std::map<std::string, ConstTensorView>& inputs,
                const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) {
  const auto start = std::chrono::steady_clock::now();
  network.run(inputs, outputs, profile);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Execution execute(const NetworkExecutable& network, const Tensors32& inputs, int repeat, bool profile) {
  std::map<std::string, ConstTensorView> in;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, tensor] : inputs) {
    in[name] = {tensor.value.data(), DType::f32, tensor.shape, {}};
    shapes[name] = tensor.shape;
  }
  Execution execution;
  std::map<std::string, TensorView> out;
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    Tensor32& tensor = execution.outputs[name];
    tensor.shape = shape;
    tensor.value.assign(static_cast<std::size_t>(element_count(shape)), std::numeric_limits<float>::quiet_NaN());
    out[name] = {tensor.value.data(), DType::f32, shape, {}};
  }
  execution.timing.first_ms = run_once(network, in, out, nullptr);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(repeat));
  for (int i = 0; i < repeat; ++i) times.push_back(run_once(network, in, out, nullptr));
  execution.timing.runs = repeat;
  execution.timing.median_ms = times.empty() ? execution.timing.first_ms : median(times);
  if (profile) run_once(network, in, out, &execution.profile);
  return execution;
}

Tensors64 to_float64(const Tensors32& tensors) {
  Tensors64 out;
  for (const auto& [name, tensor] : tensors) {
    out[name] = {
        tensor.shape, {tensor.value.begin(), tensor.value.end()}, std::vector<double>(tensor.value.size(), 0.0)};
  }
  return out;
}

Tensor32 random_tensor(std::vector<std::int64_t> shape, std::uint64_t seed) {
  Tensor32 tensor{std::move(shape), {}};
  tensor.value.resize(static_cast<std::size_t>(element_count(tensor.shape)));
  std::mt19937_64 random(seed);
  for (float& x : tensor.value) x = static_cast<float>(random() >> 40) * 0x1p-24f;  // 24 bits: exact, and below 1
  return tensor;
}

void append(Tensor32& tensor, const Tensor32& more) {
  if (tensor.shape.empty() || tensor.shape.size() != more.shape.size() ||
      !std::equal(tensor.shape.begin() + 1, tensor.shape.end(), more.shape.begin() + 1)) {
    throw UserError(
        fmt::format("results of the shapes ({}) and ({}) cannot be put into one file; run these inputs one by one",
                    fmt::join(tensor.shape, ","), fmt::join(more.shape, ",")));
  }
  tensor.shape[0] += more.shape[0];
  tensor.value.insert(tensor.value.end(), more.value.begin(), more.value.end());
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace coda::command
