#include "ir/value_names.hpp"

#include <fmt/format.h>

#include "ir/names.hpp"
#include "ir/op_table.hpp"

namespace unisono::ir {

ValueNames::ValueNames(const Graph& graph) : graph_(graph), names_(graph.nodes.size()) {
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand) taken_.insert(x.attr.name);
  for (ValueId id = 0; id < graph.nodes.size(); ++id) suggest(id, graph[id].name);
  for (std::size_t i = 0; i < graph.stores.size(); ++i) {
    const Store& s = graph.stores[i];
    const bool unnamed = s.name == fmt::format("out{}", i);
    if (!unnamed && s.form == StoreForm::whole && names_[s.value].empty() && is_free(s.name)) suggest(s.value, s.name);
  }
  for (const Store& s : graph.stores) taken_.insert(s.name);  // legal for another value, but confusing
}

bool ValueNames::is_free(const std::string& name) const {
  return is_identifier(name) && !is_reserved(name) && !graph_.functions.contains(name) && !taken_.contains(name);
}

void ValueNames::suggest(ValueId id, const std::string& name) {
  if (!is_identifier(name) || info(graph_[id].op).op_class == OpClass::leaf) return;
  std::string distinct = name;
  const auto stem = name.substr(0, 112);  // leaves room for the number within the longest name
  while (!is_free(distinct)) distinct = fmt::format("{}_{}", stem, ++copies_[stem]);
  taken_.insert(distinct);
  names_[id] = std::move(distinct);
}

std::string ValueNames::next() {
  std::string name;
  do name = fmt::format("t{}", next_++);
  while (!is_free(name));
  return name;
}

}  // namespace unisono::ir
