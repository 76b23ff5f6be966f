#include "ir/spelling.hpp"

#include <fmt/format.h>

#include "ir/number.hpp"
#include "ir/op_table.hpp"

namespace unisono::ir {

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
