#pragma once
/// The plans of this family: tiles of several sizes, or a thread for each output.

#include <vector>

#include "families/interface/family.hpp"
#include "families/plain/plan.hpp"

namespace unisono::families::plain {

/// All plans for a workload that refuse() has no reason against, the fastest predicted first.
std::vector<PlainPlan> plans(const Workload& workload);

}  // namespace unisono::families::plain
