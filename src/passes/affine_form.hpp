#pragma once
/// A normalisation as its statistics and an affine part.

#include <optional>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::passes {

/// result = (input - mean)·factor + shift; with a mean of squares input·factor + shift; with a maximum and a sum
/// exp(input - maximum) / sum·factor + shift. The values factor and shift have axes no finer than [b,n] and may read
/// mean, variance and operands; of statistics of rows they have axes [m] or [] and read mean, variance and scalars.
/// Absent: 1 and 0.
struct Affine {
  ValueId input{};                                                   ///< [m,n]
  std::optional<ValueId> mean, variance, mean_square, maximum, sum;  ///< the reductions that the graph has
  std::optional<ValueId> factor, shift;
  ValueId result{};

  std::vector<ValueId> reductions() const;
};

struct AffineForm {
  Graph graph;
  Affine part;
};

/// Follows elements as far as they are an affine function of input - mean, from the reductions that `statistics` names;
/// without moments of `statistics.result`, from its user `first` on if there is one. The graph gets nodes for a mean, a
/// factor or a shift that it does not spell out, and is sorted again.
AffineForm affine_form(Graph graph, const Affine& statistics, bool of_rows, std::optional<ValueId> first = {});

}  // namespace unisono::passes
