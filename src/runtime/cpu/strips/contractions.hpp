#pragma once
/// The kinds of accumulator source, one file each.

#include <memory>

#include "runtime/cpu/strips/accumulator.hpp"

namespace coda::cpu {

/// The dtype in which two operands are multiplied: bf16 if both are and the processor has instructions for it, else
/// f32, which holds the values of tf32, f16 and bf16 exactly. Throws Unsupported for other dtypes.
DType product_dtype(const Contraction& contraction, DType a, DType b);

std::unique_ptr<AccumulatorSource> convolution_source(const Conv2d& c, const Tiling& tiling,
                                                      const CompileOptions& options);
std::unique_ptr<AccumulatorSource> transposed_convolution_source(const ConvTranspose2d& c, const Tiling& tiling,
                                                                 const CompileOptions& options);
std::unique_ptr<AccumulatorSource> gemm_source(const Gemm& g, const Tiling& tiling, const CompileOptions& options);

}  // namespace coda::cpu
