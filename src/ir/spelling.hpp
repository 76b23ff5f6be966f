#pragma once
/// How the text form spells attributes.

#include <string>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// The keyword arguments of a node that are not at their defaults: {"over=(m,n)", "per=b", "groups=4"}, {"slope=0.1"}.
/// Where an operation has no default (over= of a reduction, groups= of group_norm), always.
std::vector<std::string> keyword_texts(const Node& node);

/// "m", "n", "b", "h" or "w".
std::string_view to_string(Coordinate c);

}  // namespace unisono::ir
