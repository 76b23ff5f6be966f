#pragma once
/// What a word on the command line stands for: a file with text, or the text itself.

#include <string>
#include <utility>

#include "unisono/graph.hpp"

namespace unisono::command {

/// The text of an epilogue that `subject` is or names ("-": standard input), and where it comes from (empty: itself).
/// Throws UserError if it is neither.
std::pair<std::string, std::string> find_text(const std::string& subject);

/// The graph that such a text describes. Throws UserError that names `source`, if there is one.
Graph parse_text(const std::string& text, const std::string& source);

}  // namespace unisono::command
