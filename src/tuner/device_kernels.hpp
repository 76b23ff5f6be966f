#pragma once
/// Kernels of the tuner's own (kernels/unisono/check/check.cuh): random operands, and accumulators in float64.

#include <cstdint>
#include <memory>

#include "jit/jit.hpp"
#include "runtime/cuda/plain.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"

namespace unisono::tuner {

class DeviceKernels {
 public:
  /// Compiles and loads them. Throws CompileError, DeviceError.
  DeviceKernels(int device_index, jit::Jit& compiler);

  /// Random numbers of a uniform distribution with this mean and deviation, of f32, bf16 or f16; zeros of other types
  /// are left as they are.
  void fill(void* to, DType type, std::int64_t count, double mean, double deviation, std::uint64_t seed,
            Stream stream) const;
  /// All bits set: NaN in every type of 16 bits.
  void poison(void* to, std::size_t bytes, Stream stream) const;
  /// sum and absolute (rows, outputs): the accumulators of these rows, and the sums of the products' absolute values.
  void sums(const Contraction& contraction, const void* a, const void* b, std::int64_t first_row, std::int64_t rows,
            double* sum, double* absolute, Stream stream) const;

 private:
  std::shared_ptr<const cuda::PlainKernel> fill_, sums_;
};

}  // namespace unisono::tuner
