#pragma once
/// One row of an elementwise operator, by operator and type.

#include <cstdint>

#include "unisono/dtype.hpp"
#include "unisono/network/tensor_operators.hpp"

namespace unisono::cpu {

/// pointers: the operands, then the result; steps: bytes from one element to the next of each.
using RowFunction = void (*)(std::int64_t count, char* const* pointers, const std::int64_t* steps);

/// For operands of dtype `t` (of select: its x and y). Throws InternalError for a pair that does not exist.
RowFunction map_row(MapOp op, DType t);

RowFunction cast_row(DType from, DType to);

}  // namespace unisono::cpu
