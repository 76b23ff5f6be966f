/// Refusals of candidates, as a few reasons.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "families/registry.hpp"

namespace unisono::families {
namespace {

/// "resident: an image has # tiles, # fit in flight": reasons of one kind.
std::string kind_of(const std::string& reason) {
  std::string kind;
  for (const char c : reason)
    if (c < '0' || c > '9')
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  return kind;
}

/// How far a refusal is from legal: what a reason counts over what there is, its first number over its last.
double excess(const std::string& reason) {
  double first = 0, last = 0;
  constexpr const char* digits = "0123456789";
  for (std::size_t at = reason.find_first_of(digits); at != std::string::npos;) {
    const std::size_t end = std::min(reason.find_first_not_of(digits, at), reason.size());
    std::from_chars(reason.data() + at, reason.data() + end, last);
    if (first == 0) first = last;
    at = reason.find_first_of(digits, end);
  }
  return first / std::max(1.0, last);
}

struct Group {
  std::string kind;
  const Candidate* example = nullptr;
  int count = 0;
};

std::vector<Group> group(const std::vector<Candidate>& all) {
  std::map<std::string, Group> kinds;
  for (const Candidate& c : all) {
    if (c.is_legal()) continue;
    const std::string reason = c.refusal->text();
    Group& g = kinds[kind_of(reason)];
    if (g.count++ == 0 || excess(reason) < excess(g.example->refusal->text())) g.example = &c;
  }
  std::vector<Group> list;
  for (auto& [kind, g] : kinds) g.kind = kind, list.push_back(g);
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
