#include "bench/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cublas.hpp"
#include "bench/replays.hpp"
#include "gpu/kernels.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

// Reads and writes 1 GiB each, by 64 bytes a thread; the best of several grids would differ by less than its spread
constexpr const char* copy_source = R"(
extern "C" __global__ void __launch_bounds__(256)
    unisono_copy(const uint4* __restrict__ from, uint4* __restrict__ to, unsigned long long count) {
    const unsigned long long base = blockIdx.x * 1024ull + threadIdx.x;
    uint4 v[4];
    for (int i = 0; i < 4; ++i) if (base + 256 * i < count) v[i] = __ldcs(from + base + 256 * i);
    for (int i = 0; i < 4; ++i) if (base + 256 * i < count) __stcs(to + base + 256 * i, v[i]);
}
)";

double measure_copy() {
  const gpu::Buffer from(std::size_t{1} << 30), to(std::size_t{1} << 30);
  const jit::Binary binary = gpu::compiler().compile(copy_request(gpu::device().device));
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  cuda::check(cuda::driver().cuModuleLoadData(&module, binary.cubin.data()), "loading the copy");
  cuda::check(cuda::driver().cuModuleGetFunction(&kernel, module, "unisono_copy"), "finding the copy");
  const auto enqueue = [&](CUstream stream) {
    CUdeviceptr source = from.address(), target = to.address();
    unsigned long long count = from.bytes() / 16;
    void* arguments[] = {&source, &target, &count};
    cuda::check(cuda::driver().cuLaunchKernel(kernel, static_cast<unsigned>(count / 1024), 1, 1, 256, 1, 1, 0, stream,
                                              arguments, nullptr),
                "launching the copy");
  };
  const auto copy = replays_of({enqueue}, "a copy", 3000);
  double best = copy->time();
  for (int i = 0; i < 12; ++i) best = std::min(best, copy->time());
  cuda::driver().cuModuleUnload(module);
  return 2.0 * static_cast<double>(from.bytes()) / best * 1e-6;
}

}  // namespace

jit::Request copy_request(const plan::Device& device) {
  return {.source = copy_source,
          .headers = {},
          .entry = "unisono_copy",
          .title = "a copy, for the ceiling",
          .arch = device.arch()};
}

double Ceilings::floor_us(double flop, double bytes) const {
  return std::max(flop / matmul_tflops * 1e-6, bytes / copy_tbps * 1e-6);
}

Ceilings measure_ceilings(double given_tflops, double given_tbps, const std::filesystem::path& libraries) {
  Ceilings c{given_tflops, "given", given_tbps, "given"};
  if (given_tflops <= 0) {
    try {
      const MatmulCeiling m = measure_matmul(libraries);
      c.matmul_tflops = m.tflops, c.matmul_source = m.source;
    } catch (const UserError& error) {
      throw UserError(fmt::format("the ceiling of matrix products cannot be measured: {}; give it by --matmul-tflops",
                                  error.what()));
    }
  }
  if (given_tbps <= 0) c.copy_tbps = measure_copy(), c.copy_source = "own kernel, 1 GiB read and written";
  return c;
}

}  // namespace unisono::bench
