#include "families/sm90_conv/conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "families/sm90/flipped.hpp"
#include "families/sm90_conv/cost.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/space.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90_conv {
namespace {

/// A transposed convolution as one that TMA loads; nothing: it is none, or ordinary loads alone serve it.
std::optional<plan::ConvTask> loaded_by_tma(const Contraction& contraction) {
  auto task = sm90::by_phases(contraction);
  if (!task) task = sm90::by_flipped_taps(contraction);
  return task ? std::move(task) : sm90::by_flipped_groups(contraction);
}

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

/// Another form than the first has all that is wanted beside it, in a mode that is not ruled out.
bool is_wanted(const plan::Epilogue& form, const plan::Epilogue& first, const sm90::FixedFields& fixed) {
  const auto general = sm90::NormMode::general;
  return form.resampled == first.resampled && first.moments.channels == 0 &&
         (!form.general() || fixed.mode.value_or(general) == general);
}

/// General: elements wait for what other tiles add to.
bool waits(const plan::Epilogue& e) { return e.general() && (e.returns() || e.rows_wait()); }

/// Places of the forms, in the order in which they are tried: over rows, those with a value that waits, the first,
/// others.
std::vector<std::size_t> order_of(const Workload& w, const sm90::FixedFields& fixed) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < w.forms.size(); ++i)
    if (i == 0 || is_wanted(w.forms[i], w.epilogue, fixed)) order.push_back(i);
  const auto over_rows = [&](std::size_t i) { return i > 0 && w.forms[i].normalises_rows(); };
  const auto first = std::stable_partition(order.begin(), order.end(), over_rows);
  std::stable_partition(first, order.end(), [&](std::size_t i) { return w.forms[i].exchanging() != nullptr; });
  return order;
}

}  // namespace

std::vector<ConvCandidate> conv_candidates(const Workload& w, const PlanOverride& fixed) {
  const sm90::FixedFields fields = sm90::resolve(fixed);
  std::vector<ConvCandidate> all;
  if (fields.load == sm90::Load::depthwise || fields.thread) return all;
  bool spills = false;
  const auto add = [&](const plan::ConvTask& task, std::size_t form) {
    auto problem = sm90::make_problem(task, w.forms[form]);
    if (!problem) return;
    problem->spills = spills;
    if (form == 0) problem->not_streamed = w.not_streamed;
    for (const ConvConfig& config : configurations(*problem, w.device, fields)) {
      all.push_back(examine(config, *problem, w.device, fields));
      all.back().plan.form = form;
    }
  };
  const auto legal = [](const ConvCandidate& c) { return !c.refusal; };
  const auto loaded = loaded_by_tma(w.task.contraction());
  // The first whose loads serve the form
  const auto add_form = [&](std::size_t form) {
    const auto before = static_cast<std::ptrdiff_t>(all.size());
    if (loaded && fields.load != sm90::Load::gather) add(*loaded, form);
    if (std::none_of(all.begin() + before, all.end(), legal)) add(w.task, form);
  };
  const std::vector<std::size_t> order = order_of(w, fields);
  bool alternative = true;  // all that is legal so far is of forms that the first is compared with
  for (const std::size_t form : order)
    if (std::ranges::none_of(all, legal) || (form == 0 && alternative))
      add_form(form), alternative = w.forms[form].exchanging() != nullptr;
  spills = std::ranges::none_of(all, legal);
  for (const std::size_t form : order)
    if (spills && waits(w.forms[form]) && std::ranges::none_of(all, legal)) add_form(form);
  // Ordinary loads are for groups of which no tile may have several; their clocks are not measured
  const auto grouped = [](const ConvCandidate& c) { return !c.refusal && c.plan.config.operands.grouped(); };
  if (!fields.load && std::ranges::any_of(all, grouped))
    std::erase_if(all, [](const ConvCandidate& c) { return c.plan.config.gathered() != nullptr; });
  const auto legal_end = std::stable_partition(all.begin(), all.end(), legal);
  std::ranges::stable_sort(all.begin(), legal_end, {}, [](const ConvCandidate& c) { return c.plan.predicted_us; });
  return all;
}

plan::ConvTask as_planned(const plan::ConvTask& task, const ConvConfig& config) {
  if (!task.transposed || config.gathered()) return task;
  if (auto loaded = loaded_by_tma(*task.transposed)) return *std::move(loaded);
  throw InternalError(fmt::format("a plan for TMA's loads of {}", to_string(task.contraction())));
}

}  // namespace unisono::families::sm90_conv
