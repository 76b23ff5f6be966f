#include "passes/epilogue_graphs.hpp"

#include <utility>

#include "passes/common_subexpressions.hpp"
#include "passes/gather_columns.hpp"
#include "passes/split_row_variances.hpp"

namespace unisono::passes {

EpilogueGraphs::EpilogueGraphs(Graph graph)
    : optimised(std::move(graph)),
      gathered(gather_columns(optimised)),
      general(common_subexpressions(split_row_variances(gathered))),
      rows(row_form(gathered)) {}

}  // namespace unisono::passes
