// A CUDA kernel of one's own with an epilogue that is generated: own.cuh comes from own_kernel.txt by
//   unisono explain own_kernel.txt --gemm '37,80->96' --visitor own > own.cuh
// The product is the simplest there is, a thread for each element; what counts is the call at its end.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "own.cuh"

using unisono::own::Epilogue;

__global__ void product(const float* x, const float* w, int m, int n, int k, unisono::ElementResults results,
                        Epilogue::Params params) {
  const Epilogue epilogue(params, results);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += gridDim.x * blockDim.x) {
    const int row = i / n, column = i % n;
    float sum = 0.f;
    for (int c = 0; c < k; ++c) sum = fmaf(x[row * k + c], w[c * n + column], sum);
    epilogue(sum, {0, row}, column, n);
  }
}

static void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

template <class T>
static T* on_device(const std::vector<T>& values) {
  T* data = nullptr;
  check(cudaMalloc(&data, values.size() * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return data;
}

static std::vector<float> normal(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& v : values) v = draw(random);
  return values;
}

static double worst_error(const __nv_bfloat16* device, const std::vector<double>& expected) {
  std::vector<__nv_bfloat16> values(expected.size());
  check(cudaMemcpy(values.data(), device, values.size() * sizeof values[0], cudaMemcpyDeviceToHost), "cudaMemcpy");
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::fmax(worst, std::fabs(__bfloat162float(values[i]) - expected[i]) / (1 + std::fabs(expected[i])));
  return worst;
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU: the kernel was compiled, and does not run");
    return 77;  // skipped
  }
  constexpr int m = 37, n = 96, k = 80;
  constexpr float gain = 0.5f;
  const std::vector<float> x = normal(m * k, 1), w = normal(k * n, 2), bias = normal(n, 3), r = normal(m * n, 4);
  __nv_bfloat16* const y = on_device(std::vector<__nv_bfloat16>(m * n));
  __nv_bfloat16* const aux = on_device(std::vector<__nv_bfloat16>(m * n));

  Epilogue::Params params{};  // a member for each operand, by its name
  params.bias = on_device(bias), params.r = on_device(r), params.gain = gain;
  product<<<8, 128>>>(on_device(x), on_device(w), m, n, k, {y, aux}, params);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");

  std::vector<double> expected(m * n), before(m * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double h = bias[j];
      for (int c = 0; c < k; ++c) h += double(x[i * k + c]) * w[c * n + j];
      before[i * n + j] = h;
      expected[i * n + j] = h * 0.5 * std::erfc(-h / std::sqrt(2.0)) * gain + r[i * n + j];
    }
  const double worst = std::fmax(worst_error(y, expected), worst_error(aux, before));
  std::printf("largest relative error of y and aux: %.2e (bf16 rounds by 3.9e-03)\n", worst);
  return worst < 0.01 ? 0 : 1;
}
