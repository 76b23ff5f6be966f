#include "passes/optimised.hpp"

#include <string>

#include "passes/passes.hpp"

namespace unisono::passes {

Graph optimised(const Graph& graph, const CompileOptions& options) {
  if (!options.on_pass) return run_pipeline(graph);
  return run_pipeline(graph, [&options](const Pass& pass, const Graph& before, const Graph& after) {
    options.on_pass(std::string(pass.name), before, after);
  });
}

}  // namespace unisono::passes
