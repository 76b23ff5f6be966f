// The denoising loop of a latent diffusion model, with classifier-free guidance by DDIM, and a UNet from an ONNX file
// such as Stable Diffusion 1.5's: inputs `sample` (2,C,H,W), `timestep` (i64) and one more, the text's embedding
// (2,tokens,width); one output, the noise. The update of the latents is a network, too, and everything that changes
// from step to step is in memory that it writes: one step is one CUDA graph of both networks, the loop so many replays
// of it, and the host waits once, at the end. Noise and embedding are random numbers.
//
// usage: diffusion_loop FILE [--device cpu|cuda] [--steps N] [--check]
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

constexpr double guidance = 7.5;

struct Options {
  std::string model, device = "cpu";
  int steps = 20;
  bool check = false;
  bool on_gpu() const { return device == "cuda"; }
};

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw unisono::DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
}

/// What DDIM needs of each step: x' = keep·x + noise·eps. Betas are Stable Diffusion's, of 1000 training steps.
struct Schedule {
  std::vector<std::int64_t> timestep;
  std::vector<float> keep, noise;

  explicit Schedule(int steps) {
    constexpr int trained = 1000;
    std::vector<double> signal(trained);  // ᾱ
    double product = 1;
    for (int t = 0; t < trained; ++t) {
      const double root = std::sqrt(0.00085) + (std::sqrt(0.012) - std::sqrt(0.00085)) * t / (trained - 1);
      signal[static_cast<std::size_t>(t)] = product *= 1 - root * root;
    }
    for (int i = 0; i < steps; ++i) {
      const int stride = trained / steps, t = std::min(1 + stride * (steps - 1 - i), trained - 1);
      const double from = signal[static_cast<std::size_t>(t)],
                   to = signal[static_cast<std::size_t>(std::max(t - stride, 0))];
      timestep.push_back(t);
      keep.push_back(static_cast<float>(std::sqrt(to / from)));
      noise.push_back(static_cast<float>(std::sqrt(1 - to) - std::sqrt(to / from) * std::sqrt(1 - from)));
    }
  }
};

std::vector<std::byte> bytes_of(const std::vector<std::int64_t>& numbers) {
  const auto* first = reinterpret_cast<const std::byte*>(numbers.data());
  return {first, first + numbers.size() * sizeof(std::int64_t)};
}

/// A tensor of the loop: on the host, and where the networks run on a GPU in its memory.
struct Tensor {
  unisono::DType type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> host;
  void* device = nullptr;

  Tensor(unisono::DType of, std::vector<std::int64_t> extents, bool on_gpu) : type(of), shape(std::move(extents)) {
    host.resize(static_cast<std::size_t>(unisono::element_count(shape)) * unisono::size_of(type));
    if (on_gpu) check(cudaMalloc(&device, host.size()), "cudaMalloc");
  }
  ~Tensor() {
    if (device != nullptr) cudaFree(device);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  unisono::TensorView view() { return {device != nullptr ? device : host.data(), type, shape, {}}; }
  float* floats() { return reinterpret_cast<float*>(host.data()); }
  std::int64_t* integers() { return reinterpret_cast<std::int64_t*>(host.data()); }
  std::size_t count() const { return host.size() / unisono::size_of(type); }
  void upload() {
    if (device != nullptr) check(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void download() {
    if (device != nullptr) check(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }
};

/// (sample, noise, step) → the next sample, timestep and step. What differs from step to step comes from tables.
unisono::Network update_network(const Schedule& s, const std::vector<std::int64_t>& sample,
                                const std::vector<std::int64_t>& timestep) {
  unisono::NetworkBuilder net("update");
  const auto n = static_cast<std::int64_t>(s.timestep.size()), each = unisono::element_count(timestep);
  std::vector<std::int64_t> next_step, next_timestep;
  for (std::int64_t i = 0; i < n; ++i) {
    next_step.push_back(std::min(i + 1, n - 1));
    next_timestep.insert(next_timestep.end(), static_cast<std::size_t>(each),
                         s.timestep[static_cast<std::size_t>(next_step.back())]);
  }
  const unisono::Shape shape(sample.begin(), sample.end());
  const auto x = net.input("sample", shape), eps = net.input("noise", shape);
  const auto step = net.input("step", {1}, unisono::DType::i64);
  const auto row = [&](unisono::NetworkValue table) { return net.apply(unisono::operators::Gather{0}, {table, step}); };
  const auto half = [&](unisono::NetworkValue both, std::int64_t i) {
    return net.apply(unisono::operators::Slice{{i}, {i + 1}, {1}, {0}}, {both});
  };
  const auto keep = reshape(row(net.constant("keep", {n}, s.keep)), {1, 1, 1, 1}),
             noise = reshape(row(net.constant("noises", {n}, s.noise)), {1, 1, 1, 1});
  const auto without = half(eps, 0), with = half(eps, 1);  // the text
  const auto next = keep * half(x, 0) + noise * (without + guidance * (with - without));
  net.output(unisono::concat({next, next}, 0), "next sample");
  const auto times = net.constant("times", {n, each}, unisono::DType::i64, bytes_of(next_timestep));
  net.output(reshape(row(times), timestep), "next timestep");
  net.output(row(net.constant("steps", {n}, unisono::DType::i64, bytes_of(next_step))), "next step");
  return net.build();
}

class Loop {
 public:
  Loop(const unisono::Network& model, const Options& options)
      : options_(options),
        schedule_(options.steps),
        unet_(unisono::compile(model, {.device = device()})),
        sample_(unisono::DType::f32, shape_of(model, "sample"), options.on_gpu()),
        noise_(unisono::DType::f32, sample_.shape, options.on_gpu()),
        timestep_(unisono::DType::i64, shape_of(model, "timestep"), options.on_gpu()),
        text_(unisono::DType::f32, shape_of(model, text_name(model)), options.on_gpu()),
        step_(unisono::DType::i64, {1}, options.on_gpu()),
        // f16 has three digits, of which the latents need all
        update_(unisono::compile(update_network(schedule_, sample_.shape, timestep_.shape),
                                 {.device = device(), .precision = unisono::DType::f16})) {
    if (sample_.shape.size() != 4 || sample_.shape[0] != 2)
      throw unisono::UserError("the sample of " + options.model + " is not (2,C,H,W): without and with the text");
    unet_in_ = {{"sample", sample_.view()}, {"timestep", timestep_.view()}, {text_name(model), text_.view()}};
    unet_out_ = {{model[model.outputs.at(0)].name, noise_.view()}};
    update_in_ = {{"sample", sample_.view()}, {"noise", noise_.view()}, {"step", step_.view()}};
    update_out_ = {{"next sample", sample_.view()}, {"next timestep", timestep_.view()}, {"next step", step_.view()}};
  }

  ~Loop() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Noise, the text, and the first step.
  void start() {
    const example::Tensor text = example::normal(text_.shape, 2);
    std::vector<std::int64_t> one = sample_.shape;
    one[0] = 1;
    const example::Tensor noise = example::normal(one, 1);
    std::copy(text.values.begin(), text.values.end(), text_.floats());
    for (std::size_t i = 0; i < sample_.count(); ++i) sample_.floats()[i] = noise.values[i % noise.values.size()];
    std::fill_n(timestep_.integers(), timestep_.count(), schedule_.timestep[0]);
    step_.integers()[0] = 0;
    for (Tensor* t : {&sample_, &timestep_, &text_, &step_}) t->upload();
  }

  void run() {
    if (options_.on_gpu()) return replay();
    for (int i = 0; i < options_.steps; ++i) unet_.run(unet_in_, unet_out_), update_.run(update_in_, update_out_);
  }

  /// The same, where the host computes the update from step to step.
  void run_by_plain_loops() {
    const std::size_t half = sample_.count() / 2;
    for (std::size_t i = 0; i < schedule_.timestep.size(); ++i) {
      std::fill_n(timestep_.integers(), timestep_.count(), schedule_.timestep[i]);
      unet_.run(unet_in_, unet_out_);
      for (std::size_t j = 0; j < half; ++j) {
        const double without = noise_.floats()[j], with = noise_.floats()[half + j];
        const double eps = without + guidance * (with - without);
        const double x = static_cast<double>(schedule_.keep[i]) * sample_.floats()[j] + schedule_.noise[i] * eps;
        sample_.floats()[j] = sample_.floats()[half + j] = static_cast<float>(x);
      }
    }
  }

  /// The latents, (C,H,W).
  std::vector<float> latents() {
    sample_.download();
    return {sample_.floats(), sample_.floats() + sample_.count() / 2};
  }

 private:
  using Inputs = std::map<std::string, unisono::ConstTensorView>;
  using Outputs = std::map<std::string, unisono::TensorView>;

  unisono::Device device() const { return options_.on_gpu() ? unisono::Device::cuda : unisono::Device::cpu; }
  static std::string text_name(const unisono::Network& model) {
    for (const unisono::TensorId id : model.inputs)
      if (model[id].name != "sample" && model[id].name != "timestep") return model[id].name;
    throw unisono::UserError("the model has no input beside `sample` and `timestep`; expected the text's embedding");
  }
  static std::vector<std::int64_t> shape_of(const unisono::Network& model, const std::string& name) {
    for (const unisono::TensorId id : model.inputs) {
      if (model[id].name != name) continue;
      std::vector<std::int64_t> shape;
      for (const unisono::Dim& dim : model[id].shape) {
        if (!dim.known())
          throw unisono::UserError("an extent of `" + name + "` is not fixed; export the model with numbers");
        shape.push_back(dim.value());
      }
      return shape;
    }
    throw unisono::UserError("the model has no input `" + name + "`");
  }

  // One step is captured, once.
  void capture() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    launches_ = {unet_.bind(unet_in_, unet_out_), update_.bind(update_in_, update_out_)};
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    for (const unisono::NetworkLaunch& launch : launches_) launch.enqueue(stream_);
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }

  // No step waits for the host.
  void replay() {
    if (graph_ == nullptr) capture();
    for (int i = 0; i < options_.steps; ++i) check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream_), "the denoising loop");
  }

  Options options_;
  Schedule schedule_;
  unisono::NetworkExecutable unet_;
  Tensor sample_, noise_, timestep_, text_, step_;
  unisono::NetworkExecutable update_;
  Inputs unet_in_, update_in_;
  Outputs unet_out_, update_out_;
  std::vector<unisono::NetworkLaunch> launches_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

int run(const Options& options) {
  const unisono::Network model = unisono::load_onnx(options.model);
  Loop loop(model, options);
  loop.start(), loop.run();  // compiles, and captures
  loop.start();
  const auto begin = std::chrono::steady_clock::now();
  loop.run();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  const std::vector<float> x = loop.latents();
  double sum = 0, squares = 0;
  for (const float v : x) sum += static_cast<double>(v), squares += static_cast<double>(v) * static_cast<double>(v);
  const double mean = sum / static_cast<double>(x.size()), root = std::sqrt(squares / static_cast<double>(x.size()));
  std::printf("%d steps in %.2f ms; %zu latents, mean %.4f, root mean square %.4f\n", options.steps, time.count(),
              x.size(), mean, root);
  if (!options.check) return std::isfinite(root) ? 0 : 1;
  Options plain = options;
  plain.device = "cpu";
  Loop reference(model, plain);
  reference.start(), reference.run_by_plain_loops();
  const std::vector<float> expected = reference.latents();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = example::worse(worst, static_cast<double>(x[i]), static_cast<double>(expected[i]));
  // On a GPU the UNet's tensors are bf16, and guidance multiplies their errors
  return example::verdict("the loop", worst, (options.on_gpu() ? 0.1 : 1e-4) * root);
}

/// Throws what is wrong with the command line.
Options parsed(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--check")
      options.check = true;
    else if (name.rfind("--", 0) != 0)
      options.model = name;
    else if (name == "--device")
      options.device = arguments.at(++i);
    else if (name == "--steps")
      options.steps = std::stoi(arguments.at(++i));
    else
      throw std::invalid_argument(name);
  }
  if (options.model.empty() || (options.device != "cpu" && !options.on_gpu()) || options.steps < 1 ||
      options.steps > 1000)
    throw std::invalid_argument("a model, a device or a number of steps");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = parsed({argv + 1, argv + argc});
  } catch (const std::exception&) {
    std::fprintf(stderr, "usage: diffusion_loop FILE [--device cpu|cuda] [--steps 1..1000] [--check]\n");
    return 2;
  }
  int gpus = 0;
  if (options.on_gpu() && (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)) {
    std::puts("this machine has no GPU");
    return 77;  // skipped
  }
  try {
    return run(options);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
