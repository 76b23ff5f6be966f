// unisono_bench_onnx: what an ONNX model takes on a GPU, as replays of one CUDA graph on random inputs. Prints one JSON
// object; scripts/networks/gpu_times.py compares it with PyTorch. With --train it times a training step instead.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "network_times.hpp"
#include "training.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"

namespace {

using namespace unisono;
using nlohmann::json;

struct Options {
  std::string model, precision = "bf16";
  int device = 0, rounds = 15;
  bool kernels = false, train = false, plan = false;
  std::int64_t batch = 8;
};

bench::Shapes shapes_of(const Network& network) {
  bench::Shapes shapes;
  for (const TensorId id : network.inputs) {
    auto& shape = shapes[network[id].name];
    for (const Dim& dim : network[id].shape) {
      if (!dim.known())
        throw UserError("input " + network[id].name + " has the shape " + to_string(network[id].shape) +
                        "; expected numbers alone: export the model with fixed sizes");
      shape.push_back(dim.value());
    }
  }
  return shapes;
}

int run_training(const Options& o) {
  const bench::TrainingBench b{.model = o.model,
                               .batch = o.batch,
                               .precision = o.precision == "f16" ? DType::f16 : DType::bf16,
                               .device = o.device,
                               .kernels = o.kernels};
  if (o.plan)
    bench::print_training_plan(b);
  else
    std::printf("%s\n", bench::time_training(b).dump().c_str());
  return 0;
}

int run(const Options& o) {
  if (o.train) return run_training(o);
  gpu::choose_device(o.device);
  const Network network = load_onnx(o.model);
  NetworkOptions options;
  options.device = Device::cuda;
  options.device_index = o.device;
  options.precision = o.precision == "f16" ? DType::f16 : DType::bf16;
  options.layout = Layout::nhwc;
  options.strict = true;  // what the host computes is no time of a GPU
  const bench::Shapes shapes = bench::channels_last(shapes_of(network));
  const auto start = bench::Clock::now();
  const NetworkExecutable executable = compile(network, options);
  const DeviceReport report = explain_device(network, options, shapes);
  const MemoryReport memory = executable.memory(shapes);
  const double compile_s = bench::seconds_since(start);
  const bench::NetworkTensors tensors(executable, shapes, options.precision);
  const bench::ReplayTimes times = bench::time_replays(executable, tensors, o.rounds);
  json j{{"us", times.us},
         {"spread", times.spread},
         {"host_us", times.host_us},
         {"launches", report.launches.size()},
         {"arena_bytes", memory.arena},
         {"compile_s", compile_s},
         {"gpu", gpu::device().device.name}};
  if (o.kernels) j["kernels"] = bench::kernels_json(bench::time_kernels(executable, tensors, 11), report);
  std::printf("%s\n", j.dump().c_str());
  return 0;
}

}  // namespace

// Exit codes as those of unisono: docs/command.md
int main(int argc, char** argv) {
  CLI::App app("Times an ONNX model on a GPU.", "unisono_bench_onnx");
  Options o;
  app.add_option("MODEL", o.model, "An ONNX file; without --train its inputs have fixed shapes")->required();
  app.add_option("--precision", o.precision, "bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "Of the median")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--device", o.device, "Which GPU")->capture_default_str();
  app.add_flag("--kernels", o.kernels, "Time each kernel by itself, too");
  auto* const train = app.add_flag("--train", o.train, "Time a training step, with the mean squared error");
  app.add_option("--batch", o.batch, "The symbols in the inputs' shapes")->needs(train)->capture_default_str();
  app.add_flag("--plan", o.plan, "List the step's launches instead; needs no GPU")->needs(train);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const UserError& error) {
    std::fprintf(stderr, "unisono_bench_onnx: %s\n", error.what());
    return 2;
  } catch (const Unsupported& error) {
    std::fprintf(stderr, "unisono_bench_onnx: not supported: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "unisono_bench_onnx: %s\n", error.what());
    return 1;
  }
}
