/// The whole way of a graph through Unisono, from what the user wrote to something that runs.

#include <fmt/format.h>

#include <utility>

#include "ir/batch_view.hpp"
#include "ir/check_graph.hpp"
#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "passes/optimised.hpp"
#include "passes/partition.hpp"
#include "passes/split_stores.hpp"
#include "plan/spare_sms.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/backend.hpp"
#include "runtime/cpu/resampled_stores.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/contraction.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono {

namespace {

Executable compile_cpu(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // passes: normalisations become reductions, operations are fused, what nothing needs is dropped; then stages, so that
  // a reduction over rows is complete before it is used
  const Graph whole = passes::split_stores(graph).graph, optimised = passes::optimised(whole, options);
  const passes::Partition stages = passes::partition(optimised);
  // runtime: tiles, programs, the contraction's primitives; other forms of stores behind them
  auto made = cpu::build(contraction, whole, optimised, stages, options);
  return Executable(cpu::with_resampled_stores(std::move(made), contraction, graph, options));
}

Executable compile_cuda(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // lower: the passes, which plan, and the text of its kernel
  lower::Problem problem = lower::analyse(contraction, graph, options).value();
  const plan::Device device =
      plan::with_spare_sms(cuda::open_device(options.device_index), options.spare_sms, "CompileOptions::spare_sms");
  lower::Lowered lowered = lower::lower(std::move(problem), device).value();
  // jit: a cubin, from the cache or compiled
  static jit::Jit compiler;
  jit::Binary binary = compiler.compile(lowered.request());
  // runtime: loaded, ready to be bound
  return Executable(cuda::build(std::move(lowered), std::move(binary)));
}

}  // namespace

Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& given) {
  // ir: the description and the graph are legal
  CompileOptions options = given;
  if (options.constant_filter) options.constant_filter = ir::in_batch(*given.constant_filter, shape_b(contraction));
  if (options.constant_right1) options.constant_right1 = ir::in_batch(*given.constant_right1, shape_b(contraction));
  if (options.constant_right1 && (product_count(contraction) == 1 || !options.constant_filter))
    throw UserError(
        fmt::format("CompileOptions::constant_right1 was given for {}{}; it goes with constant_filter, "
                    "for two filters, or right operands (products = 2)",
                    to_string(contraction), options.constant_filter ? "" : " without constant_filter"));
  if (options.constant_filter && product_count(contraction) == 2 && !options.constant_right1)
    throw UserError(
        "CompileOptions::constant_filter was given for one of two filters, or right operands, without constant_right1; "
        "give both, or "
        "neither");
  ir::check_graph(graph, contraction);
  runtime::check_storage(options, runtime::operand_names(graph));

  switch (options.device) {
    case Device::cpu: return compile_cpu(contraction, graph, options);
    case Device::cuda: return compile_cuda(contraction, graph, options);
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

}  // namespace unisono
