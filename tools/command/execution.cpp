#include "command/execution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "coda/error.hpp"
#include "runtime/cpu/ops/tensor.hpp"
#include "support/float_convert.hpp"

namespace coda::command {
namespace {

double run_once(const NetworkExecutable& network, const std::map<std::string, ConstTensorView>& inputs,
                const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) {
  const auto start = std::chrono::steady_clock::now();
  network.run(inputs, outputs, profile);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

DType dtype_of(const Network& network, const std::vector<TensorId>& ids, const std::string& name) {
  for (const TensorId id : ids)
    if (network[id].name == name) return network[id].dtype;
  return DType::f32;
}

// Elements of a tensor of another dtype than f32, and back. Integers beyond 2^24 have no f32, and are refused.
std::vector<std::byte> converted(const std::string& name, const Tensor32& tensor, DType dtype) {
  std::vector<std::byte> bytes(tensor.value.size() * size_of(dtype));
  for (std::size_t i = 0; i < tensor.value.size(); ++i) {
    const float x = tensor.value[i];
    if (is_float(dtype) || dtype == DType::boolean || dtype == DType::i32) {
      support::store(bytes.data(), static_cast<std::int64_t>(i), dtype, static_cast<double>(x));
      continue;
    }
    cpu::with_type(dtype, [&]<class T>() {
      if (!(x >= static_cast<float>(std::numeric_limits<T>::lowest()) &&
            x <= static_cast<float>(std::numeric_limits<T>::max()) && std::abs(x) <= 0x1p24f && x == std::floor(x)))
        throw UserError(fmt::format("input '{}' takes {}, and element {} is {}", name, to_string(dtype), i, x));
      const T y = static_cast<T>(x);
      std::memcpy(bytes.data() + i * sizeof(T), &y, sizeof(T));
    });
  }
  return bytes;
}

void convert_back(const std::string& name, const std::vector<std::byte>& bytes, DType dtype, Tensor32& tensor) {
  for (std::size_t i = 0; i < tensor.value.size(); ++i) {
    if (is_float(dtype)) {
      tensor.value[i] = static_cast<float>(support::load(bytes.data(), static_cast<std::int64_t>(i), dtype));
      continue;
    }
    tensor.value[i] = cpu::with_type(dtype, [&]<class T>() {
      T x;
      std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
      const auto y = static_cast<float>(x);
      if (static_cast<long double>(y) != static_cast<long double>(x))
        throw UserError(fmt::format("output '{}' has {}, which no float32 is; call the library", name, x));
      return y;
    });
  }
}

// Times by step of one run more; the steps of a plan are the same in every run
void collect(const std::vector<StepTime>& run, std::vector<std::vector<double>>& times) {
  times.resize(run.size());
  for (std::size_t s = 0; s < run.size(); ++s) times[s].push_back(run[s].milliseconds);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Execution execute(const NetworkExecutable& network, const Tensors32& inputs, int repeat, bool profile) {
  const Network& net = network.network();
  std::map<std::string, ConstTensorView> in;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::vector<std::byte>> other_inputs, other_outputs;
  for (const auto& [name, tensor] : inputs) {
    const DType dtype = dtype_of(net, net.inputs, name);
    const void* data = tensor.value.data();
    if (dtype != DType::f32) data = (other_inputs[name] = converted(name, tensor, dtype)).data();
    in[name] = {data, dtype, tensor.shape, {}};
    shapes[name] = tensor.shape;
  }
  Execution execution;
  std::map<std::string, TensorView> out;
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    Tensor32& tensor = execution.outputs[name];
    tensor.shape = shape;
    tensor.value.assign(static_cast<std::size_t>(element_count(shape)), std::numeric_limits<float>::quiet_NaN());
    const DType dtype = dtype_of(net, net.outputs, name);
    void* data = tensor.value.data();
    if (dtype != DType::f32) {
      other_outputs[name].resize(tensor.value.size() * size_of(dtype));
      data = other_outputs[name].data();
    }
    out[name] = {data, dtype, shape, {}};
  }
  execution.timing.first_ms = run_once(network, in, out, nullptr);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(repeat));
  std::vector<std::vector<double>> step_times;
  for (int i = 0; i < repeat; ++i) {
    times.push_back(run_once(network, in, out, profile ? &execution.profile : nullptr));
    collect(execution.profile, step_times);
  }
  execution.timing.runs = repeat;
  execution.timing.median_ms = times.empty() ? execution.timing.first_ms : median(times);
  if (profile && repeat == 0) run_once(network, in, out, &execution.profile);
  for (std::size_t s = 0; s < step_times.size(); ++s) execution.profile[s].milliseconds = median(step_times[s]);
  for (const auto& [name, bytes] : other_outputs) convert_back(name, bytes, out[name].dtype, execution.outputs[name]);
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
