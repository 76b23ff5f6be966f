/// The whole way of a graph through Unisono, from what the user wrote to something that runs.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/batch_view.hpp"
#include "ir/extent_arithmetic.hpp"
#include "ir/resampled_stores.hpp"
#include "jit/jit.hpp"
#include "lower/lower.hpp"
#include "passes/partition.hpp"
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
  if (options.head.any())
    throw UserError("CompileOptions::head: the CPU device computes nothing beside the stores; give Device::cuda");
  // passes: normalisations become reductions, operations are fused, what nothing needs is dropped; then stages, so that
  // a reduction over rows is complete before it is used
  const ir::SplitStores stores = ir::split_stores(graph);
  const Graph optimised = lower::optimised(stores.graph, options);
  const passes::Partition stages = passes::partition(optimised);
  // runtime: tiles, programs, the contraction's primitives; pooled and enlarged stores behind them
  auto whole = cpu::build(contraction, stores.graph, optimised, stages, options);
  return Executable(cpu::with_resampled_stores(std::move(whole), contraction, graph));
}

Executable compile_cuda(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // lower: the passes, which plan, and the text of its kernel
  lower::Problem problem = lower::analyse(contraction, graph, options);
  const plan::Device device =
      plan::with_spare_sms(cuda::open_device(options.device_index), options.spare_sms, "CompileOptions::spare_sms");
  lower::Lowered lowered = lower::lower(std::move(problem), device);
  // jit: a cubin, from the cache or compiled
  static jit::Jit compiler;
  jit::Binary binary = compiler.compile(lowered.request());
  // runtime: loaded, ready to be bound
  return Executable(cuda::build(std::move(lowered), std::move(binary)));
}

}  // namespace

Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& given) {
  // ir: the description and the graph are legal
  const Extents space = extents(contraction);
  CompileOptions options = given;
  if (options.constant_filter) options.constant_filter = ir::in_batch(*given.constant_filter, shape_b(contraction));
  verify(graph);
  ir::check_forms(graph, contraction);
  ir::check_extent_arithmetic(graph, space);
  std::vector<std::string> operands = runtime::operand_names(graph);
  std::ranges::copy(runtime::operand_names(options.head.graph), std::back_inserter(operands));
  runtime::check_storage(options, operands);

  switch (options.device) {
    case Device::cpu: return compile_cpu(contraction, graph, options);
    case Device::cuda: return compile_cuda(contraction, graph, options);
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

}  // namespace unisono
