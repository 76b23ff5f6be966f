#include "explore/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "families/mma/plan.hpp"
#include "families/override.hpp"
#include "families/registry.hpp"
#include "families/sm90_conv/plan.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "jit/key.hpp"
#include "jit/places.hpp"
#include "unisono/text.hpp"

namespace unisono::explore {
namespace {

using nlohmann::json;

constexpr std::size_t most_alternatives = 12;

json part(const char* name, std::size_t pieces, std::size_t bytes_of_piece) {
  return {{"name", name}, {"pieces", pieces}, {"bytes", pieces * bytes_of_piece}};
}

json with_rest(json parts, std::size_t total) {
  std::size_t known = 0;
  for (const json& p : parts) known += p["bytes"].get<std::size_t>();
  if (total > known) parts.push_back(part("operands, statistics, stores, barriers", 1, total - known));
  return parts;
}

json shared_memory_of(const families::sm90_conv::ConvPlan& plan) {
  const families::sm90_conv::ConvConfig& c = plan.config;
  const auto stages = static_cast<std::size_t>(c.schedule.stages);
  const auto own = static_cast<std::size_t>(c.activation_stages());
  const std::size_t activations = families::sm90_conv::activation_stage_bytes(c);
  const std::size_t filters = families::sm90_conv::filter_stage_bytes(c);
  return with_rest({part("activation stages", own > 0 ? own : stages, activations),
                    part(c.schedule.stationary ? "filters, which stay" : "filter stages", stages, filters)},
                   plan.shared_bytes);
}

json shared_memory_of(const families::mma::MmaPlan& plan) {
  const families::mma::Tiling& t = plan.config.tiling;
  const auto stages = static_cast<std::size_t>(t.stages), k = static_cast<std::size_t>(t.k);
  const std::size_t bytes = plan.config.element_bytes() * k;
  return with_rest({part("activation stages", stages, static_cast<std::size_t>(t.m) * bytes),
                    part("filter stages", stages, static_cast<std::size_t>(t.n) * bytes)},
                   plan.shared_bytes);
}

json alternatives_of(const std::vector<families::Candidate>& all, const std::string& taken) {
  json others = json::array();
  for (const families::Candidate& c : all) {
    if (!c.is_legal() || others.size() == most_alternatives) break;
    const std::string text = families::describe(*c.plan);
    if (text != taken) others.push_back({{"us", c.plan->predicted_us}, {"plan", text}});
  }
  return others;
}

/// The candidate that `how` begins with, else the one that planning takes.
families::PlanPointer taken_of(const std::vector<families::Candidate>& all, const families::PlanPointer& chosen,
                               const std::string& how) {
  if (how.empty() || how.starts_with(families::describe(*chosen))) return chosen;
  for (const families::Candidate& c : all)
    if (c.is_legal() && how.starts_with(families::describe(*c.plan))) return c.plan;
  return chosen;
}

}  // namespace

std::size_t Texts::of(const std::string& text) {
  const auto [at, is_new] = known_.emplace(text, all_.size());
  if (is_new) all_.push_back(text);
  return at->second;
}

json shared_memory(const families::Plan& plan) {
  if (const auto* conv = dynamic_cast<const families::sm90_conv::ConvPlan*>(&plan)) return shared_memory_of(*conv);
  if (const auto* mma = dynamic_cast<const families::mma::MmaPlan*>(&plan)) return shared_memory_of(*mma);
  return plan.shared_bytes == 0 ? json::array() : with_rest(json::array(), plan.shared_bytes);
}

json describe_kernel(const lower::Problem& problem, const plan::Device& device, const std::string& how) {
  const families::Workload workload(problem.task, problem.forms, device);
  const PlanOverride fixed = families::fixed_by(problem.options.plan, problem.options.plan_override);
  const tuning::Chosen chosen = lower::choose(problem, device).value();
  const std::vector<families::Candidate> all = families::candidates(workload, fixed).value();
  const families::PlanPointer plan = taken_of(all, chosen.plan, how);
  const std::string text = families::describe(*plan);
  const auto legal = static_cast<std::size_t>(std::ranges::count_if(all, &families::Candidate::is_legal));
  return {{"contraction", to_string(problem.contraction)},
          {"plan", text},
          {"family", plan->family->name()},
          {"override", to_string(families::override_of(*plan))},
          {"origin", tuning::to_string(chosen)},
          {"reasons", plan->family->reasons(*plan, workload)},
          {"predicted_us", plan->predicted_us},
          {"ctas", plan->ctas},
          {"threads", plan->threads},
          {"cluster", plan->cluster},
          {"workspace_bytes", plan->workspace_bytes},
          {"shared_bytes", plan->shared_bytes},
          {"shared", shared_memory(*plan)},
          {"legal", legal},
          {"alternatives", alternatives_of(all, text)},
          {"refused", all.size() - legal},
          {"refusals", families::refusals_by_reason(all)}};
}

Compiled::Compiled()
    : layers_([] {
        const jit::KernelFolders folders = jit::kernel_folders_of({});
        std::vector<std::filesystem::path> packs;
        for (const jit::KernelFolder& pack : folders.packs)
          if (pack.refused.empty()) packs.push_back(pack.folder);
        return jit::Layers(packs, folders.cache.refused.empty() ? folders.cache.folder : "", [](const std::string&) {});
      }()) {}

json Compiled::find(const jit::Request& request) {
  const std::string program = jit::program_key(request);
  std::optional<jit::Loaded> entry = layers_.find_packed(program);
  if (!entry) entry = layers_.find_program(program);
  if (!entry) return nullptr;
  const auto kernel = entry->info.kernels.find(request.entry);
  if (kernel == entry->info.kernels.end()) return nullptr;
  const jit::Resources& r = kernel->second;
  return {{"registers", r.registers},           {"spill_bytes", r.spill_store_bytes + r.spill_load_bytes},
          {"stack_bytes", r.stack_bytes},       {"static_shared_bytes", r.static_shared_bytes},
          {"injected_waits", r.injected_waits}, {"binary_bytes", entry->cubin.size()},
          {"compiler", entry->info.compiler}};
}

}  // namespace unisono::explore
