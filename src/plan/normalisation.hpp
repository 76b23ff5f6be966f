#pragma once
/// The normalisation of an epilogue.

#include <optional>
#include <set>
#include <vector>

#include "passes/affine_form.hpp"
#include "plan/epilogue.hpp"
#include "plan/refusal.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// Makes the normalisation of `form` the epilogue's only stage, and its graph the epilogue's. Refuses reductions other
/// than its and `others`, which are somebody else's; without a form all.
std::optional<Refusal> find_normalisation(Epilogue& epilogue, const std::optional<passes::AffineForm>& form,
                                          const std::set<ValueId>& others = {});

/// Refuses values of an image, beside statistics over the rows of all images: tiles then run through the borders
/// between images.
std::optional<Refusal> refuse_images(const Graph& graph);

/// For each value, whether one of `roots` is among what it is computed from (itself included).
std::vector<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots);

}  // namespace unisono::plan
