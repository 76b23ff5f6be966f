#pragma once
/// Means and variances of one value, found as a normalisation.

#include <optional>
#include <set>

#include "passes/affine_form.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Reductions over rows that no element and no row reads.
std::set<ValueId> stored_alone(const Graph& graph);

/// The affine form behind the reductions that are none of `others`: means and variances of one value [m,n] over one
/// domain, in f32. Nothing: there are none, or others.
std::optional<AffineForm> moments_form(const Graph& graph, const std::set<ValueId>& others);

}  // namespace unisono::passes
