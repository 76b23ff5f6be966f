#include "tuner/problem.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "families/registry.hpp"
#include "tuning/choose.hpp"

namespace unisono::tuner {
namespace {

/// Plans that are predicted to be slower than the best by more than this are not worth a compilation.
constexpr double hopeless = 1.6;

using Plans = std::vector<families::PlanPointer>;

bool has(const Plans& list, const families::Plan& plan) {
  return std::ranges::any_of(list, [&](const families::PlanPointer& p) {
    return p->family == plan.family && families::override_of(*p) == families::override_of(plan);
  });
}

Plans plans_of(const Problem& p, const plan::Device& device, std::size_t count) {
  Plans legal;
  for (const families::Candidate& c : families::candidates({p.task, p.forms, device}).value())
    if (c.is_legal()) legal.push_back(c.plan);
  Plans list{tuning::choose({p.task, p.forms, device}).value().plan};
  const double most_us = hopeless * legal.front()->predicted_us;
  std::set<std::string> kinds;
  const auto take = [&](const families::PlanPointer& c) {
    if (!has(list, *c)) list.push_back(c);
  };
  for (const bool one_a_kind : {true, false})
    for (const families::PlanPointer& c : legal) {
      const std::size_t most = one_a_kind ? std::max<std::size_t>(2, count * 2 / 3) : count;
      if (list.size() >= most || c->predicted_us > most_us) break;
      if (!one_a_kind || kinds.insert(c->family->kind(*c)).second) take(c);
    }
  std::ranges::stable_sort(list.begin() + 1, list.end(), {},
                           [](const families::PlanPointer& c) { return c->predicted_us; });
  return list;
}

}  // namespace

std::vector<Trial> trials_of(const Problem& p, const plan::Device& device, std::size_t count) {
  std::vector<Trial> trials;
  for (const families::PlanPointer& plan : plans_of(p, device, count)) {
    lower::Lowered lowered = lower::lower(p, plan, device).value();
    jit::Request request = lowered.request();
    trials.push_back({std::move(lowered), std::move(request)});
  }
  return trials;
}

std::vector<const Node*> operands_of(const Graph& graph) {
  std::vector<const Node*> list;
  std::set<std::string> seen;
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && seen.insert(x.attr.name).second) list.push_back(&x);
  return list;
}

DType storage_of(const Node& operand, const CompileOptions& options) {
  if (operand.attr.storage) return *operand.attr.storage;
  const auto given = options.storage.find(operand.attr.name);
  return given == options.storage.end() ? DType::f32 : given->second;
}

}  // namespace unisono::tuner
