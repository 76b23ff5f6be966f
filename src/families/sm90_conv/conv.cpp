#include "families/sm90_conv/conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "families/sm90_conv/cost.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/space.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90_conv {
namespace {

ConvCandidate examine(const ConvConfig& config, const sm90::ConvProblem& problem, const plan::Device& device,
                      const sm90::FixedFields& fixed) {
  ConvCandidate c;
  c.plan.config = config;
  c.refusal = refuse_config(config, problem, device);
  if (!c.refusal) c.refusal = refuse_fields(config, fixed);
  if (c.refusal) return c;
  auto plan = lay_out(config, problem, device);
  if (!plan) return c.refusal = std::move(plan).refusal(), c;
  c.plan = *std::move(plan);
  c.refusal = refuse_launch(c.plan, problem, device);
  if (!c.refusal) c.plan.predicted_us = predict_us(c.plan, problem, device);
  return c;
}

/// Another form of the epilogue has all that is wanted beside it, in a mode that is not ruled out.
bool is_wanted(const plan::Epilogue& form, const plan::Epilogue& epilogue, const sm90::FixedFields& fixed) {
  const auto general = sm90::NormMode::general;
  return form.resampled == epilogue.resampled && epilogue.moments.channels == 0 &&
         (!form.general || fixed.mode.value_or(general) == general);
}

/// Elements wait for what other tiles add to.
bool waits(const plan::Epilogue& e) { return e.general && (e.general->returns() || e.general->row_waits); }

}  // namespace

std::vector<ConvCandidate> conv_candidates(const plan::ConvTask& task, const plan::Epilogue& epilogue,
                                           const plan::Device& device, const PlanOverride& fixed) {
  const sm90::FixedFields fields = sm90::resolve(fixed);
  std::vector<ConvCandidate> all;
  if (fields.load == sm90::Load::depthwise || fields.thread) return all;
  bool spills = false;
  const auto add = [&](const plan::ConvTask& form, const plan::Epilogue& wanted) {
    auto problem = sm90::make_problem(form, wanted, device);
    if (!problem) return;
    problem->spills = spills;
    for (const ConvConfig& config : configurations(*problem, device, fields)) {
      all.push_back(examine(config, *problem, device, fields));
      all.back().plan.streamed_form = &wanted == epilogue.streamed.get();
      all.back().plan.rows_form = &wanted == epilogue.rows.get();
    }
  };
  const auto legal = [](const ConvCandidate& c) { return !c.refusal; };
  const auto phases = sm90::by_phases(task.contraction());
  const auto add_forms = [&](const plan::Epilogue& wanted) {
    if (phases && fields.load != sm90::Load::gather) add(*phases, wanted);
    if (std::ranges::none_of(all, legal)) add(task, wanted);
  };
  const auto add_other = [&](const std::shared_ptr<const plan::Epilogue>& form) {
    if (form && is_wanted(*form, epilogue, fields) && std::ranges::none_of(all, legal)) add_forms(*form);
  };
  add_other(epilogue.rows);
  if (std::ranges::none_of(all, legal)) add_forms(epilogue);
  add_other(epilogue.streamed);
  spills = std::ranges::none_of(all, legal);
  if (spills && waits(epilogue)) add_forms(epilogue);
  if (spills && epilogue.streamed && waits(*epilogue.streamed)) add_other(epilogue.streamed);
  // Ordinary loads are for groups of which no tile may have several; their clocks are not measured
  const auto grouped = [](const ConvCandidate& c) { return !c.refusal && c.plan.config.operands.grouped(); };
  if (!fields.load && std::ranges::any_of(all, grouped))
    std::erase_if(all, [](const ConvCandidate& c) { return c.plan.config.gathered() != nullptr; });
  const auto legal_end = std::stable_partition(all.begin(), all.end(), legal);
  std::ranges::stable_sort(all.begin(), legal_end, {}, [](const ConvCandidate& c) { return c.plan.predicted_us; });
  return all;
}

plan::ConvTask as_planned(const Contraction& contraction, const ConvConfig& config) {
  if (!config.by_parity()) return plan::as_convolution(contraction);
  if (auto task = sm90::by_phases(contraction)) return *std::move(task);
  throw InternalError(fmt::format("a plan by parity phases of {}", to_string(contraction)));
}

}  // namespace unisono::families::sm90_conv
