#pragma once
/// Finds the normalisation in an optimised graph.

#include <set>
#include <vector>

#include "passes/row_form.hpp"
#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Makes the normalisation of the epilogue's graph a stage, unless it has no reductions but those of `others`, which
/// are somebody else's. The graph gets nodes for a factor or a shift that it does not spell out, and is sorted again.
/// Refuses other reductions. With `rows` the graph is its, and so is the normalisation.
std::optional<Refusal> find_normalisation(Epilogue& epilogue, const Extents& extents,
                                          const std::set<ValueId>& others = {}, const passes::RowForm* rows = nullptr);

/// For each value, whether one of `roots` is among what it is computed from (itself included).
std::vector<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots);

}  // namespace unisono::plan
