#include "rewriting.hpp"

#include <gtest/gtest.h>

#include <set>

#include "passes/common_subexpressions.hpp"
#include "passes/prune.hpp"
#include "unisono/text.hpp"

namespace unisono::passes {

std::string as_program(std::string_view text) {
  const std::string t(text);
  return t.find("store") != t.npos || t.find("observe") != t.npos ? t : "store " + t + " as y : f32";
}

Graph graph_of(std::string_view text) {
  const auto nothing = [](std::span<const double>) { return 0.0; };
  return parse(as_program(text),
               {{"f", 1, true, "", nothing}, {"g", 2, true, "", nothing}, {"observe", 1, false, "", nothing}});
}

Graph normal(const Graph& graph) {
  Graph g = number_nodes(common_subexpressions(number_nodes(graph)));
  for (Node& x : g.nodes) x.name.clear();
  return g;
}

void expect_rewrites(Graph (*pass)(const Graph&), const std::vector<Rewrite>& rewrites) {
  for (const auto& [before, after] : rewrites) {
    SCOPED_TRACE(before);
    const Graph result = pass(graph_of(before));
    verify(result);
    EXPECT_EQ(print(normal(result)), print(normal(graph_of(after))));
    const Graph again = pass(result);
    EXPECT_TRUE(structurally_equal(result, again)) << "not idempotent:\n" << print(again);
  }
}

void expect_unchanged(Graph (*pass)(const Graph&), const std::vector<std::string_view>& texts) {
  for (const auto text : texts) {
    SCOPED_TRACE(text);
    const Graph before = graph_of(text), after = pass(before);
    EXPECT_TRUE(structurally_equal(before, after)) << print(after);
  }
}

void expect_all_rows_fire(const RowTable& table, const std::vector<Rewrite>& rewrites) {
  std::set<const Row*> fired;
  for (const auto& rewrite : rewrites) {
    Editor g(graph_of(rewrite.before));
    apply(table, g, [&](const Row& row) { fired.insert(&row); });
  }
  for (const Row& row : table.rows()) EXPECT_TRUE(fired.contains(&row)) << "no case for the row '" << row.name << "'";
}

}  // namespace unisono::passes
