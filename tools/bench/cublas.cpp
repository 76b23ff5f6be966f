#include "bench/cublas.hpp"

#include <cublas_v2.h>
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "bench/dynamic_library.hpp"
#include "bench/replays.hpp"
#include "gpu/kernels.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

#define UNISONO_TEXT_OF(name) #name
#define UNISONO_SYMBOL(name) UNISONO_TEXT_OF(name)  // cublasCreate is a macro for that of its version

struct Cublas {
  DynamicLibrary library;
  decltype(::cublasCreate)* create = nullptr;
  decltype(::cublasDestroy)* destroy = nullptr;
  decltype(::cublasSetStream)* set_stream = nullptr;
  decltype(::cublasSetWorkspace)* set_workspace = nullptr;
  // cublasGemmEx is overloaded in C++
  using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                              const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                              cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                              cublasComputeType_t, cublasGemmAlgo_t);
  Gemm* gemm = nullptr;
  cublasHandle_t handle = nullptr;
  gpu::Buffer scratch;

  explicit Cublas(const std::filesystem::path& folder)
      : library({"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, folder), scratch(std::size_t{64} << 20) {
    library.find(UNISONO_SYMBOL(cublasCreate), create);
    library.find(UNISONO_SYMBOL(cublasDestroy), destroy);
    library.find(UNISONO_SYMBOL(cublasSetStream), set_stream);
    library.find(UNISONO_SYMBOL(cublasSetWorkspace), set_workspace);
    library.find(UNISONO_SYMBOL(cublasGemmEx), gemm);
    check(create(&handle), "starting cuBLAS");
  }
  ~Cublas() {
    if (handle != nullptr) destroy(handle);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  static void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw UserError(fmt::format("{}: cuBLAS status {}", what, static_cast<int>(status)));
  }

  // D (m, n) = A (m, k) · B (n, k)ᵀ, row-major: column-major, D' = B·A'
  void enqueue(CUstream stream, int m, int n, int k, const gpu::Buffer& a, const gpu::Buffer& b,
               const gpu::Buffer& d) const {
    const float one = 1, zero = 0;
    check(set_stream(handle, stream), "giving cuBLAS a stream");
    check(set_workspace(handle, scratch.data(), scratch.bytes()), "giving cuBLAS its workspace");
    check(gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b.data(), CUDA_R_16BF, k, a.data(), CUDA_R_16BF, k,
               &zero, d.data(), CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "running cuBLAS");
  }
};

void fill(const gpu::Buffer& to, unsigned long long seed) {
  gpu::launch("unisono_fill16", gpu::striding, nullptr, to.address(), static_cast<unsigned long long>(to.bytes() / 2),
              1.f, 0.f, seed, 0);
}

// The fastest of some bursts; a pause before each lets the clock recover
double best_us(Replays& product) {
  double best = product.time();
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    best = std::min(best, product.time());
  }
  return best;
}

}  // namespace

MatmulCeiling measure_matmul(const std::filesystem::path& libraries) {
  const Cublas cublas(libraries);
  MatmulCeiling best;
  constexpr int sizes[][3] = {{4096, 4096, 4096}, {8192, 4096, 4096}, {8192, 8192, 4096}, {8192, 8192, 8192}};
  for (const auto& [m, n, k] : sizes) {
    const auto bytes = [](int x, int y) {
      return std::size_t{2} * static_cast<std::size_t>(x) * static_cast<std::size_t>(y);
    };
    const gpu::Buffer a(bytes(m, k)), b(bytes(n, k)), d(bytes(m, n));
    fill(a, 1), fill(b, 2);
    gpu::wait(nullptr, "filling matrices");
    const auto enqueue = [&, rows = m, cols = n, depth = k](CUstream s) {
      cublas.enqueue(s, rows, cols, depth, a, b, d);
    };
    const auto product = replays_of({enqueue}, "cuBLAS", 1000);
    const double tflops = 2.0 * m * n * k / best_us(*product) * 1e-6;
    if (tflops > best.tflops) best = {tflops, fmt::format("{}, bf16, {}x{}x{}", cublas.library.name(), m, n, k)};
  }
  return best;
}

}  // namespace unisono::bench
