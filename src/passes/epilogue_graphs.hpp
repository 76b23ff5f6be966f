#pragma once
/// An optimised graph in the ways in which the epilogues of kernels are found in it.

#include <optional>

#include "passes/row_form.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

struct EpilogueGraphs {
  Graph optimised;              ///< after run_pipeline
  Graph gathered;               ///< gather_columns
  Graph general;                ///< that, and split_row_variances
  std::optional<RowForm> rows;  ///< row_form of that with gathered columns, if there is one

  EpilogueGraphs(Graph optimised);  // NOLINT: an optimised graph is these
};

}  // namespace unisono::passes
