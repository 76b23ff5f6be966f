#pragma once
/// The plans of this family.

#include <vector>

#include "families/interface/family.hpp"
#include "families/mma/plan.hpp"

namespace unisono::families::mma {

/// Plans of the `form`-th form of a workload that nothing refuses as a whole; those that `fixed` does not leave are not
/// among them.
std::vector<Candidate> plans(const Family& family, const Workload& workload, std::size_t form,
                             const PlanOverride& fixed);

/// The fields of a plan as text.
PlanOverride fields_of(const MmaPlan& plan);

}  // namespace unisono::families::mma
