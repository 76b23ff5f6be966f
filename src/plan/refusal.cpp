#include "plan/refusal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "passes/prune.hpp"
#include "unisono/text.hpp"

namespace unisono::plan {

std::string Refusal::text() const { return fmt::format("{}", fmt::join(reasons, "\n  ")); }

Refusal Refusal::exceeding(double wanted, double available) && {
  rule.wanted = wanted, rule.available = available;
  return std::move(*this);
}

Refusal because(std::string reason) { return {Refusal::Scope::problem, {std::move(reason)}}; }

// Prints a graph that stores nothing but the value, and takes its line
std::string text_of(const Graph& graph, ValueId id) {
  Graph alone = graph;
  const std::string name = std::move(alone.nodes[id].name);
  alone.nodes[id].name.clear();
  alone.stores = {{id, DType::f32, "out0"}};
  alone.effects.clear();
  const std::string text = "\n" + print(passes::prune(alone));
  const auto line = text.substr(text.rfind('\n', text.size() - 2) + 1);  // "store EXPRESSION : f32"
  constexpr std::size_t before = std::string_view("store ").size(), after = std::string_view(" : f32\n").size();
  std::string expression = line.substr(before, line.size() - before - after);
  if (expression.ends_with(" as out0")) expression.resize(expression.size() - std::string_view(" as out0").size());
  const auto own_line = text.find("\n" + expression + " = ");  // too long to stand in another
  if (own_line != text.npos) {
    const auto begin = own_line + expression.size() + std::string_view("\n = ").size();
    expression = text.substr(begin, text.find('\n', begin) - begin);
  }
  return name.empty() ? expression : fmt::format("{} = {}", name, expression);
}

Refusal refusal_at(const Graph& graph, ValueId id, const std::string& reason) {
  return because(
      fmt::format("'{}' is not yet in a GPU kernel: {}. It runs on the CPU device", text_of(graph, id), reason));
}

}  // namespace unisono::plan
