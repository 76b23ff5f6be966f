#pragma once
/// Images and volumes at places that a tensor names.

#include "runtime/cpu/ops/tensor.hpp"
#include "unisono/network/index_operators.hpp"

namespace unisono::cpu {

/// See operators::GridSample: elements and places of f32 or f64 each, sums in float64.
void grid_sample(const operators::GridSample& how, const Strided& x, const Strided& grid, const Strided& to,
                 const Parallel& parallel);

}  // namespace unisono::cpu
