#pragma once
/// A GPU as planners see it.

#include <array>
#include <cstddef>
#include <string>

namespace unisono::plan {

/// What a plan needs to know of a GPU. The defaults are an H200's, so that plans can be made without one.
struct Device {
  std::string name = "NVIDIA H200";
  int major = 9, minor = 0;
  int sms = 132;
  std::size_t shared_bytes = 232448;  ///< that a block may have
  /// Blocks that are resident at once in clusters of 1 to 8 blocks, one block an SM: blocks[size].
  std::array<int, 9> resident_blocks{0, 132, 132, 126, 120, 110, 120, 105, 112};
  double tensor_tflops = 800;  ///< bf16, at the clock that it keeps under load
  double memory_tbps = 4.2;
  std::string driver = {};  ///< its version; empty where there is none

  /// What kernels for it are compiled for. From compute capability 9.0 on that is the architecture with the features
  /// that no later one need have: "sm_90a".
  std::string arch() const { return "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : ""); }
};

}  // namespace unisono::plan
