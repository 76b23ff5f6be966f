// unisono_bench_training: what a training step of an ONNX model takes on a GPU, on random inputs that lie there. Prints
// one JSON object: the time of a step with the next one queued, the host's time to begin a step, launches.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "network_times.hpp"
#include "training/device_steps.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"

namespace {

using namespace unisono;
using nlohmann::json;

struct Options {
  std::string model;
  std::int64_t batch = 8;
  int device = 0, steps = 200;
  bool plan = false;
};

std::vector<float> random_values(std::int64_t count) {
  static std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& x : all) x = uniform(random);
  return all;
}

std::map<std::string, std::int64_t> extents_of(const Network& network, std::int64_t batch) {
  std::map<std::string, std::int64_t> extents;
  for (const TensorId id : network.inputs)
    for (const Dim& d : network[id].shape)
      if (!d.known()) extents[d.symbol()] = batch;
  return extents;
}

double median_of(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

DeviceReport planned(const GradientNetwork& g, int device) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const TensorId id : g.network.inputs)
    for (const Dim& d : g.network[id].shape) shapes[g.network[id].name].push_back(d.value());
  return explain_device(g.network, training::with_weights({.device = Device::cuda, .device_index = device}, g), shapes);
}

std::ptrdiff_t host_steps_of(const DeviceReport& report) {
  return std::ranges::count_if(report.launches, [](const LaunchReport& l) { return l.on_host; });
}

// Without a GPU: the launches that compute gradients. Copies of these to the caller are none in a training
void print_plan(const Options& o) {
  const Network network = load_onnx(o.model);
  const GradientNetwork g = gradients(network, mean_squared_error(), {.extents = extents_of(network, o.batch)});
  const DeviceReport report = planned(g, o.device);
  std::size_t count = training::DeviceOptimiser::update_launches;
  for (const LaunchReport& l : report.launches) {
    if (l.name.starts_with("output gradient:")) continue;
    std::printf("%8.2f us  %s | %s | %s\n", l.predicted_us, l.name.c_str(), l.what.c_str(), l.how.c_str());
    count += l.on_host ? 0 : 1;
  }
  std::printf("%zu launches with those of the update, %td host steps, on %s\n", count, host_steps_of(report),
              report.device.c_str());
}

class Bench {
 public:
  explicit Bench(const Options& o)
      : o_(o),
        network_(load_onnx(o.model)),
        trainer_{.extents = extents_of(network_, o.batch),
                 .optimiser = {.clip_norm = 1e6},
                 .device = Device::cuda,
                 .device_index = o.device},
        gradients_(gradients(network_, mean_squared_error(), {.extents = trainer_.extents})),
        parameters_(training::learnt_parameters(gradients_.parameters, trainer_.optimiser)),
        steps_(gradients_, {.device = Device::cuda, .device_index = o.device}, trainer_, parameters_, statistics()) {
    for (const TensorId id : gradients_.network.inputs) {
      const NetworkTensor& t = gradients_.network[id];
      if (is_parameter(t.name)) continue;
      std::vector<std::int64_t> shape;
      for (const Dim& d : t.shape) shape.push_back(d.value());
      const DType type = t.dtype;  // integers are 0
      std::vector<float> values =
          random_values(element_count(shape) * static_cast<std::int64_t>(size_of(type)) / 4 + 1);
      if (type != DType::f32) std::ranges::fill(values, 0.0f);
      memory_.push_back(std::make_unique<cuda::DeviceBuffer>(o.device, values.data(), values.size() * sizeof(float)));
      inputs_[t.name] = {memory_.back()->data(), type, shape, {}};
    }
  }

  json run() {
    for (int i = 0; i < 5; ++i) step(), (void)steps_.finish();
    std::vector<double> host;
    for (int i = 0; i < o_.steps; ++i) {
      const auto start = bench::Clock::now();
      step();
      host.push_back(1e6 * bench::seconds_since(start));
      (void)steps_.finish();
    }
    std::vector<double> gpu;
    for (int round = 0; round < 7; ++round) gpu.push_back(pipelined_us());
    const DeviceReport report = planned(gradients_, o_.device);
    std::size_t values = 0;
    for (const auto& p : parameters_) values += p.values.size();
    return {{"step_us", median_of(gpu)},
            {"host_us", median_of(host)},
            {"launches", steps_.launches()},
            {"host_steps", host_steps_of(report)},
            {"batch", o_.batch},
            {"parameters", values},
            {"loss", last_.loss},
            {"arena_bytes", report.memory.arena},
            {"peak_bytes", cuda::peak_memory(o_.device)},
            {"gpu", cuda::open_device(o_.device).name}};
  }

 private:
  bool is_parameter(const std::string& name) const {
    return std::ranges::any_of(parameters_, [&](const auto& p) { return p.name == name; });
  }
  std::vector<training::Statistic> statistics() {
    for (const BatchStatistics& s : gradients_.statistics)
      for (const TensorId id : {s.mean, s.variance}) running_.push_back(*network_[id].constant);
    std::vector<training::Statistic> all;
    for (auto& values : running_) all.push_back({&values, 1});
    return all;
  }
  void step() {
    ++count_;
    steps_.begin(inputs_, {.learning_rate = 1e-4, .update = count_, .is_update = true});
  }
  // The time of a step that begins while the one before runs
  double pipelined_us() {
    step();
    const auto start = bench::Clock::now();
    for (int i = 0; i < o_.steps; ++i) step(), last_ = steps_.finish();
    last_ = steps_.finish();
    return 1e6 * bench::seconds_since(start) / o_.steps;
  }

  Options o_;
  Network network_;
  TrainerOptions trainer_;
  GradientNetwork gradients_;
  std::vector<training::LearntParameter> parameters_;
  std::deque<std::vector<float>> running_;
  training::DeviceSteps steps_;
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> memory_;
  std::map<std::string, ConstTensorView> inputs_;
  UpdateResult last_{};
  std::int64_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Times the training step of an ONNX model on a GPU, with its mean squared error"};
  app.add_option("model", o.model, "An ONNX file")->required();
  app.add_option("--batch", o.batch, "The symbols in the inputs' shapes");
  app.add_option("--device", o.device, "Which GPU");
  app.add_option("--steps", o.steps, "Steps of a round")->check(CLI::PositiveNumber);
  app.add_flag("--plan", o.plan, "List the launches instead; needs no GPU");
  CLI11_PARSE(app, argc, argv);
  try {
    if (o.plan)
      print_plan(o);
    else
      std::printf("%s\n", Bench(o).run().dump().c_str());
  } catch (const Error& e) {
    std::fprintf(stderr, "unisono_bench_training: %s\n", e.what());
    return 1;
  }
  return 0;
}
