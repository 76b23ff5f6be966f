#include "plan/conv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/conv_cost.hpp"
#include "plan/conv_geometry.hpp"
#include "plan/conv_report.hpp"
#include "plan/conv_space.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

Candidate examine(const ConvConfig& config, const ConvProblem& problem, const Device& device) {
  Candidate c;
  c.plan.config = config;
  c.refusal = refuse_config(config, problem, device);
  if (!c.refusal.empty()) return c;
  try {
    c.plan = lay_out(config, problem, device);
    c.refusal = refuse_launch(c.plan, problem, device);
  } catch (const Unsupported& error) {  // a number that does not fit
    c.refusal = fmt::format("size: {}", error.what());
  }
  if (c.refusal.empty()) c.plan.predicted_us = predict_us(c.plan, problem, device);
  return c;
}

}  // namespace

std::vector<Candidate> candidates(const ConvTask& task, const Epilogue& epilogue, const Device& device,
                                  const Override& fixed) {
  const FixedFields fields = resolve(fixed);
  std::vector<Candidate> all;
  const auto add_depthwise = [&](const ConvProblem& problem) {
    const std::string reason = why_not_depthwise(problem);
    if (reason == "-") return;
    for (const ConvConfig& config : depthwise_configurations(problem, device, fields))
      all.push_back({lay_out_depthwise(config, problem, device), ""});
    if (reason.empty() || (fields.load && *fields.load != Load::depthwise)) return;
    all.push_back({{}, "depthwise: " + reason});
    all.back().plan.config.depthwise = DepthwiseStrip{};
  };
  const auto add = [&](const ConvTask& form) {
    const ConvProblem problem = make_problem(form, epilogue, device);
    for (const ConvConfig& config : configurations(problem, device, fields))
      all.push_back(examine(config, problem, device));
  };
  const auto legal = [](const Candidate& c) { return c.refusal.empty(); };
  if (task.conv.groups > 1) add_depthwise(make_problem(task, epilogue, device));
  const auto phases = by_phases(task.contraction());
  if (phases && fields.load != Load::gather) add(*phases);
  if (std::ranges::none_of(all, legal) && fields.load != Load::depthwise && !fields.thread) add(task);
  const auto legal_end = std::stable_partition(all.begin(), all.end(), legal);
  std::ranges::stable_sort(all.begin(), legal_end, {}, [](const Candidate& c) { return c.plan.predicted_us; });
  return all;
}

ConvTask as_planned(const Contraction& contraction, const ConvConfig& config) {
  if (!config.phases) return as_convolution(contraction);
  if (auto lowered = by_phases(contraction)) return *std::move(lowered);
  throw InternalError(fmt::format("a plan by phases of {}", to_string(contraction)));
}

ConvPlan choose(const ConvTask& task, const Epilogue& epilogue, const Device& device, const Override& fixed) {
  const std::vector<Candidate> all = candidates(task, epilogue, device, fixed);
  if (all.empty() || !all.front().refusal.empty()) throw Unsupported(no_candidate(task, all, fixed));
  return all.front().plan;
}

}  // namespace unisono::plan
