// Where cublasLt.h was not found when the benchmark was configured.

#include "bench/cublaslt.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

struct Cublaslt::Impl {};

ProductEpilogue epilogue_of(const Case&) { return ProductEpilogue::none; }
Cublaslt::Cublaslt(const std::filesystem::path&) {
  throw UserError("this build does not know cuBLASLt: cublasLt.h was not found when it was configured");
}
Cublaslt::~Cublaslt() = default;
std::string Cublaslt::version() const { return ""; }
std::vector<Engine> Cublaslt::engines(const Gemm&, ProductEpilogue, const std::vector<std::unique_ptr<Data>>&) {
  return {};
}

}  // namespace unisono::bench
