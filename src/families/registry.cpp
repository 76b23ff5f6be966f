#include "families/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "families/sm90/problem.hpp"
#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::families {
namespace {

/// Those that `family=` leaves, and `fixed` without it.
std::vector<const Family*> asked(PlanOverride& fixed) {
  const auto named = fixed.fields.find("family");
  if (named == fixed.fields.end()) return registry();
  std::vector<std::string_view> names;
  for (const Family* f : registry()) {
    names.push_back(f->name());
    if (f->name() == named->second) return fixed.fields.erase(named), std::vector<const Family*>{f};
  }
  throw UserError(fmt::format("plan override: family={}: expected one of {}{}", named->second, fmt::join(names, ", "),
                              ir::did_you_mean(ir::nearest(named->second, names))));
}

/// Whoever fixes a field is told why no family ahead has such a plan, not handed one of the last resort.
bool has_to_be_named(const Family& family, const PlanOverride& given, const plan::Device& device) {
  if (given.fields.contains("family")) return false;
  return family.has_to_be_named() || (family.is_last_resort(device) && !given.fields.empty());
}

std::string lines(const std::vector<std::string>& reasons) {
  return reasons.empty() ? "" : fmt::format("  {}\n", fmt::join(reasons, "\n  "));
}

/// Why no family has plans with these fields, where none refuses the problem.
std::vector<std::string> unknown_fields(const PlanOverride& given, const plan::Device& device) {
  PlanOverride fixed = given;
  std::vector<std::string> reasons;
  for (const Family* family : asked(fixed)) {
    std::vector<std::string_view> own, lacking;
    for (const plan::PlanField& f : family->fields()) own.push_back(f.name);
    for (const auto& [name, value] : fixed.fields)
      if (std::ranges::find(own, name) == own.end()) lacking.push_back(name);
    if (lacking.empty() && family->has_to_be_named() && !given.fields.contains("family"))
      reasons.push_back(fmt::format("{0}: is taken only where it is asked for; add family={0}", family->name()));
    if (!lacking.empty() && !has_to_be_named(*family, given, device))
      reasons.push_back(fmt::format("{}: its plans have no {}, but {}", family->name(), fmt::join(lacking, ", "),
                                    own.empty() ? "no field" : fmt::format("{}", fmt::join(own, ", "))));
  }
  if (reasons.empty()) reasons.emplace_back("no family has such a plan for it");
  return reasons;
}

std::string no_candidate(const Workload& w, const std::vector<std::string>& reasons, const PlanOverride& fixed) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : fixed.fields) fields.push_back(fmt::format("{}={}", name, value));
  return fmt::format(
      "no kernel serves {}{}; each candidate and why it was refused:\n{}{}", to_string(w.task.contraction()),
      fields.empty() ? "" : fmt::format(" with {}", fmt::join(fields, " ")), lines(reasons),
      fields.empty() ? "Use the cpu device, or change what the reasons name." : "Leave out a field of the override.");
}

}  // namespace

bool multiplies_two(const plan::Device& device) {
  return std::ranges::any_of(registry(), [&](const Family* f) { return f->multiplies_two(device); });
}

plan::TileLimits tile_limits() { return sm90::tile_limits; }

plan::Expected<std::vector<Candidate>> candidates(const Workload& workload, const PlanOverride& given) {
  PlanOverride fixed = given;
  std::vector<Candidate> all;
  std::vector<std::string> reasons;
  bool refused_by_all = true;
  const std::vector<const Family*> families = asked(fixed);
  check_override(fixed);
  for (const Family* family : families) {
    if (has_to_be_named(*family, given, workload.device)) continue;
    if (auto refusal = family->can_implement(workload)) {
      if (refusal->scope == Refusal::Scope::foreign && families.size() > 1) continue;
      for (const std::string& r : refusal->reasons)
        if (std::ranges::find(reasons, r) == reasons.end()) reasons.push_back(r);
      all.push_back({nullptr, std::move(refusal)});
      continue;
    }
    refused_by_all = false;
    if (!has_fields(*family, fixed)) continue;
    for (Candidate& c : family->candidates(workload, fixed)) all.push_back(std::move(c));
    if (std::ranges::any_of(all, &Candidate::is_legal)) break;
  }
  if (refused_by_all) {
    std::string message =
        fmt::format("no kernel serves {}:\n  {}", to_string(workload.task.contraction()), fmt::join(reasons, "\n  "));
    return Refusal{.scope = Refusal::Scope::problem, .reasons = std::move(reasons), .message = std::move(message)};
  }
  std::stable_partition(all.begin(), all.end(), [](const Candidate& c) { return c.is_legal(); });
  return all;
}

std::optional<Refusal> refused_ahead_of(const Family& taken, const Workload& workload) {
  Refusal all{Refusal::Scope::problem, {}};
  for (const Family* family : registry()) {
    if (family == &taken) break;
    if (family->has_to_be_named()) continue;
    if (const auto refusal = family->can_implement(workload))
      all.reasons.insert(all.reasons.end(), refusal->reasons.begin(), refusal->reasons.end());
  }
  return all.reasons.empty() ? std::nullopt : std::optional(std::move(all));
}

plan::Expected<PlanPointer> choose(const Workload& workload, const PlanOverride& fixed) {
  const auto all = candidates(workload, fixed);
  if (!all) return all.refusal();
  if (!all->empty() && all->front().is_legal()) return all->front().plan;
  Refusal refusal{Refusal::Scope::problem, refusals_by_reason(*all)};
  if (refusal.reasons.empty()) refusal.reasons = unknown_fields(fixed, workload.device);
  refusal.message = no_candidate(workload, refusal.reasons, fixed);
  return refusal;
}

std::string explain(const Workload& w, const PlanOverride& fixed, std::size_t alternatives, const PlanPointer& chosen) {
  const std::vector<Candidate> all = candidates(w, fixed).value();
  const auto legal = static_cast<std::size_t>(std::ranges::count_if(all, &Candidate::is_legal));
  if (legal == 0) return no_candidate(w, refusals_by_reason(all), fixed) + "\n";
  const Plan& best = chosen ? *chosen : *all.front().plan;
  std::string text = fmt::format("plan: {}\n", describe(best));
  text += fmt::format("predicted: {:.1f} us on {}\n", best.predicted_us, w.device.name);
  text += best.family->reasons(best, w);
  text += fmt::format("workspace: {} bytes\n", best.workspace_bytes);
  if (legal > 1 && alternatives > 0) text += fmt::format("next best of {} legal candidates:\n", legal);
  const PlanOverride taken = override_of(best);
  for (std::size_t i = 0, shown = 0; i < legal && shown < alternatives; ++i) {
    const Plan& other = *all[i].plan;
    if (other.family == best.family && override_of(other) == taken) continue;
    text += fmt::format("  {:6.1f} us  {}\n", other.predicted_us, describe(other));
    ++shown;
  }
  if (all.size() > legal)
    text += fmt::format("refused: {} candidates\n{}", all.size() - legal, lines(refusals_by_reason(all)));
  return text;
}

}  // namespace unisono::families
