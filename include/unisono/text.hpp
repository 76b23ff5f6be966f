#pragma once
/// The text form of epilogue graphs; docs/text-form.md gives the grammar.

#include <string>
#include <string_view>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono {

/// Parses the text form. `functions` are callable by name. Throws UserError with line, column, a caret below the place
/// and, for a near miss, a suggestion. Texts above 1 MiB, 200 levels of nesting or 100,000 nodes are refused.
Graph parse(std::string_view text, const std::vector<UserFunction>& functions = {});

/// Prints the text form. parse(print(g)) is structurally equal to g, given the functions that g calls and within the
/// limits of parse(). Values keep their names if these are distinct; others are called t0, t1, …
std::string print(const Graph& graph);

/// Returns Graphviz source of the graph.
std::string to_dot(const Graph& graph, std::string_view title = "epilogue");

}  // namespace unisono
