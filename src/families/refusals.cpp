/// Refusals of candidates, as a few reasons: one a rule that is broken.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "families/registry.hpp"

namespace unisono::families {
namespace {

struct Group {
  const Candidate* example = nullptr;  ///< the one that is closest to legal
  int count = 0;
};

/// By the rule that is broken; what breaks no plan's rule stands for itself.
std::string key_of(const Refusal& refusal) {
  return refusal.rule.text.empty() ? refusal.text() : std::string(refusal.rule.text);
}

std::vector<Group> group(const std::vector<Candidate>& all) {
  std::map<std::string, Group> rules;
  for (const Candidate& c : all) {
    if (c.is_legal()) continue;
    Group& g = rules[key_of(*c.refusal)];
    if (g.count++ == 0 || c.refusal->rule.excess() < g.example->refusal->rule.excess()) g.example = &c;
  }
  std::vector<Group> list;
  for (const auto& [rule, g] : rules) list.push_back(g);
  std::ranges::stable_sort(list, std::greater(), &Group::count);
  return list;
}

}  // namespace

std::vector<std::string> refusals_by_reason(const std::vector<Candidate>& all, std::size_t most) {
  std::vector<std::string> reasons;
  const std::vector<Group> groups = group(all);
  for (std::size_t i = 0; i < groups.size() && i < most; ++i) {
    const Group& g = groups[i];
    const std::string more = g.count > 1 ? fmt::format(" and {} like it", g.count - 1) : "";
    reasons.insert(reasons.end(), g.example->refusal->reasons.begin(), g.example->refusal->reasons.end());
    reasons.back() += g.example->plan ? fmt::format(" ({}{})", title(*g.example->plan), more) : more;
  }
  if (groups.size() > most) reasons.push_back(fmt::format("and {} other reasons", groups.size() - most));
  return reasons;
}

}  // namespace unisono::families
