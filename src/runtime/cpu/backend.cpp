#include "runtime/cpu/backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "coda/error.hpp"
#include "passes/passes.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/lower.hpp"
#include "runtime/cpu/tiled_executable.hpp"
#include "runtime/cpu/worker_pool.hpp"

namespace coda::cpu {

namespace {

int thread_count(const CompileOptions& options) {
  if (options.threads < 0)
    throw UserError(fmt::format("CompileOptions::threads is {}; expected 0 (one a core) or more", options.threads));
  return std::min(options.threads == 0 ? available_cores() : options.threads, WorkerPool::most_threads);
}

TiledExecutable::Parts common_parts(const Extents& e, const Graph& source, const Graph& graph,
                                    const passes::Partition& stages, const CompileOptions& options) {
  const int threads = thread_count(options);
  const auto names = runtime::operand_names(source);
  runtime::check_storage(options, names);
  const Tiling tiling(e, threads);
  return {.title = {},
          .plan = lower(graph, stages, e, options, tiling.segment_height() * e.width),
          .tiling = tiling,
          .source = nullptr,
          .space = {},
          .operand_names = names,
          .threads = static_cast<int>(std::min<std::int64_t>(threads, tiling.strips())),
          .unit = &vector_unit()};
}

Layout layout_of(const Contraction& contraction) {
  if (const auto* c = std::get_if<Conv2d>(&contraction)) return c->layout;
  if (const auto* c = std::get_if<ConvTranspose2d>(&contraction)) return c->layout;
  return Layout::nhwc;
}

std::shared_ptr<const TiledExecutable> assemble(const Contraction& contraction, const Graph& source, const Graph& graph,
                                                const passes::Partition& stages, const CompileOptions& options) {
  const Extents e = extents(contraction);
  auto parts = common_parts(e, source, graph, stages, options);
  const bool uses_acc = parts.plan.accumulator_stage >= 0;
  if (uses_acc) parts.source = contraction_source(contraction, parts.tiling, options, *parts.unit);
  parts.title = to_string(contraction);
  parts.space = {.shape_mn = shape_mn(contraction),
                 .layout = layout_of(contraction),
                 .reads_a = uses_acc,
                 .reads_b = uses_acc && !options.constant_b};
  return std::make_shared<TiledExecutable>(std::move(parts));
}

std::shared_ptr<const TiledExecutable> assemble(const Extents& e, const Graph& source, const Graph& graph,
                                                const passes::Partition& stages, const CompileOptions& options) {
  if (e.images < 1 || e.height < 1 || e.width < 1 || e.cols < 1)
    throw UserError(fmt::format("the space has {} images of {}x{} pixels and {} columns; expected at least 1 of each",
                                e.images, e.height, e.width, e.cols));
  auto parts = common_parts(e, source, graph, stages, options);
  const bool uses_acc = parts.plan.accumulator_stage >= 0;
  if (uses_acc) parts.source = tensor_source(e, *parts.unit);
  parts.title = fmt::format("epilogue over {}x{}x{}x{}", e.images, e.height, e.width, e.cols);
  parts.space = {.shape_mn = {e.images, e.height, e.width, e.cols},
                 .layout = Layout::nhwc,
                 .reads_a = uses_acc,
                 .reads_b = false,
                 .a_is_acc = true};
  return std::make_shared<TiledExecutable>(std::move(parts));
}

Graph optimise(const Graph& graph, const CompileOptions& options) {
  verify(graph);
  passes::Observer observer;
  if (options.on_pass)
    observer = [&](const passes::Pass& pass, const Graph& before, const Graph& after) {
      options.on_pass(std::string(pass.name), before, after);
    };
  return passes::run_pipeline(graph, observer);
}

}  // namespace

std::shared_ptr<const ExecutableImpl> build(const Contraction& contraction, const Graph& source, const Graph& graph,
                                            const passes::Partition& stages, const CompileOptions& options) {
  return assemble(contraction, source, graph, stages, options);
}

Executable compile_epilogue(const Extents& space, const Graph& graph, const CompileOptions& options) {
  const Graph optimised = optimise(graph, options);
  return Executable(assemble(space, graph, optimised, passes::partition(optimised), options));
}

std::shared_ptr<const RegionKernel> compile_region(const std::optional<Contraction>& contraction, const Extents& space,
                                                   const Graph& graph, const CompileOptions& options) {
  if (contraction) extents(*contraction);  // legal?
  const Graph optimised = optimise(graph, options);
  const passes::Partition stages = passes::partition(optimised);
  if (contraction) return assemble(*contraction, graph, optimised, stages, options);
  return assemble(space, graph, optimised, stages, options);
}

}  // namespace coda::cpu
