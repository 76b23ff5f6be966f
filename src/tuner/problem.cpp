#include "tuner/problem.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tuning/choose.hpp"

namespace unisono::tuner {
namespace {

/// Plans that are predicted to be slower than the best by more than this are not worth a compilation.
constexpr double hopeless = 1.6;

auto shape_of_plan(const plan::ConvConfig& c) {
  return std::tuple(c.tile_m, c.tile_n, c.tile_warpgroups, c.turns, c.mode, c.patch, c.unfold.has_value());
}

bool has(const std::vector<plan::ConvPlan>& list, const plan::ConvConfig& config) {
  return std::ranges::any_of(list, [&](const plan::ConvPlan& p) { return p.config == config; });
}

std::vector<plan::ConvPlan> plans_of(const Problem& p, const plan::Device& device, std::size_t count) {
  std::vector<plan::ConvPlan> legal;
  for (plan::Candidate& c : plan::candidates(p.task, p.epilogue, device))
    if (c.refusal.empty()) legal.push_back(std::move(c.plan));
  std::vector<plan::ConvPlan> list{tuning::choose(p.task, p.epilogue, device).plan};
  const double most_us = hopeless * legal.front().predicted_us;
  std::set<decltype(shape_of_plan(legal[0].config))> shapes;
  const auto take = [&](const plan::ConvPlan& c) {
    if (!has(list, c.config)) list.push_back(c);
  };
  for (const bool one_a_shape : {true, false})
    for (const plan::ConvPlan& c : legal) {
      const std::size_t most = one_a_shape ? std::max<std::size_t>(2, count * 2 / 3) : count;
      if (list.size() >= most || c.predicted_us > most_us) break;
      if (!one_a_shape || shapes.insert(shape_of_plan(c.config)).second) take(c);
    }
  std::ranges::stable_sort(list.begin() + 1, list.end(), {}, &plan::ConvPlan::predicted_us);
  return list;
}

}  // namespace

std::vector<Trial> trials_of(const Problem& p, const plan::Device& device, std::size_t count) {
  std::vector<Trial> trials;
  for (const plan::ConvPlan& plan : plans_of(p, device, count)) {
    lower::Lowered lowered = lower::lower(p, plan);
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
