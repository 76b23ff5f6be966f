#pragma once
/// What the GPU does at best, measured in the same run: floors are made of it.

#include <filesystem>
#include <string>

#include "jit/jit.hpp"
#include "plan/device.hpp"

namespace unisono::bench {

struct Ceilings {
  double matmul_tflops = 0;   ///< bf16
  std::string matmul_source;  ///< "cuBLAS, 4096x4096x4096", or who gave it
  double copy_tbps = 0;       ///< read + write
  std::string copy_source;

  /// µs that no kernel can go below: operations over the one, bytes over the other.
  double floor_us(double flop, double bytes) const;
};

/// The kernel that copies, for --precompile.
jit::Request copy_request(const plan::Device& device);

/// Measures what is not given (0). cuBLAS is loaded for the matrix products; without it, and without a number,
/// UserError.
Ceilings measure_ceilings(double given_tflops, double given_tbps, const std::filesystem::path& libraries);

}  // namespace unisono::bench
