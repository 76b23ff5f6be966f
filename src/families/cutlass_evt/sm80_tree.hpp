#pragma once
/// The visitors of CUTLASS 2.x: cutlass/epilogue/threadblock/fusion/visitors.hpp. sm_120 has them for 16-bit types.

#include "families/cutlass_evt/tree_text.hpp"

namespace unisono::families::cutlass_evt {

/// `is_dual`: of two accumulators (kernels/unisono/cutlass/sm80_dual.cuh).
const Dialect& sm80_dialect(bool is_dual);

}  // namespace unisono::families::cutlass_evt
