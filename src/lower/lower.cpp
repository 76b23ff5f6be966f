#include "lower/lower.hpp"

#include <fmt/format.h>

#include <utility>

#include "families/interface/family.hpp"
#include "families/interface/typed_override.hpp"
#include "families/registry.hpp"
#include "ir/check_graph.hpp"
#include "ir/store_forms.hpp"
#include "lower/request.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/as_convolution.hpp"
#include "plan/moment_store.hpp"
#include "plan/resampling.hpp"
#include "unisono/error.hpp"

namespace unisono::lower {

namespace {

tuning::Chosen choose(const Problem& p, const plan::Device& device) {
  const auto fixed = plan::fixed_by(p.options.plan, p.options.plan_override);
  if (std::holds_alternative<Conv2d>(p.contraction))
    return tuning::choose(p.task, p.epilogue, device, fixed, p.options.tuned);
  try {
    return tuning::choose(p.task, p.epilogue, device, fixed, p.options.tuned);
  } catch (const Unsupported& error) {
    throw plan::Refused(plan::refusal_of(error), fmt::format("{} runs as the convolution of its rows, and {}",
                                                             to_string(p.contraction), error.what()));
  }
}

codegen::Kernel generate(const Problem& p, const families::Plan& plan) {
  return plan.family->generate(plan, p.epilogue,
                               {.accurate = p.options.accurate,
                                .watchdog = p.options.watchdog,
                                .delays = p.delays,
                                .storage = p.options.storage,
                                .scalar_pointers = p.options.device_scalars,
                                .apart = p.apart});
}

plan::WantedHead wanted_head(const ir::SplitStores& stores) {
  if (!stores.head) return {};
  return {.head = *stores.head, .only = stores.only_head, .source = stores.head_source};
}

}  // namespace

Graph optimised(const Graph& graph, const CompileOptions& options) {
  if (!options.on_pass) return passes::run_pipeline(graph);
  return passes::run_pipeline(graph, [&options](const passes::Pass& pass, const Graph& before, const Graph& after) {
    options.on_pass(std::string(pass.name), before, after);
  });
}

Problem analyse(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                const Further& further) {
  const Extents e = extents(contraction);
  ir::check_graph(graph, contraction);
  const ir::SplitStores stores = ir::split_stores(graph);
  // plan: what is computed before, in and after a normalisation, and what is made of the main store
  plan::Epilogue epilogue = plan::analyse(optimised(stores.graph, options), e, families::tile_limits());
  plan::resample(epilogue, {stores.pooled, stores.upsampled, stores.only_upsampled, stores.source}, contraction);
  epilogue.storage = options.storage;
  const plan::WantedHead head = wanted_head(stores);
  plan::add_head(epilogue, head, contraction);
  if (further.moments.channels > 0) plan::store_moments(epilogue, further.moments, e.cols);
  return {contraction,         graph, options,       plan::as_convolution(contraction),
          std::move(epilogue), head,  further.apart, further.delays};
}

Lowered lower(Problem problem, const plan::Device& device) {
  tuning::Chosen chosen = choose(problem, device);
  return lower(std::move(problem), std::move(chosen), device);
}

Attempt attempt(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                const Further& further, const plan::Device& device) {
  try {
    return {lower(analyse(contraction, graph, options, further), device), std::nullopt};
  } catch (const Unsupported& error) {
    return {std::nullopt, plan::refusal_of(error)};
  }
}

Lowered lower(Problem problem, tuning::Chosen chosen, const plan::Device& device) {
  codegen::Kernel kernel = generate(problem, *chosen.plan);
  // refused here, not by the runtime: before the kernel is compiled or packed
  chosen.plan->family->parameter_bytes(*chosen.plan, kernel);
  return {std::move(problem), std::move(chosen), std::move(kernel), device.arch()};
}

Lowered lower(Problem problem, families::PlanPointer plan, const plan::Device& device) {
  return lower(std::move(problem), tuning::Chosen{std::move(plan), tuning::Origin::fixed}, device);
}

Lowered lower(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
              const plan::Device& device) {
  return lower(analyse(contraction, graph, options), device);
}

jit::Request Lowered::request() const { return lower::request(kernel, plan(), problem.contraction, arch); }

}  // namespace unisono::lower
