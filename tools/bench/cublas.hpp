#pragma once
/// cuBLAS's matrix product, for the ceiling.

#include <filesystem>
#include <string>

namespace unisono::bench {

struct MatmulCeiling {
  double tflops = 0;
  std::string source;
};

/// The best of some large bf16 products, each in bursts after a pause. Throws UserError if there is no cuBLAS.
MatmulCeiling measure_matmul(const std::filesystem::path& libraries);

}  // namespace unisono::bench
