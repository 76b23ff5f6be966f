// A 3x3 convolution with bias, GroupNorm and SiLU on a GPU: one kernel, launched once, then replayed as a CUDA Graph.
// The result is compared with what the CPU backend makes of the same graph and the same bytes.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// A tensor in the GPU's memory. What Unisono takes is its address, dtype and shape.
template <class T>
struct DeviceTensor {
  T* data = nullptr;
  std::size_t count;
  explicit DeviceTensor(const std::vector<T>& values) : count(values.size()) {
    check(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(data, values.data(), count * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceTensor() { cudaFree(data); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;
  std::vector<T> values() const {
    std::vector<T> host(count);
    check(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }
};

std::vector<float> random_values(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<__nv_bfloat16> to_bf16(const std::vector<float>& values) {
  std::vector<__nv_bfloat16> short_values(values.size());
  std::transform(values.begin(), values.end(), short_values.begin(), [](float v) { return __float2bfloat16(v); });
  return short_values;
}

constexpr std::int64_t images = 8, height = 64, width = 64, channels = 320, filters = 320;
constexpr auto bf16 = unisono::DType::bf16;

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("this machine has no GPU");
    return 77;  // skipped
  }
  const unisono::Conv2d convolution{.n = images,
                                    .h = height,
                                    .w = width,
                                    .c = channels,
                                    .k = filters,
                                    .r = 3,
                                    .s = 3,
                                    .pad = 1,
                                    .dtype_x = bf16,
                                    .dtype_w = bf16};
  const unisono::Graph graph = unisono::parse(R"(
    h = acc + bias[n]
    y = silu(group_norm(h, groups=32, scale=gamma[n], shift=beta[n], eps=1e-5))
    store y : bf16
  )");

  // Compiled once, or taken from the cache on disk
  unisono::CompileOptions options;
  options.device = unisono::Device::cuda;
  const unisono::Executable kernel = unisono::compile(convolution, graph, options);
  std::puts(kernel.describe().c_str());

  const auto x = to_bf16(random_values(images * height * width * channels, 1, 1));
  const auto w = to_bf16(random_values(filters * 9 * channels, 1 / std::sqrt(9.f * channels), 2));
  const auto bias = random_values(filters, 1, 3), gamma = random_values(filters, 1, 4),
             beta = random_values(filters, 1, 5);
  std::vector<__nv_bfloat16> expected(images * height * width * filters);

  const auto arguments = [](const auto* a, const auto* b, const float* bi, const float* ga, const float* be, auto* y) {
    unisono::Arguments all;
    all.image = {a, bf16, {images, height, width, channels}, {}};
    all.filter = {b, bf16, {filters, 3, 3, channels}, {}};
    all.operands["bias"] = {bi, unisono::DType::f32, {filters}, {}};
    all.operands["gamma"] = {ga, unisono::DType::f32, {filters}, {}};
    all.operands["beta"] = {be, unisono::DType::f32, {filters}, {}};
    all.outputs["y"] = {y, bf16, {images, height, width, filters}, {}};
    return all;
  };
  const DeviceTensor dx(x), dw(w), dy(expected);
  const DeviceTensor dbias(bias), dgamma(gamma), dbeta(beta);

  // Checked and bound once; each enqueue() is one launch
  const unisono::Launch launch = kernel.bind(arguments(dx.data, dw.data, dbias.data, dgamma.data, dbeta.data, dy.data));
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  cudaGraph_t captured;
  cudaGraphExec_t replay;
  constexpr int launches = 20;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < launches; ++i) launch.enqueue(stream);
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&replay, captured, 0), "cudaGraphInstantiate");

  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  float milliseconds = 0;
  for (int i = 0; i < 3; ++i) {
    check(cudaEventRecord(start, stream), "cudaEventRecord");
    check(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
    check(cudaEventRecord(stop, stream), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
  }
  std::printf("%.1f us a launch, by replays of a graph with operands in the cache\n",
              static_cast<double>(milliseconds) * 1000 / launches);

  unisono::compile(convolution, graph)
      .run(arguments(x.data(), w.data(), bias.data(), gamma.data(), beta.data(), expected.data()));
  const auto y = dy.values();
  double largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(__bfloat162float(y[i]) - __bfloat162float(expected[i]))));
  std::printf("largest difference from the CPU backend: %.3g\n", largest);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(captured);
  cudaStreamDestroy(stream);
  return largest < 0.1 ? 0 : 1;  // values up to about 10 in bf16, one step of which is 0.06 there
}
