/// The whole way of a graph through Coda, from what the user wrote to something that runs.

#include <fmt/format.h>

#include "coda/contraction.hpp"
#include "coda/error.hpp"
#include "coda/executable.hpp"
#include "coda/graph.hpp"
#include "passes/partition.hpp"
#include "passes/passes.hpp"
#include "runtime/cpu/backend.hpp"

namespace coda {

namespace {

passes::Observer observer_of(const CompileOptions& options) {
  if (!options.on_pass) return {};
  return [&options](const passes::Pass& pass, const Graph& before, const Graph& after) {
    options.on_pass(std::string(pass.name), before, after);
  };
}

}  // namespace

Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // ir: the description and the graph are legal
  extents(contraction);
  verify(graph);

  // passes: normalisations become reductions, operations are fused, what nothing needs is dropped
  const Graph optimised = passes::run_pipeline(graph, observer_of(options));

  // passes: stages, so that a reduction over rows is complete before it is used
  const passes::Partition stages = passes::partition(optimised);

  // runtime: tiles, programs, the contraction's primitives
  switch (options.device) {
    case Device::cpu: return Executable(cpu::build(contraction, graph, optimised, stages, options));
    case Device::cuda:
      throw Unsupported(
          fmt::format("{} on device cuda:\n  cuda: this version of the library has no CUDA backend; use "
                      "Device::cpu",
                      to_string(contraction)));
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

}  // namespace coda
