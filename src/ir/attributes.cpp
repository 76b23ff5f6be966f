#include "ir/attributes.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <functional>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

// `a` with every field that `op` does not read at its default
Attributes read_by(Op op, const Attributes& a) {
  Attributes r;
  for (const Parameter& p : info(op).parameters) r.*p.field = a.*p.field;
  if (is_reduction(op) || is_normalisation(op) || op == Op::softmax) r.domain = a.domain;
  if (is_normalisation(op)) {
    r.has_scale = a.has_scale;
    r.has_shift = a.has_shift;
  }
  if (op == Op::operand || op == Op::call) r.name = a.name;
  if (op == Op::operand) {
    r.storage = a.storage;
    r.default_value = a.default_value;
    r.rows = a.rows;
    r.strided = a.strided;
  }
  if (op == Op::constant) r.value = a.value;
  if (op == Op::index || op == Op::extent) r.coordinate = a.coordinate;
  return r;
}

std::optional<std::string> wrong_domain(Op op, const ReduceDomain& d) {
  if (!d.rows && !d.cols) return fmt::format("{} runs over nothing; say over=m, over=n or over=all", to_string(op));
  if (d.per_image && !d.rows)
    return fmt::format("{} per image runs over rows; say over=m or over=all with per=b", to_string(op));
  if (d.groups < 1 || d.groups > most_groups)
    return fmt::format("{} was given groups={}; expected 1 to {}", to_string(op), d.groups, most_groups);
  if (d.groups > 1 && !d.cols)
    return fmt::format("{} with groups={} runs over columns; say over=n or over=all", to_string(op), d.groups);
  return {};
}

std::optional<std::string> wrong_normalisation(Op op, const Attributes& a) {
  if (a.domain.groups != 1 && op != Op::group_norm)
    return fmt::format("{} takes no groups; only group_norm does", to_string(op));
  if (a.domain != normalisation_domain(op, a.domain.groups))
    return fmt::format("{} was given another domain than its op fixes", to_string(op));
  if (!(a.eps >= 0))
    return fmt::format("{} was given eps={}; expected a number of at least 0", to_string(op), number_text(a.eps));
  if (op == Op::rms_norm && a.has_shift) return "rms_norm takes no shift; add it after";
  return {};
}

}  // namespace

bool same_attributes(const Attributes& x, const Attributes& y) {
  return same_number(x.value, y.value) && same_number(x.alpha, y.alpha) && same_number(x.beta, y.beta) &&
         same_number(x.lower, y.lower) && same_number(x.upper, y.upper) && same_number(x.eps, y.eps) &&
         x.has_scale == y.has_scale && x.has_shift == y.has_shift && x.domain == y.domain &&
         x.coordinate == y.coordinate && x.name == y.name && x.storage == y.storage &&
         same_number(x.default_value, y.default_value) && x.rows == y.rows && x.strided == y.strided;
}

std::size_t hash_of(const Attributes& a) {
  std::size_t hash = std::hash<std::string>{}(a.name);
  const auto mix = [&hash](std::uint64_t bits) {
    hash = (hash ^ std::hash<std::uint64_t>{}(bits)) * 0x9e3779b97f4a7c15u;
  };
  for (const double x : {a.value, a.alpha, a.beta, a.lower, a.upper, a.eps, a.default_value.value_or(0)})
    mix(std::isnan(x) ? 1 : std::bit_cast<std::uint64_t>(x));
  const ReduceDomain& d = a.domain;
  mix(static_cast<std::uint64_t>(d.groups) << 3 | (d.rows ? 4u : 0u) | (d.cols ? 2u : 0u) | (d.per_image ? 1u : 0u));
  return hash;
}

bool is_exact_in(double value, DType t) {
  if (t == DType::boolean) return value == 0 || value == 1;
  return value == std::trunc(value) && value >= -0x1p31 && value < 0x1p31;
}

std::optional<std::string> wrong_attributes(Op op, const Attributes& a) {
  if (!same_attributes(a, read_by(op, a)))
    return fmt::format("{} was given an attribute that it does not read", to_string(op));
  if (is_reduction(op) || is_normalisation(op) || op == Op::softmax)
    if (auto wrong = wrong_domain(op, a.domain)) return wrong;
  if (is_normalisation(op))
    if (auto wrong = wrong_normalisation(op, a)) return wrong;
  if (op == Op::clamp && !(a.lower <= a.upper))
    return fmt::format("clamp was given lower={} and upper={}; expected lower <= upper", number_text(a.lower),
                       number_text(a.upper));
  for (const Parameter& p : info(op).parameters)
    if (op != Op::clamp && !std::isfinite(a.*p.field))
      return fmt::format("{} was given {}={}; expected a finite number", to_string(op), p.name,
                         number_text(a.*p.field));
  return {};
}

void check_attributes(Op op, const Attributes& a) {
  if (const auto wrong = wrong_attributes(op, a)) throw UserError(*wrong);
}

}  // namespace unisono::ir
