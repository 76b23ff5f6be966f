#include "lower/lower.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "families/interface/family.hpp"
#include "families/interface/plan.hpp"
#include "families/override.hpp"
#include "families/registry.hpp"
#include "ir/check_graph.hpp"
#include "lower/request.hpp"
#include "passes/epilogue_graphs.hpp"
#include "passes/optimised.hpp"
#include "passes/split_stores.hpp"
#include "plan/analyse.hpp"
#include "plan/as_convolution.hpp"
#include "plan/moment_store.hpp"
#include "plan/resampling.hpp"

namespace unisono::lower {

namespace {

codegen::Options options_of(const Problem& p) {
  return {.accurate = p.options.accurate,
          .watchdog = p.options.watchdog,
          .delays = p.delays,
          .storage = p.options.storage,
          .scalar_pointers = p.options.device_scalars,
          .apart = p.apart,
          .filters_ahead = p.filters_ahead};
}

}  // namespace

plan::Expected<Problem> analyse(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                                const Further& further) {
  const Extents e = extents(contraction);
  ir::check_graph(graph, contraction);
  const passes::SplitStores stores = passes::split_stores(graph);
  const passes::EpilogueGraphs graphs(passes::optimised(stores.graph, options));
  // plan: what is computed before, in and after a normalisation, and what is made of the main store
  auto analysed = plan::analyse_forms(graphs, e, families::tile_limits());
  if (!analysed) return std::move(analysed).refusal();
  plan::Forms forms = *std::move(analysed);
  const plan::Resampled resampled{stores.pooled, stores.upsampled, stores.only_upsampled, stores.source};
  for (plan::Epilogue& form : forms.list) form.storage = options.storage;
  if (auto refusal = plan::resample(forms, resampled, contraction)) return *std::move(refusal);
  if (auto refusal = plan::store_moments(forms.list[0], further.moments, e.cols)) return *std::move(refusal);
  return Problem{contraction,      graph,         options,        plan::as_convolution(contraction),
                 std::move(forms), further.apart, further.delays, further.filters_ahead};
}

plan::Expected<tuning::Chosen> choose(const Problem& p, const plan::Device& device) {
  const auto fixed = families::fixed_by(p.options.plan, p.options.plan_override);
  auto chosen = tuning::choose({p.task, p.forms, device}, fixed, p.options.tuned);
  if (chosen || std::holds_alternative<Conv2d>(p.contraction) || p.task.volume || p.task.gradient) return chosen;
  plan::Refusal refusal = std::move(chosen).refusal();  // the caller has not asked for it
  refusal.message =
      fmt::format("{} runs as the convolution of its rows, and {}", to_string(p.contraction), refusal.told());
  return refusal;
}

plan::Expected<Lowered> lower(Problem problem, const plan::Device& device) {
  auto chosen = choose(problem, device);
  if (!chosen) return std::move(chosen).refusal();
  return lower(std::move(problem), *std::move(chosen), device);
}

plan::Expected<Lowered> lower(Problem problem, tuning::Chosen chosen, const plan::Device& device) {
  const codegen::Options options = options_of(problem);
  const plan::Epilogue& form = problem.forms.list[chosen.plan->form];
  if (auto refusal = codegen::refuse_operands(form, options)) return *std::move(refusal);
  codegen::Kernel kernel = chosen.plan->family->generate(*chosen.plan, form, options);
  // refused here, not by the runtime: before the kernel is compiled or packed
  if (auto bytes = chosen.plan->family->parameter_bytes(*chosen.plan, kernel); !bytes) return bytes.refusal();
  return Lowered{std::move(problem), std::move(chosen), std::move(kernel), device.arch()};
}

plan::Expected<Lowered> lower(Problem problem, families::PlanPointer plan, const plan::Device& device) {
  return lower(std::move(problem), tuning::Chosen{std::move(plan), tuning::Origin::fixed}, device);
}

plan::Expected<Lowered> lower(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                              const plan::Device& device, const Further& further) {
  auto problem = analyse(contraction, graph, options, further);
  if (!problem) return std::move(problem).refusal();
  return lower(*std::move(problem), device);
}

jit::Request Lowered::request() const { return lower::request(kernel, plan(), problem.contraction, arch); }

}  // namespace unisono::lower
