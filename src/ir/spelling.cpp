#include "ir/spelling.hpp"

#include <fmt/format.h>

#include <cmath>

#include "ir/attributes.hpp"
#include "ir/op_table.hpp"

namespace unisono::ir {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", value);
  const auto e = s.find('e');  // "1e-05": drop the plus sign and the zeros of the exponent
  if (e != std::string::npos) {
    auto digits = e + 1;
    if (s[digits] == '+')
      s.erase(digits, 1);
    else if (s[digits] == '-')
      ++digits;
    while (digits + 1 < s.size() && s[digits] == '0') s.erase(digits, 1);
  }
  return s;
}

std::vector<std::string> keyword_texts(const Node& node) {
  std::vector<std::string> texts;
  const ReduceDomain& d = node.attr.domain;
  if (is_reduction(node.op) || node.op == Op::softmax) {
    const bool all = d.rows && d.cols;
    texts.emplace_back(all && d.per_image ? "over=(m,n)" : all ? "over=all" : d.rows ? "over=m" : "over=n");
    if (d.per_image) texts.emplace_back("per=b");
    if (d.groups != 1) texts.push_back(fmt::format("groups={}", d.groups));
  }
  if (node.op == Op::group_norm) texts.push_back(fmt::format("groups={}", d.groups));
  for (const Parameter& p : info(node.op).parameters)
    if (!same_number(node.attr.*p.field, p.fallback))
      texts.push_back(fmt::format("{}={}", p.name, number_text(node.attr.*p.field)));
  return texts;
}

std::string_view to_string(Coordinate c) {
  switch (c) {
    case Coordinate::m: return "m";
    case Coordinate::n: return "n";
    case Coordinate::b: return "b";
    case Coordinate::h: return "h";
    case Coordinate::w: return "w";
  }
  return "?";
}

}  // namespace unisono::ir
