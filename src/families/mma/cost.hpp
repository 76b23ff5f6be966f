#pragma once
/// How long a plan takes, roughly: docs/plan.md.

#include "families/interface/family.hpp"
#include "families/mma/plan.hpp"

namespace unisono::families::mma {

/// Microseconds of a launch, cold operands.
double predict_us(const MmaPlan& plan, const Workload& workload);

}  // namespace unisono::families::mma
