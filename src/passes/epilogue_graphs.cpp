#include "passes/epilogue_graphs.hpp"

#include <utility>

#include "passes/common_subexpressions.hpp"
#include "passes/gather_columns.hpp"
#include "passes/moments.hpp"
#include "passes/row_form.hpp"
#include "passes/split_row_variances.hpp"

namespace unisono::passes {

namespace {

std::optional<AffineForm> rows_of(const Graph& graph) {
  const auto form = row_form(graph);
  if (!form) return {};
  return affine_form(form->graph, form->part, true, form->first);
}

}  // namespace

EpilogueGraphs::EpilogueGraphs(Graph graph)
    : optimised(std::move(graph)),
      gathered(gather_columns(optimised)),
      general(common_subexpressions(split_row_variances(gathered))),
      stored(stored_alone(gathered)),
      moments(moments_form(gathered, {})),
      moments_beside_stored(stored.empty() ? moments : moments_form(gathered, stored)),
      rows(rows_of(gathered)) {}

}  // namespace unisono::passes
