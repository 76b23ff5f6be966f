// The whole way of a graph: verified, rewritten by the passes, cut into stages, and handed to the backend that runs it.

#include <fmt/format.h>

#include "coda/error.hpp"
#include "coda/executable.hpp"
#include "passes/passes.hpp"
#include "runtime/cpu/strips/executable.hpp"

namespace coda {

Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // ir/: what the caller wrote is a legal graph over a legal contraction
  verify(graph);
  extents(contraction);

  // passes/: normalisations become reductions, operators are fused, what nothing needs is dropped
  const passes::Observer observer = [&](const passes::Pass& pass, const Graph& before, const Graph& after) {
    if (options.on_pass) options.on_pass(std::string(pass.name), before, after);
  };
  const Graph lowered = passes::run_pipeline(graph, options.on_pass ? observer : passes::Observer{});

  // runtime/: the backend partitions the graph into stages and makes its program
  switch (options.device) {
    case Device::cpu: return Executable(cpu::make_executable(contraction, lowered, graph, options));
    case Device::cuda:
      throw Unsupported(
          fmt::format("{} on device cuda: this version of the library has no CUDA backend; use Device::cpu",
                      to_string(contraction)));
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

void Executable::run(const Arguments& arguments) const { impl_->run(arguments); }

std::string Executable::describe() const { return impl_->describe(); }

}  // namespace coda
