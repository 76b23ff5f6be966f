// A whole ONNX network as part of a CUDA graph of one's own: the graph copies an image to the GPU, runs the network and
// copies its results back. It is captured once and replayed for each image, with the caller's memory throughout.
// usage: onnx_graph_gpu FILE
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <unisono/unisono.hpp>

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Memory of the GPU.
struct DeviceMemory {
  void* data = nullptr;
  explicit DeviceMemory(std::size_t bytes) { check(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)), "cudaMalloc"); }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
};

/// A tensor of f32 in the GPU's memory, and page-locked memory of the host from which, or to which, it is copied.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::size_t count, bytes;
  DeviceMemory device;
  float* host = nullptr;

  explicit Tensor(std::vector<std::int64_t> extents)
      : shape(std::move(extents)),
        count(static_cast<std::size_t>(unisono::element_count(shape))),
        bytes(count * sizeof(float)),
        device(bytes) {
    check(cudaMallocHost(&host, bytes), "cudaMallocHost");
  }
  ~Tensor() { cudaFreeHost(host); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  unisono::TensorView view() const { return {device.data, unisono::DType::f32, shape, {}}; }
  std::vector<float> values() const { return {host, host + count}; }
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0, 1);
    std::generate_n(host, count, [&] { return uniform(random); });
  }
};

/// The shapes of the inputs, with 1 for every symbol such as "batch".
Shapes input_shapes(const unisono::Network& network) {
  Shapes shapes;
  for (const unisono::TensorId id : network.inputs)
    for (const unisono::Dim& dim : network[id].shape) shapes[network[id].name].push_back(dim.known() ? dim.value() : 1);
  return shapes;
}

using Results = std::map<std::string, std::vector<float>>;

/// The network with its tensors, and the stream on which it runs.
class Runner {
 public:
  explicit Runner(const unisono::Network& model)
      : network_(unisono::compile(model, {.device = unisono::Device::cuda})) {
    const Shapes shapes = input_shapes(model);
    for (const auto& [name, shape] : shapes) inputs_.try_emplace(name, shape);
    for (const auto& [name, shape] : network_.output_shapes(shapes)) outputs_.try_emplace(name, shape);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    // The caller's workspace: cleared on the stream, so that nothing on it comes before that
    const std::size_t bytes = network_.workspace_bytes(shapes);
    workspace_.emplace(bytes);
    std::map<std::string, unisono::ConstTensorView> in;
    std::map<std::string, unisono::TensorView> out;
    for (const auto& [name, t] : inputs_) in[name] = t.view();
    for (const auto& [name, t] : outputs_) out[name] = t.view();
    launch_.emplace(network_.bind(in, out, {.memory = workspace_->data, .bytes = bytes, .stream = stream_}));
  }
  ~Runner() {
    if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
    launch_.reset();
    cudaStreamDestroy(stream_);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Copies, kernels and copies, one after the other on the stream.
  void enqueue() {
    for (const auto& [name, t] : inputs_)
      check(cudaMemcpyAsync(t.device.data, t.host, t.bytes, cudaMemcpyHostToDevice, stream_), "copying an input");
    launch_->enqueue(stream_);
    for (const auto& [name, t] : outputs_)
      check(cudaMemcpyAsync(t.host, t.device.data, t.bytes, cudaMemcpyDeviceToHost, stream_), "copying a result");
  }

  /// The same as a graph. All that was on the stream is over, as it shares the launch's workspace.
  void capture() {
    cudaGraph_t graph = nullptr;
    std::size_t nodes = 0;
    check(cudaStreamSynchronize(stream_), "waiting");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    enqueue();
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    check(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
    check(cudaGraphInstantiate(&replay_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    std::printf("captured as a graph of %zu nodes\n", nodes);
  }
  void replay() { check(cudaGraphLaunch(replay_, stream_), "cudaGraphLaunch"); }

  void fill(unsigned seed) {
    for (auto& [name, t] : inputs_) t.fill(seed++);
  }
  Results results() {
    check(cudaStreamSynchronize(stream_), "waiting");
    Results all;
    for (const auto& [name, t] : outputs_) all[name] = t.values();
    return all;
  }
  void forget_results() {
    for (const auto& [name, t] : outputs_) std::fill_n(t.host, t.count, NAN);
  }

 private:
  unisono::NetworkExecutable network_;
  std::map<std::string, Tensor> inputs_, outputs_;
  std::optional<DeviceMemory> workspace_;
  std::optional<unisono::NetworkLaunch> launch_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;
};

bool same_bits(const Results& x, const Results& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.size() == b.second.size() &&
           std::memcmp(a.second.data(), b.second.data(), a.second.size() * sizeof(float)) == 0;
  });
}

int run(const char* path) {
  Runner runner(unisono::load_onnx(path));
  constexpr unsigned images = 3;
  std::vector<Results> expected;
  for (unsigned image = 0; image < images; ++image) {
    runner.fill(100 * image);
    runner.enqueue();
    expected.push_back(runner.results());
  }
  runner.capture();
  for (unsigned image = 0; image < images; ++image) {
    runner.fill(100 * image);
    runner.forget_results();
    runner.replay();
    if (!same_bits(runner.results(), expected[image])) {
      std::printf("the replay for image %u gave other bits than the run without a graph\n", image);
      return 1;
    }
  }
  std::printf("%u replays, each with the bits of the run without a graph\n", images);
  return same_bits(expected[0], expected[1]) ? 1 : 0;  // other images have other results
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: onnx_graph_gpu FILE\n");
    return 2;
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("this machine has no GPU");
    return 77;  // skipped
  }
  try {
    return run(argv[1]);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
