#pragma once
/// Rewrites as pairs of texts.

#include <string_view>
#include <vector>

#include "passes/pattern.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Parses; function names `f` (one argument), `g` (two) and `observe` (one, returns nothing) are defined.
Graph graph_of(std::string_view text);

/// The same graph with equal nodes merged, nodes in one order and intermediate names gone, so that two ways to build it
/// compare equal.
Graph normal(const Graph& graph);

/// "store … : f32" for an expression, or the text itself if it has stores.
std::string as_program(std::string_view text);

struct Rewrite {
  std::string_view before, after;
};

/// `pass` turns before into after, and after into itself.
void expect_rewrites(Graph (*pass)(const Graph&), const std::vector<Rewrite>& rewrites);
void expect_unchanged(Graph (*pass)(const Graph&), const std::vector<std::string_view>& texts);

/// Every row of the table fires for one of the texts at least.
void expect_all_rows_fire(const RowTable& table, const std::vector<Rewrite>& rewrites);

}  // namespace unisono::passes
