#include "training.hpp"

#include <algorithm>
#include <cstdio>
#include <random>

#include "runtime/cuda/backend.hpp"
#include "training/device_steps.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"
#include "unisono/training.hpp"

namespace unisono::bench {

namespace {

using nlohmann::json;

std::map<std::string, std::int64_t> extents_of(const Network& network, std::int64_t batch) {
  std::map<std::string, std::int64_t> extents;
  for (const TensorId id : network.inputs)
    for (const Dim& d : network[id].shape)
      if (!d.known()) extents[d.symbol()] = batch;
  return extents;
}

Trainer trainer_of(const TrainingBench& b) {
  Network network = load_onnx(b.model);
  const TrainerOptions options{.extents = extents_of(network, b.batch),
                               .optimiser = {.clip_norm = 1e6},
                               .device = Device::cuda,
                               .device_index = b.device,
                               .precision = b.precision};
  return {std::move(network), mean_squared_error(), options};
}

double median_of(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

DeviceReport planned(const Network& gradients, const NetworkOptions& options) {
  Shapes shapes;
  for (const TensorId id : gradients.inputs)
    for (const Dim& d : gradients[id].shape) shapes[gradients[id].name].push_back(d.value());
  return explain_device(gradients, options, shapes);
}

// A Trainer has no launches that copy gradients to the caller, or that only add a vector's gradients over images.
bool is_of_training(const LaunchReport& l) {
  return !l.name.starts_with("output gradient:") && !l.how.starts_with("sums over images");
}

std::size_t launches_of(const DeviceReport& report) {
  const auto is_launch = [](const LaunchReport& l) { return is_of_training(l) && !l.on_host; };
  return training::DeviceOptimiser::update_launches +
         static_cast<std::size_t>(std::ranges::count_if(report.launches, is_launch));
}

std::ptrdiff_t host_steps_of(const DeviceReport& report) {
  return std::ranges::count_if(report.launches, [](const LaunchReport& l) { return l.on_host; });
}

// Uniform between 0 and 1, in the GPU's memory; integers are 0
struct Inputs {
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> memory;
  std::map<std::string, ConstTensorView> views;

  Inputs(const Trainer& trainer, int device) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    const auto types = trainer.input_types();
    for (const auto& [name, shape] : trainer.input_shapes()) {
      std::vector<float> values(static_cast<std::size_t>(element_count(shape)) * size_of(types.at(name)) / 4 + 1);
      if (types.at(name) == DType::f32) std::ranges::generate(values, [&] { return uniform(random); });
      memory.push_back(std::make_unique<cuda::DeviceBuffer>(device, values.data(), values.size() * sizeof(float)));
      views[name] = {memory.back()->data(), types.at(name), shape, {}};
    }
  }
};

class Steps {
 public:
  explicit Steps(const TrainingBench& b) : b_(b), trainer_(trainer_of(b)), inputs_(trainer_, b.device) {}

  json run() {
    for (int i = 0; i < 5; ++i) (void)trainer_.step(inputs_.views, rate);
    std::vector<double> host, gpu;
    for (int i = 0; i < b_.steps; ++i) {
      const auto start = Clock::now();
      (void)trainer_.begin_step(inputs_.views, rate);
      host.push_back(1e6 * seconds_since(start));
      loss_ = trainer_.finish_step()->loss;
    }
    for (int round = 0; round < 7; ++round) gpu.push_back(pipelined_us());
    const DeviceReport report = planned(trainer_.gradient_network(), trainer_.network_options());
    json j{{"step_us", median_of(gpu)},
           {"host_us", median_of(host)},
           {"launches", launches_of(report)},
           {"host_steps", host_steps_of(report)},
           {"batch", b_.batch},
           {"loss", loss_},
           {"arena_bytes", report.memory.arena},
           {"peak_bytes", cuda::peak_memory(b_.device)},
           {"gpu", cuda::open_device(b_.device).name}};
    if (b_.kernels) j["kernels"] = kernels();
    return j;
  }

 private:
  static constexpr double rate = 1e-4;

  // The time of a step that begins while the one before runs
  double pipelined_us() {
    (void)trainer_.begin_step(inputs_.views, rate);
    const auto start = Clock::now();
    for (int i = 0; i < b_.steps; ++i) (void)trainer_.begin_step(inputs_.views, rate);
    loss_ = trainer_.finish_step()->loss;
    return 1e6 * seconds_since(start) / b_.steps;
  }
  // Each launch by itself, without those of the update: the least of several runs
  json kernels() {
    std::vector<StepTime> least = trainer_.profile(inputs_.views);
    for (int run = 1; run < 7; ++run) {
      const std::vector<StepTime> again = trainer_.profile(inputs_.views);
      for (std::size_t i = 0; i < least.size(); ++i)
        least[i].milliseconds = std::min(least[i].milliseconds, again.at(i).milliseconds);
    }
    json list = json::array();
    for (const StepTime& s : least)
      list.push_back({{"us", 1000 * s.milliseconds},
                      {"floor_us", 1000 * s.floor_ms},
                      {"name", s.name},
                      {"what", s.what},
                      {"how", s.how}});
    return list;
  }

  TrainingBench b_;
  Trainer trainer_;
  Inputs inputs_;
  double loss_ = 0;
};

}  // namespace

void print_training_plan(const TrainingBench& b) {
  const Network network = load_onnx(b.model);
  const GradientNetwork g = gradients(network, mean_squared_error(), {.extents = extents_of(network, b.batch)});
  const DeviceReport report =
      planned(g.network,
              training::with_weights({.device = Device::cuda, .device_index = b.device, .precision = b.precision}, g));
  for (const LaunchReport& l : report.launches)
    if (is_of_training(l))
      std::printf("%8.2f us  %s | %s | %s\n", l.predicted_us, l.name.c_str(), l.what.c_str(), l.how.c_str());
  std::printf("%zu launches with those of the update, %td host steps, on %s\n", launches_of(report),
              host_steps_of(report), report.device.c_str());
}

json time_training(const TrainingBench& b) { return Steps(b).run(); }

}  // namespace unisono::bench
