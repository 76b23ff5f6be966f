#pragma once
/// The text form of epilogue graphs; docs/text-form.md gives the grammar.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coda/graph.hpp"

namespace coda {

/// Parses the text form. `functions` are callable by name. Throws UserError with line, column, a caret under the
/// place and, for a near miss, a suggestion. Text of over 1 MiB or a nesting of over 200 is refused.
Graph parse(std::string_view text, const std::vector<UserFunction>& functions = {});

/// Prints the text form; parse(print(g)) is structurally equal to g.
std::string print(const Graph& graph);

/// Graphviz source of the graph.
std::string to_dot(const Graph& graph, std::string_view title = "epilogue");

}  // namespace coda
