#pragma once
/// The plans of this family.

#include <vector>

#include "families/cutlass_evt/plan.hpp"
#include "families/interface/family.hpp"

namespace unisono::families::cutlass_evt {

/// Those that `fixed` leaves, legal ones first, the fastest predicted first.
std::vector<Candidate> candidates(const Family& family, const Workload& workload, const PlanOverride& fixed);

/// Microseconds of a launch.
double predict_us(const Config& config, const Workload& workload);

}  // namespace unisono::families::cutlass_evt
