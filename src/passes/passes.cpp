#include "passes/passes.hpp"

#include <array>
#include <utility>

#include "passes/canonicalise.hpp"
#include "passes/common_subexpressions.hpp"
#include "passes/eliminate_reductions.hpp"
#include "passes/factor_cross_entropy.hpp"
#include "passes/fold_constants.hpp"
#include "passes/fuse_multiply_add.hpp"
#include "passes/fuse_operators.hpp"
#include "passes/prune.hpp"
#include "passes/split_normalisations.hpp"

namespace unisono::passes {

namespace {

constexpr Pass pruning{"prune", "remove what no store and no effect needs", true, prune};
constexpr Pass folding{"fold_constants", "compute what depends on constants alone", true, fold_constants};
constexpr Pass canonical{"canonicalise", "bring equal expressions to one spelling", true, canonicalise};
constexpr Pass sharing{"common_subexpressions", "compute equal values once", true, common_subexpressions};
constexpr Pass fusion{"fuse_operators", "recognise activations that are written out", false, fuse_operators};
constexpr Pass factoring{"factor_cross_entropy", "take the logarithm out of a binary cross entropy", false,
                         factor_cross_entropy};
constexpr Pass splitting{"split_normalisations", "write normalisations and softmax as reductions and elementwise nodes",
                         false, split_normalisations};
constexpr Pass elimination{"eliminate_reductions", "drop reductions that need not run over elements", false,
                           eliminate_reductions};
constexpr Pass multiply_add{"fuse_multiply_add", "x*y + z in one instruction", false, fuse_multiply_add};
constexpr Pass numbering{"number_nodes", "number the nodes in the order in which the stores need them", true,
                         number_nodes};

// clang-format off
constexpr std::array table{
    pruning, folding,
    sharing, canonical, sharing,      // one spelling, so that the rows below need to know one only
    fusion,                           // log(p) and log(1 - p) become stable,
    sharing, canonical, factoring,    // then the logarithm factors out
    splitting, sharing, elimination,  // a mean that is asked for and one that a normalisation needs are one
    folding, sharing, canonical, sharing,
    multiply_add, sharing,            // last: no row above looks for fma
    numbering,
};
// clang-format on

}  // namespace

std::span<const Pass> pipeline() { return table; }

Graph run_pipeline(const Graph& graph, const Observer& observer) {
  Graph current = graph;
  for (const Pass& pass : pipeline()) {
    Graph next = pass.run(current);
#ifndef NDEBUG
    verify(next);
#endif
    if (observer) observer(pass, current, next);
    current = std::move(next);
  }
  return current;
}

}  // namespace unisono::passes
