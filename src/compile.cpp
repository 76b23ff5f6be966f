/// The whole way of a graph through Unisono, from what the user wrote to something that runs.

#include "compile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "passes/partition.hpp"
#include "passes/passes.hpp"
#include "plan/as_convolution.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cpu/backend.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/contraction.hpp"
#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono {

namespace {

passes::Observer observer_of(const CompileOptions& options) {
  if (!options.on_pass) return {};
  return [&options](const passes::Pass& pass, const Graph& before, const Graph& after) {
    options.on_pass(std::string(pass.name), before, after);
  };
}

tuning::Chosen choose_plan(const Contraction& contraction, const plan::Epilogue& epilogue, const plan::Device& device,
                           const CompileOptions& options) {
  const auto fixed = plan::Override::parse(options.plan);
  const plan::Lowered task = plan::as_convolution(contraction);
  if (std::holds_alternative<Conv2d>(contraction)) return tuning::choose(task, epilogue, device, fixed, options.tuned);
  try {
    return tuning::choose(task, epilogue, device, fixed, options.tuned);
  } catch (const Unsupported& error) {
    throw Unsupported(
        fmt::format("{} runs as the convolution of its rows, and {}", to_string(contraction), error.what()));
  }
}

Executable compile_cpu(const Contraction& contraction, const Graph& graph, const Graph& optimised,
                       const CompileOptions& options) {
  if (options.resampled.any())
    throw UserError("CompileOptions::resampled: the CPU device makes nothing beside the stores; give Device::cuda");
  if (options.head.any())
    throw UserError("CompileOptions::head: the CPU device computes nothing beside the stores; give Device::cuda");
  // passes: stages, so that a reduction over rows is complete before it is used
  const passes::Partition stages = passes::partition(optimised);
  // runtime: tiles, programs, the contraction's primitives
  return Executable(cpu::build(contraction, graph, optimised, stages, options));
}

Executable compile_cuda(const Contraction& contraction, const Graph& graph, const Graph& optimised,
                        const CompileOptions& options) {
  const plan::Device device = cuda::open_device(options.device_index);
  // plan, codegen: which kernel, and its text
  ConvKernel k = conv_kernel(contraction, optimised, device, options);
  // jit: a cubin, from the cache or compiled
  static jit::Jit compiler;
  jit::Binary binary = compiler.compile(request(k.kernel, k.plan, contraction));
  // runtime: loaded, ready to be bound
  return Executable(cuda::build(
      {contraction, graph, std::move(k.epilogue), k.plan, std::move(k.kernel), std::move(binary), options}));
}

}  // namespace

codegen::Kernel generate(const plan::Epilogue& epilogue, const plan::ConvPlan& plan, const CompileOptions& options) {
  return codegen::generate(epilogue, plan.config,
                           {.accurate = options.accurate,
                            .watchdog = options.watchdog,
                            .delays = options.delays,
                            .storage = options.storage,
                            .scalar_pointers = options.device_scalars});
}

ConvKernel conv_kernel(const Contraction& contraction, const Graph& optimised, const plan::Device& device,
                       const CompileOptions& options) {
  // plan: what is computed before, in and after a normalisation; which tile, cluster, order and way of normalising
  plan::Epilogue epilogue = plan::analyse(optimised, extents(contraction));
  plan::resample(epilogue, options.resampled, contraction);
  epilogue.storage = options.storage;
  plan::add_head(epilogue, options.head, contraction);
  tuning::Chosen chosen = choose_plan(contraction, epilogue, device, options);
  // codegen: the visitor and the kernel as CUDA C++
  codegen::Kernel kernel = generate(epilogue, chosen.plan, options);
  return {std::move(epilogue), chosen.plan, std::move(kernel), std::move(chosen)};
}

jit::Request request(const codegen::Kernel& kernel, const plan::ConvPlan& plan, const Contraction& contraction) {
  static const std::vector<jit::Header> headers = [] {
    std::vector<jit::Header> all;
    for (const codegen::Header& h : codegen::device_headers()) all.push_back({h.name, h.text});
    return all;
  }();
  return {.source = kernel.source,
          .headers = headers,
          .entry = kernel.entry,
          .title = fmt::format("{}, {}", to_string(contraction), plan::to_string(plan.config))};
}

Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options) {
  // ir: the description and the graph are legal
  extents(contraction);
  verify(graph);
  std::vector<std::string> operands = runtime::operand_names(graph);
  std::ranges::copy(runtime::operand_names(options.head.graph), std::back_inserter(operands));
  runtime::check_storage(options, operands);

  // passes: normalisations become reductions, operations are fused, what nothing needs is dropped
  const Graph optimised = passes::run_pipeline(graph, observer_of(options));

  switch (options.device) {
    case Device::cpu: return compile_cpu(contraction, graph, optimised, options);
    case Device::cuda: return compile_cuda(contraction, graph, optimised, options);
  }
  throw UserError(fmt::format("device {} is unknown; expected cpu or cuda", static_cast<int>(options.device)));
}

}  // namespace unisono
