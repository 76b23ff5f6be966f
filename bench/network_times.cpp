#include "network_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/float_convert.hpp"

namespace unisono::bench {

using cuda::check;
using cuda::driver;
using nlohmann::json;

namespace {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// Uniform between -1 and 1
std::vector<std::uint16_t> random_elements(std::size_t count, DType type, std::uint64_t& state) {
  std::vector<std::uint16_t> x(count);
  for (auto& v : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float value = static_cast<float>(state >> 40) * 0x1p-23f - 1;
    v = type == DType::bf16 ? support::float_to_bf16(value) : support::float_to_f16(value);
  }
  return x;
}

// As the caller's memory has it: floats in 16 bits
DType type_in_memory(const Network& network, const std::vector<TensorId>& ids, const std::string& name, DType type) {
  for (const TensorId id : ids)
    if (network[id].name == name && !is_float(network[id].dtype)) return network[id].dtype;
  return type;
}

}  // namespace

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Shapes channels_last(Shapes shapes) {
  for (auto& [name, s] : shapes)
    if (s.size() == 4) s = {s[0], s[2], s[3], s[1]};
  return shapes;
}

void* NetworkTensors::add(std::int64_t elements, DType type) {
  memory.push_back(std::make_unique<gpu::Buffer>(static_cast<std::size_t>(elements) * size_of(type)));
  return memory.back()->data();
}

NetworkTensors::NetworkTensors(const NetworkExecutable& network, const Shapes& shapes, DType type) {
  std::uint64_t state = 1;
  for (const auto& [name, shape] : shapes) {
    const std::int64_t count = element_count(shape);
    const DType own = type_in_memory(network.network(), network.network().inputs, name, type);
    inputs[name] = {add(count, own), own, shape, {}};
    if (own == type)
      memory.back()->upload(random_elements(static_cast<std::size_t>(count), type, state).data());
    else
      memory.back()->upload(std::vector<std::byte>(memory.back()->bytes()).data());
  }
  for (const auto& [name, shape] : network.output_shapes(shapes)) {
    const DType own = type_in_memory(network.network(), network.network().outputs, name, type);
    outputs[name] = {add(element_count(shape), own), own, shape, {}};
  }
}

std::vector<std::vector<std::byte>> NetworkTensors::results() const {
  std::vector<std::vector<std::byte>> all;
  for (std::size_t i = inputs.size(); i < memory.size(); ++i) all.push_back(memory[i]->contents());
  return all;
}

std::size_t NetworkTensors::input_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) bytes += memory[i]->bytes();
  return bytes;
}

std::size_t NetworkTensors::output_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t i = inputs.size(); i < memory.size(); ++i) bytes += memory[i]->bytes();
  return bytes;
}

ReplayTimes time_replays(const NetworkExecutable& network, const NetworkTensors& t, int rounds) {
  const gpu::TestStream stream;
  const auto enqueue = [&] { network.enqueue(t.inputs, t.outputs, stream); };
  CUevent first{}, last{};
  check(driver().cuEventCreate(&first, CU_EVENT_DEFAULT), "making an event");
  check(driver().cuEventCreate(&last, CU_EVENT_DEFAULT), "making an event");
  const auto round = [&](int inner) {
    check(driver().cuEventRecord(first, stream.get()), "recording an event");
    for (int i = 0; i < inner; ++i) enqueue();
    check(driver().cuEventRecord(last, stream.get()), "recording an event");
    gpu::wait(stream.get(), "replays of a network", 300);
    float ms = 0;
    check(driver().cuEventElapsedTime(&ms, first, last), "reading an event");
    return 1000.0 * static_cast<double>(ms) / inner;
  };
  for (int i = 0; i < 3; ++i) enqueue();
  ReplayTimes times;
  times.inner = static_cast<int>(std::clamp(5000 / std::max(round(3), 1.0), 1.0, 200.0));
  std::vector<double> us;
  for (int r = 0; r < rounds; ++r) us.push_back(round(times.inner));
  const auto host = [&](bool awake, const auto& put) {  // one at a time: the stream never holds the host up
    std::vector<double> each;
    for (int r = 0; r < 3 * rounds; ++r) {
      const auto start = Clock::now();
      put();
      each.push_back(1e6 * seconds_since(start));
      gpu::wait(stream.get(), "a replay of a network", 300, awake);
    }
    return median(each);
  };
  times.host_us = host(true, enqueue), times.host_after_sleep_us = host(false, enqueue);
  NetworkLaunch launch = network.bind(t.inputs, t.outputs);
  const auto& [name, view] = *t.inputs.begin();
  const std::size_t input = launch.slot("input " + name);
  times.launch_host_us = host(true, [&, data = view.data] {
    launch.rebind(input, data);
    launch.enqueue(stream);
  });
  driver().cuEventDestroy_v2(first);
  driver().cuEventDestroy_v2(last);
  times.us = median(us);
  times.spread = (*std::max_element(us.begin(), us.end()) - *std::min_element(us.begin(), us.end())) / times.us;
  return times;
}

std::vector<StepTime> time_kernels(const NetworkExecutable& network, const NetworkTensors& t, int runs) {
  std::vector<StepTime> steps;
  std::vector<std::vector<double>> all;
  for (int r = 0; r < runs; ++r) {
    network.run(t.inputs, t.outputs, &steps);
    all.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) all[i].push_back(steps[i].milliseconds);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].milliseconds = median(all[i]);
  return steps;
}

json kernels_json(const std::vector<StepTime>& steps, const DeviceReport& report) {
  json list = json::array();
  for (std::size_t i = 0; i < steps.size(); ++i)
    list.push_back({{"us", std::round(steps[i].milliseconds * 1e6) / 1000},
                    {"name", steps[i].name},
                    {"what", steps[i].what},
                    {"how", report.launches.at(i).how},
                    {"floor_us", std::round(report.launches.at(i).floor_us * 1000) / 1000}});
  return list;
}

void print_kernels(const std::vector<StepTime>& steps, const DeviceReport& report) {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.milliseconds;
  for (std::size_t i = 0; i < steps.size(); ++i)
    fmt::print("  {:8.2f} us  {:4.1f} %  {}\n                       {}\n", 1000 * steps[i].milliseconds,
               100 * steps[i].milliseconds / sum, steps[i].what, report.launches.at(i).how);
  fmt::print("  {:8.2f} us  one by one\n", 1000 * sum);
}

}  // namespace unisono::bench
