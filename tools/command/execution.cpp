#include "command/execution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <random>

#include "command/interruption.hpp"
#include "command/model.hpp"
#include "media/convert.hpp"
#include "support/checked.hpp"
#include "support/float_convert.hpp"
#include "support/machine_memory.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double run_once(const NetworkExecutable& network, const std::map<std::string, ConstTensorView>& inputs,
                const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) {
  const auto start = std::chrono::steady_clock::now();
  network.run(inputs, outputs, profile);
  return milliseconds_since(start);
}

DType dtype_of(const Network& network, const std::string& output) {
  for (const TensorId id : network.outputs)
    if (network[id].name == output) return network[id].dtype;
  throw InternalError(fmt::format("no output '{}'", output));
}

// What outputs of these shapes take together, ahead of the first byte
std::uint64_t bytes_of(const Network& network, const Shapes& shapes) {
  support::Checked bytes("bytes of the outputs", 0);
  for (const auto& [name, shape] : shapes)
    bytes += support::Checked("bytes of an output", element_count(shape)) * size_of(dtype_of(network, name));
  return bytes.to<std::uint64_t>();
}

// On a GPU intermediates and constants are there
std::array<support::MemoryUse, 4> memory_of(const NetworkExecutable& network, const Tensors& inputs,
                                            const Shapes& outputs, const MemoryReport& report, Device device) {
  std::uint64_t given = 0;
  for (const auto& [name, array] : inputs) given += array.bytes.size();
  const bool host = device == Device::cpu;
  return {{{"outputs", bytes_of(network.network(), outputs)},
           {"inputs", given},
           {"intermediates", host ? report.arena : 0},
           {"constants", host ? report.constants : 0}}};
}

// Poisoned outputs
void allocate(const Network& network, const Shapes& shapes, Tensors& outputs) {
  for (const auto& [name, shape] : shapes) {
    media::Array& array = outputs[name];
    array = {dtype_of(network, name), shape, {}};
    array.bytes.resize(static_cast<std::size_t>(element_count(shape)) * size_of(array.type));
    poison(array);
  }
}

// Times by step of one run more; the steps of a plan are the same in every run
void collect(const std::vector<StepTime>& run, std::vector<std::vector<double>>& times) {
  times.resize(run.size());
  for (std::size_t s = 0; s < run.size(); ++s) times[s].push_back(run[s].milliseconds);
}

}  // namespace

void poison(media::Array& array) {
  const auto count = static_cast<std::int64_t>(array.bytes.size() / size_of(array.type));
  std::fill(array.bytes.begin(), array.bytes.end(), std::uint8_t{0xa5});
  if (!is_float(array.type)) return;
  for (std::int64_t i = 0; i < count; ++i)
    support::store(array.bytes.data(), i, array.type, std::numeric_limits<double>::quiet_NaN());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double percentile(std::vector<double> values, int percent) {
  if (values.empty()) return 0;
  const std::size_t rank = (values.size() * static_cast<std::size_t>(percent) + 99) / 100;  // 1 is the smallest
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

Timing timing_of(double first_ms, const std::vector<double>& others_ms) {
  const std::vector<double> times = others_ms.empty() ? std::vector{first_ms} : others_ms;
  return {.first_ms = first_ms,
          .fastest_ms = percentile(times, 0),
          .median_ms = median(times),
          .p90_ms = percentile(times, 90),
          .p99_ms = percentile(times, 99),
          .runs = static_cast<int>(others_ms.size())};
}

Execution execute(const NetworkExecutable& network, const Tensors& inputs, int repeat, bool profile, Device device) {
  std::map<std::string, ConstTensorView> in;
  Shapes shapes;
  for (const auto& [name, array] : inputs) {
    in[name] = {array.bytes.data(), array.type, array.shape, {}};
    shapes[name] = array.shape;
  }
  const Interruption interruption;
  Execution execution;
  const Shapes results = network.output_shapes(shapes);
  const auto start = std::chrono::steady_clock::now();
  const MemoryReport report = network.memory(shapes);  // plans, which is the first run's time
  execution.timing.first_ms = milliseconds_since(start);
  const auto parts = memory_of(network, inputs, results, report, device);
  support::require_memory(parts);
  try {
    allocate(network.network(), results, execution.outputs);
  } catch (const std::bad_alloc&) {
    support::refuse_memory(parts);
  }
  std::map<std::string, TensorView> out;
  for (auto& [name, array] : execution.outputs) out[name] = {array.bytes.data(), array.type, array.shape, {}};
  execution.timing.first_ms += run_once(network, in, out, nullptr);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(repeat));
  std::vector<std::vector<double>> step_times;
  for (int i = 0; i < repeat; ++i) {
    times.push_back(run_once(network, in, out, profile ? &execution.profile : nullptr));
    collect(execution.profile, step_times);
  }
  execution.timing = timing_of(execution.timing.first_ms, times);
  if (profile && repeat == 0) run_once(network, in, out, &execution.profile);
  for (std::size_t s = 0; s < step_times.size(); ++s) {
    execution.steps.push_back(timing_of(0, step_times[s]));
    execution.profile[s].milliseconds = execution.steps[s].median_ms;
  }
  return execution;
}

media::Array to_array(const Tensor32& tensor) {
  return media::to_array({tensor.value.data(), DType::f32, tensor.shape, {}});
}

Tensor32 to_tensor32(const media::Array& array, const std::string& name) {
  if (!is_float(array.type))
    throw UserError(fmt::format("tensor '{}' is {}; expected a float", name, media::numpy_name(array.type)));
  Tensor32 tensor{array.shape, std::vector<float>(array.bytes.size() / size_of(array.type))};
  for (std::size_t i = 0; i < tensor.value.size(); ++i)
    tensor.value[i] = static_cast<float>(support::load(array.bytes.data(), static_cast<std::int64_t>(i), array.type));
  return tensor;
}

float64::Tensors64 to_float64(const Tensors& tensors) {
  float64::Tensors64 out;
  for (const auto& [name, array] : tensors) {
    float64::Tensor64& t = out[name];
    t.shape = array.shape;
    if (!is_float(array.type)) t.dtype = array.type;  // quotients of integers are truncated; floats are what values are
    t.value = float64::as_float64({array.bytes.data(), array.type, array.shape, {}}, name);
    t.bound.assign(t.value.size(), 0.0);
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

media::Array random_array(std::vector<std::int64_t> shape, DType dtype, std::uint64_t seed) {
  Tensor32 tensor = random_tensor(std::move(shape), seed);
  if (!is_float(dtype))
    for (float& x : tensor.value) x = x < 0.5f ? 0.0f : 1.0f;
  return media::convert(to_array(tensor), dtype, "random numbers").array;
}

void append(media::Array& array, const media::Array& more) {
  if (array.shape.empty() || array.shape.size() != more.shape.size() || array.type != more.type ||
      !std::equal(array.shape.begin() + 1, array.shape.end(), more.shape.begin() + 1)) {
    throw UserError(
        fmt::format("results of the shapes ({}) and ({}) cannot be put into one file; run these inputs one by one",
                    fmt::join(array.shape, ","), fmt::join(more.shape, ",")));
  }
  array.shape[0] += more.shape[0];
  array.bytes.insert(array.bytes.end(), more.bytes.begin(), more.bytes.end());
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace unisono::command
