#pragma once
/// An optimised graph in the ways in which the epilogues of kernels are found in it.

#include <optional>
#include <set>

#include "passes/affine_form.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

struct EpilogueGraphs {
  Graph optimised;                                  ///< after run_pipeline
  Graph gathered;                                   ///< gather_columns
  Graph general;                                    ///< that, and split_row_variances
  std::set<ValueId> stored;                         ///< stored_alone() of `gathered`
  std::optional<AffineForm> moments;                ///< moments_form() of all reductions of `gathered`
  std::optional<AffineForm> moments_beside_stored;  ///< that of those that are not stored alone
  std::optional<AffineForm> rows;                   ///< row_form() of `gathered`

  EpilogueGraphs(Graph optimised);  // NOLINT: an optimised graph is these
};

}  // namespace unisono::passes
