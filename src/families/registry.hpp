#pragma once
/// The plan that a workload gets, of the first family that serves it.

#include <optional>
#include <string>
#include <vector>

#include "families/interface/family.hpp"
#include "families/list.hpp"
#include "families/override.hpp"
#include "plan/expected.hpp"
#include "plan/tile_limits.hpp"

namespace unisono::families {

/// Whether a family's kernel there multiplies one matrix, or image, by two filters (Family::multiplies_two).
bool multiplies_two(const plan::Device& device);

/// What epilogues are analysed for, before it is known which family serves them: tiles of the matrix instructions
/// (sm90). The other families serve what that analysis gives.
plan::TileLimits tile_limits();

/// The plans of the first family that has a legal one, the fastest predicted first; then what was refused, there and by
/// the families before it. `family=NAME` in `fixed` asks that family alone; other fields without a name do not reach
/// family `plain`. Refuses with every reason if no family can serve the workload whatever the plan. Throws UserError
/// for a contraction or a name that is wrong.
plan::Expected<std::vector<Candidate>> candidates(const Workload& workload, const PlanOverride& fixed = {});

/// Why the families that are asked ahead of `taken` do not serve a workload; nothing if none are.
std::optional<Refusal> refused_ahead_of(const Family& taken, const Workload& workload);

/// The best of them, or the refused candidates and their reasons.
plan::Expected<PlanPointer> choose(const Workload& workload, const PlanOverride& fixed = {});

/// For `unisono explain --device cuda`: the plan that is taken (`chosen`, else the one that choose() takes), why it has
/// its mode, the next `alternatives` best with their predicted times, and why the other candidates were refused. If
/// none is legal it says so; throws Refused if candidates() refuses.
std::string explain(const Workload& workload, const PlanOverride& fixed = {}, std::size_t alternatives = 5,
                    const PlanPointer& chosen = {});

/// The refused candidates by reason, the most frequent first: the reason, how many candidates, one of them. Reasons
/// that differ in their numbers only are one.
std::vector<std::string> refusals_by_reason(const std::vector<Candidate>& all, std::size_t most = 20);

}  // namespace unisono::families
