#pragma once
/// Operands and outputs of a problem in the GPU's memory.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "tuner/device_kernels.hpp"
#include "tuner/problem.hpp"

namespace unisono::tuner {

/// Bytes of the operands and of the outputs, each rounded up to 256.
struct Footprint {
  std::size_t inputs = 0, outputs = 0;
};
Footprint footprint(const Problem& problem);

/// Arguments whose tensors lie one after another from these addresses on. Scalars by value are 0.5 unless they have a
/// default.
Arguments arguments_at(const Problem& problem, std::byte* inputs, std::byte* outputs);

/// Memory for timing, one block that grows: whatever stands in the inputs are numbers between -1 and 1.
class Arena {
 public:
  Arena(int device_index, const DeviceKernels& kernels) : device_index_(device_index), kernels_(kernels) {}

  /// So many sets that together they exceed `rotating_bytes` (one at least, `most` at most), each with memory of its
  /// own. Valid until the next call.
  std::vector<Arguments> sets(const Problem& problem, std::size_t rotating_bytes, std::size_t most, Stream stream);

 private:
  int device_index_;
  const DeviceKernels& kernels_;
  std::unique_ptr<cuda::DeviceBuffer> inputs_, outputs_;
};

}  // namespace unisono::tuner
