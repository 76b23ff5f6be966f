#pragma once
/// What the table of element types (unisono/dtypes.def) says beyond unisono/dtype.hpp, for the host.

#include <cstdint>
#include <optional>

#include "unisono/dtype.hpp"

namespace unisono::support {

/// How matrix instructions multiply a type.
struct MatrixOperand {
  DType as{};    ///< what it is rounded to, or cut off to
  int time = 1;  ///< that they take, those of 16-bit types being 1
};

/// Nothing: no matrix instruction multiplies the type.
std::optional<MatrixOperand> matrix_operand(DType t);

/// MatrixOperand::time. Throws InternalError for a type that none multiplies.
int matrix_time(DType t);

/// Whether matrix instructions multiply it as tf32.
inline bool is_multiplied_as_tf32(DType t) {
  const auto operand = matrix_operand(t);
  return operand && operand->as == DType::tf32;
}

/// A floating-point type of 16 bits.
constexpr bool is_short_float(DType t) { return is_float(t) && size_of(t) == 2; }

/// Elements in 16 bytes: what TMA's strides, and vector loads, are multiples of.
constexpr std::int64_t elements_of_a_vector(DType t) { return 16 / static_cast<std::int64_t>(size_of(t)); }

}  // namespace unisono::support
