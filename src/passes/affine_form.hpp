#pragma once
/// A normalisation as its statistics and an affine part.

#include <optional>

#include "unisono/graph.hpp"

namespace unisono::passes {

/// result = (input - mean)·factor + shift. The values factor and shift have axes no finer than [b,n] and may read mean,
/// variance and operands; of statistics of rows they have axes [m] or [] and read mean, variance and scalars. Absent: 1
/// and 0.
struct Affine {
  ValueId input{};                        ///< [m,n]
  std::optional<ValueId> mean, variance;  ///< the reduction nodes in the graph
  std::optional<ValueId> factor, shift;
  ValueId result{};
};

struct AffineForm {
  Graph graph;
  Affine part;
};

/// Follows input - mean as far as elements are an affine function of it, from the reductions that `statistics` names.
/// The graph gets nodes for a mean, a factor or a shift that it does not spell out, and is sorted again.
AffineForm affine_form(Graph graph, const Affine& statistics, bool of_rows);

}  // namespace unisono::passes
