#pragma once
/// ONNX's backend tests on a GPU.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::test {

struct GpuRun {
  std::string refusals;   ///< path of a file: lines "pattern of a message | why"
  std::string only;       ///< pattern of names; empty: all
  std::string precision;  ///< bf16 or f16
  int every = 1;          ///< one of each so many tests,
  int first = 0;          ///< this one
  int at_least = 0;       ///< so many have to agree
  int on_host = 1 << 30;  ///< at most so many may have host steps
};

/// What passes on the CPU agrees on the GPU, or is refused with a message that has a pattern. Prints what does not, and
/// counts; true if all is well.
bool run_on_gpu(const std::vector<std::filesystem::path>& folders, const GpuRun& what);

}  // namespace unisono::test
