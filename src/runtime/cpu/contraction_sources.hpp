#pragma once
/// The accumulator sources, one for each kind of contraction; contraction_source() chooses, also the type in which
/// those multiply that are given one: if oneDNN lacks it for this processor, f32.

#include "runtime/cpu/accumulator.hpp"

namespace unisono::cpu {

std::unique_ptr<AccumulatorSource> image_source(const Conv2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute);
std::unique_ptr<AccumulatorSource> image_source(const Conv3d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute);
std::unique_ptr<AccumulatorSource> image_source(const ConvTranspose2d& c, bool with_bias, const Tiling& tiling,
                                                const CompileOptions& options, const VectorUnit& unit, DType compute);
std::unique_ptr<AccumulatorSource> matrix_source(const Gemm& g, bool with_bias, const Tiling& tiling,
                                                 const CompileOptions& options, const VectorUnit& unit, DType compute);

/// Whether each image is one row, which a constant matrix multiplies: row_source() serves it.
bool is_row_product(const Contraction& contraction, const CompileOptions& options);
std::unique_ptr<AccumulatorSource> row_source(const Contraction& contraction, bool with_bias,
                                              const CompileOptions& options, const VectorUnit& unit);

/// Whether a product has so few rows, and a right operand that is so large, that column_source() serves it.
bool cut_by_columns(const Gemm& g, const CompileOptions& options);
std::unique_ptr<AccumulatorSource> column_source(const Gemm& g, bool with_bias, const CompileOptions& options,
                                                 const VectorUnit& unit);

}  // namespace unisono::cpu
