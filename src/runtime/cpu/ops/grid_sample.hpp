#pragma once
/// Images and volumes at places that a tensor names.

#include "coda/network/index_operators.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace coda::cpu {

/// See operators::GridSample; f32, sums in float64.
void grid_sample(const operators::GridSample& how, const Strided& x, const Strided& grid, const Strided& to,
                 const Parallel& parallel);

}  // namespace coda::cpu
