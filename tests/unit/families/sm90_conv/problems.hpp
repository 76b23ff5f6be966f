#pragma once
/// What the registry answers, as tests of this family look at it.

#include <string>
#include <vector>

#include "families/registry.hpp"
#include "families/sm90/fetchable.hpp"
#include "families/sm90/phases.hpp"
#include "families/sm90/problem.hpp"
#include "families/sm90_conv/conv.hpp"
#include "plan/as_convolution.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::families::sm90_conv {

using plan::analyse, plan::as_convolution, plan::ConvTask, plan::Device, plan::Epilogue;
using sm90::by_phases, sm90::ConvProblem, sm90::fetchable_operands, sm90::make_problem, sm90::NormMode, sm90::Order,
    sm90::Stores;
namespace test = plan::test;

struct Answer {
  ConvPlan plan;
  std::string refusal;   ///< empty: legal
  bool is_conv = false;  ///< else `plan` is another family's, or none
};

/// As these kernels' tests ask: past the families behind them, which serve most of what they refuse.
inline PlanOverride by_hopper(PlanOverride fixed) {
  fixed.fields.emplace("family", "sm90_conv");
  return fixed;
}
inline bool is_behind(const families::PlanPointer& plan) {
  return plan && (plan->family->name() == "plain" || plan->family->name() == "mma");
}

inline families::PlanPointer chosen(const families::Workload& workload, const PlanOverride& fixed) {
  const families::PlanPointer plan = families::choose(workload, fixed).value();
  return is_behind(plan) ? families::choose(workload, by_hopper(fixed)).value() : plan;
}

inline std::vector<Answer> candidates(const ConvTask& task, const auto& epilogue, const Device& device,
                                      const PlanOverride& fixed = {}) {
  std::vector<families::Candidate> all = families::candidates({task, epilogue, device}, fixed).value();
  if (!all.empty() && is_behind(all.front().plan))
    all = families::candidates({task, epilogue, device}, by_hopper(fixed)).value();
  std::vector<Answer> list;
  for (const families::Candidate& c : all) {
    const auto* conv = dynamic_cast<const ConvPlan*>(c.plan.get());
    list.push_back({conv ? *conv : ConvPlan{}, c.refusal ? c.refusal->text() : "", conv != nullptr});
  }
  return list;
}

inline ConvPlan choose(const ConvTask& task, const auto& epilogue, const Device& device,
                       const PlanOverride& fixed = {}) {
  return dynamic_cast<const ConvPlan&>(*chosen({task, epilogue, device}, fixed));
}

inline std::string explain(const ConvTask& task, const auto& epilogue, const Device& device,
                           const PlanOverride& fixed = {}, std::size_t alternatives = 5) {
  return families::explain({task, epilogue, device}, fixed, alternatives);
}

/// "128x160 pingpong halo resident": what matters of a plan, without the depths of its rings.
inline std::string sketch(const ConvConfig& c) {
  std::string text = std::to_string(c.tile.m) + "x" + std::to_string(c.tile.n);
  text += " " + std::string(to_string(c.schedule.order));
  text += c.window() ? " im2col_smem" : c.two_dimensional() ? " halo" : " im2col";
  if (c.schedule.cluster.ctas() > 1)
    text += " " + std::to_string(c.schedule.cluster.m) + "x" + std::to_string(c.schedule.cluster.n);
  if (c.schedule.split) text += " split";
  if (c.schedule.swap) text += " swap";
  if (c.mode() == NormMode::resident) text += " resident";
  if (c.mode() == NormMode::streamed) text += " streamed";
  if (c.mode() == NormMode::rows) text += " rows";
  if (c.mode() == NormMode::general) text += " general";
  return text;
}

}  // namespace unisono::families::sm90_conv
