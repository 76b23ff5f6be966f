#include "passes/passes.hpp"

#include <array>

#include "passes/split_normalisations.hpp"

namespace coda::passes {

namespace {

constexpr std::array table{
    Pass{"split_normalisations", "write normalisations and softmax as reductions and elementwise nodes", false,
         split_normalisations},
};

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

}  // namespace coda::passes
