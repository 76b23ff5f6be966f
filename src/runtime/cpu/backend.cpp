#include "runtime/cpu/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/op_table.hpp"
#include "passes/passes.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/lower.hpp"
#include "runtime/cpu/room.hpp"
#include "runtime/cpu/tiled_executable.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/fork.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

int thread_count(const CompileOptions& options) {
  if (options.threads < 0 || options.threads > WorkerPool::most_threads)
    throw UserError(fmt::format("CompileOptions::threads is {}; expected 0 (one a core) to {}", options.threads,
                                WorkerPool::most_threads));
  return std::min(options.threads == 0 ? available_cores() : options.threads, WorkerPool::most_threads);
}

namespace {

TiledExecutable::Parts common_parts(const Extents& e, const Graph& source, const Graph& graph,
                                    const passes::Partition& stages, const CompileOptions& options,
                                    double row_work = 0) {
  const int threads = thread_count(options);
  const auto names = runtime::operand_names(source);
  runtime::check_storage(options, names);
  const bool reduces = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                   [](const Node& x) { return ir::is_reduction(x.op) && x.attr.domain.rows; });
  const Tiling tiling(e, threads, reduces, row_work);
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

// The sum acc + bias[n] if nothing else reads acc: the contraction can write it instead of acc
std::optional<ValueId> biased_accumulator(const Contraction& contraction, const Graph& graph) {
  if (std::holds_alternative<ConvTranspose2d>(contraction)) return {};  // oneDNN adds it in a pass of its own
  const auto is_acc = [&](ValueId v) { return graph[v].op == Op::acc; };
  const auto is_bias = [&](ValueId v) {
    const Node& x = graph[v];
    return x.op == Op::operand && x.axes == axes::n && x.dtype == DType::f32;
  };
  std::optional<ValueId> sum;
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    const auto& in = graph[v].inputs;
    if (std::none_of(in.begin(), in.end(), is_acc)) continue;
    if (sum || graph[v].op != Op::add || graph[v].dtype != DType::f32) return {};
    if (!is_bias(in[0]) && !is_bias(in[1])) return {};
    sum = v;
  }
  for (const Store& s : graph.stores)
    if (is_acc(s.value)) return {};
  return sum;
}

// Lets everything read acc in the place of the sum, which is left as a dead node: so its operand is still loaded
Graph with_accumulator_for(const Graph& graph, ValueId sum) {
  const auto& in = graph[sum].inputs;
  const ValueId acc = graph[in[0]].op == Op::acc ? in[0] : in[1];
  Graph g = graph;
  for (Node& x : g.nodes) std::replace(x.inputs.begin(), x.inputs.end(), sum, acc);
  for (Store& s : g.stores)
    if (s.value == sum) s.value = acc;
  std::replace(g.effects.begin(), g.effects.end(), sum, acc);
  return g;
}

// Either product, or convolution, of a dual one, and how the second is compiled
Contraction single(Contraction contraction) {
  if (auto* gemm = std::get_if<Gemm>(&contraction)) gemm->products = 1;
  if (auto* conv = std::get_if<Conv2d>(&contraction)) conv->products = 1;
  return contraction;
}
CompileOptions of_second(CompileOptions options) {
  options.constant_filter = options.constant_right1;
  return options;
}

void refuse_contraction(const Contraction& contraction) {
  const auto* product = std::get_if<Gemm>(&contraction);
  if (std::holds_alternative<FilterGradient2d>(contraction) || (product != nullptr && !product->group_rows.empty()))
    throw Unsupported(fmt::format(
        "{}: the cpu device has no kernel for it. Use the cuda device with plan=family=cutlass_evt, or compute {}",
        to_string(contraction), product ? "each group by itself" : "the product of dY and X's windows"));
}

std::shared_ptr<const TiledExecutable> assemble(const Contraction& contraction, const Graph& source,
                                                const Graph& optimised, const passes::Partition& stages,
                                                const CompileOptions& options, bool rounds = false) {
  const support::NoFork no_fork;
  const Extents e = extents(contraction);
  refuse_contraction(contraction);
  const auto sum = biased_accumulator(contraction, optimised);
  const Graph graph = sum ? with_accumulator_for(optimised, *sum) : optimised;
  const double row_work = flop(contraction) / 2 / static_cast<double>(std::max<std::int64_t>(e.images * e.height, 1));
  auto parts = common_parts(e, source, graph, sum ? passes::partition(graph) : stages, options, row_work);
  const bool uses_acc = parts.plan.accumulator_stage >= 0;
  const CallsOfThreads calls(parts.threads);
  if (uses_acc)
    parts.source = contraction_source(single(contraction), sum.has_value(), parts.tiling, options, *parts.unit, rounds);
  if (uses_acc && product_count(contraction) == 2)
    parts.second =
        contraction_source(single(contraction), false, parts.tiling, of_second(options), *parts.unit, rounds);
  if (parts.second && (parts.second->column_parts() > 1) != (parts.source->column_parts() > 1))
    throw Unsupported(
        fmt::format("{}: one of constant_filter and constant_right1 is dense, the other is not; on the CPU both are "
                    "read alike. Give "
                    "dense copies of both",
                    to_string(contraction)));
  if (parts.source && parts.source->column_parts() > 1)
    parts.threads = std::max(
        parts.threads, static_cast<int>(std::min<std::int64_t>(thread_count(options), parts.source->column_parts())));
  if (sum) {
    const auto& in = graph[*sum].inputs;
    parts.bias = static_cast<int>(graph[in[0]].op == Op::operand ? in[0] : in[1]);
  }
  parts.title = to_string(contraction);
  parts.space = {.shape_mn = shape_mn(contraction),
                 .layout = layout_of(contraction),
                 .reads_a = uses_acc,
                 .reads_b = uses_acc && !options.constant_filter,
                 .is_product = std::holds_alternative<Gemm>(contraction),
                 .is_dual = product_count(contraction) == 2};
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
                                                   const Graph& graph, const CompileOptions& options, bool rounds) {
  if (contraction) extents(*contraction);  // legal?
  const Graph optimised = optimise(graph, options);
  const passes::Partition stages = passes::partition(optimised);
  if (contraction) return assemble(*contraction, graph, optimised, stages, options, rounds);
  return assemble(space, graph, optimised, stages, options);
}

}  // namespace unisono::cpu
