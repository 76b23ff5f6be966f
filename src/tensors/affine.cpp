#include "tensors/affine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::tensors {

std::int64_t floor_divided(std::int64_t x, std::int64_t by) { return x / by - (x % by < 0 ? 1 : 0); }

Affine operator+(Affine x, const Affine& y) {
  x.constant += y.constant;
  for (const auto& [variable, coefficient] : y.terms)
    if ((x.terms[variable] += coefficient) == 0) x.terms.erase(variable);
  return x;
}

Affine operator+(Affine x, std::int64_t y) {
  x.constant += y;
  return x;
}

Affine operator*(Affine x, std::int64_t by) {
  if (by == 0) return {};
  x.constant *= by;
  for (auto& [variable, coefficient] : x.terms) coefficient *= by;
  return x;
}

Affine Indices::added(Variable v) {
  if (v.extent == 1) return {};
  const auto [at, is_new] = known_.emplace(std::pair{v.text, v.extent}, static_cast<int>(variables_.size()));
  if (is_new) variables_.push_back(std::move(v));
  return {0, {{at->second, 1}}};
}

Affine Indices::variable(const std::string& text, std::int64_t extent, bool of_lane) {
  return added({text, extent, of_lane});
}

Affine Indices::narrowed(int variable, std::int64_t begin, std::int64_t end) {
  const Variable v = variables_[static_cast<std::size_t>(variable)];
  if (begin == 0 && end == v.extent) return {0, {{variable, 1}}};
  const Affine sum{-begin, {{variable, 1}}};
  return added({text(sum), end - begin, v.of_lane, true, resolved(sum)}) + begin;
}

Affine Indices::resolved(const Affine& x) const {
  Affine all{x.constant, {}};
  for (const auto& [variable, coefficient] : x.terms) {
    const Affine& sum = variables_[static_cast<std::size_t>(variable)].sum;
    all = all + (sum.terms.empty() ? Affine{0, {{variable, 1}}} : sum) * coefficient;
  }
  return all;
}

bool Indices::holds_everywhere(const Affine& x) const {
  return std::none_of(x.terms.begin(), x.terms.end(),
                      [&](const auto& term) { return variables_[static_cast<std::size_t>(term.first)].is_narrowed; });
}

AffineRange Indices::range(const Affine& x) const {
  AffineRange r{x.constant, x.constant};
  for (const auto& [variable, coefficient] : x.terms)
    (coefficient > 0 ? r.most : r.least) += coefficient * (variables_[static_cast<std::size_t>(variable)].extent - 1);
  return r;
}

bool Indices::depends_on_lane(const Affine& x) const {
  return std::any_of(x.terms.begin(), x.terms.end(),
                     [&](const auto& term) { return variables_[static_cast<std::size_t>(term.first)].of_lane; });
}

std::string Indices::text(const Affine& x) const {
  std::string all;
  for (const auto& [variable, coefficient] : x.terms) {
    if (!all.empty()) all += " + ";
    all += coefficient == 1 ? name(variable) : fmt::format("{} * {}", coefficient, name(variable));
  }
  if (all.empty()) return std::to_string(x.constant);
  if (x.constant != 0) all += fmt::format(" + {}", x.constant);
  return all;
}

std::string Indices::definitions(const std::string& indent) const {
  std::string lines;
  for (std::size_t i = 0; i < variables_.size(); ++i)
    lines += fmt::format("{}const int i{} = {};\n", indent, i, variables_[i].text);
  return lines;
}

// A variable whose multiple fills the divisor some times over becomes two, the outer of which is a multiple of it
bool Indices::split(Affine& x, std::int64_t by) {
  int chosen = -1;
  for (const auto& [variable, coefficient] : x.terms)
    if (coefficient > 0 && coefficient < by && by % coefficient == 0 &&
        variables_[static_cast<std::size_t>(variable)].extent > by / coefficient &&
        (chosen < 0 || coefficient > x.terms.at(chosen)))
      chosen = variable;
  if (chosen < 0) return false;
  const std::int64_t coefficient = x.terms.at(chosen), inner = by / coefficient;
  const Variable v = variables_[static_cast<std::size_t>(chosen)];
  x.terms.erase(chosen);
  const Affine high = added(
      {fmt::format("{} / {}", name(chosen), inner), (v.extent + inner - 1) / inner, v.of_lane, v.is_narrowed, {}});
  const Affine low = added({fmt::format("{} % {}", name(chosen), inner), inner, v.of_lane, v.is_narrowed, {}});
  x = x + high * by + low * coefficient;
  return true;
}

std::pair<Affine, Affine> Indices::divided(Affine x, std::int64_t by) {
  if (by == 1) return {std::move(x), {}};
  for (;;) {
    Affine quotient{floor_divided(x.constant, by)}, rest{x.constant - quotient.constant * by};
    for (const auto& [variable, coefficient] : x.terms) {
      if (coefficient % by == 0)
        quotient.terms[variable] = coefficient / by;
      else
        rest.terms[variable] = coefficient;
    }
    AffineRange r = range(rest);
    if (r.least >= 0 && r.most < by) return {std::move(quotient), std::move(rest)};
    if (split(rest, by)) {
      x = quotient * by + rest;
      continue;
    }
    if (r.least < 0) {
      const std::int64_t up = -floor_divided(r.least, by);
      quotient.constant -= up, rest.constant += up * by, r.most += up * by;
    }
    const bool of_lane = depends_on_lane(rest), is_narrowed = !holds_everywhere(rest);
    const std::string whole = text(rest);
    return {quotient + added({fmt::format("({}) / {}", whole, by), r.most / by + 1, of_lane, is_narrowed, {}}),
            added({fmt::format("({}) % {}", whole, by), by, of_lane, is_narrowed, {}})};
  }
}

}  // namespace unisono::tensors
