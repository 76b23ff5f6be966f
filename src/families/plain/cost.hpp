#pragma once
/// How long a plan takes, roughly: docs/plan.md.

#include "families/interface/family.hpp"
#include "families/plain/plan.hpp"

namespace unisono::families::plain {

/// Microseconds of a launch, cold operands.
double predict_us(const PlainPlan& plan, const Workload& workload);

/// Microseconds that matrix instructions would take at the rate of this device's tensor cores, or memory would.
double tensor_core_us(const Workload& workload);

}  // namespace unisono::families::plain
