// Where cublas_v2.h was not found when the benchmark was configured.

#include "bench/cublas.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

MatmulCeiling measure_matmul(const std::filesystem::path&) {
  throw UserError("this build does not know cuBLAS: cublas_v2.h was not found when it was configured");
}

}  // namespace unisono::bench
