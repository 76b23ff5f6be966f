#pragma once
/// How the text form spells numbers and attributes.

#include <string>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// The shortest decimal that reads back as exactly `value`: "2", "0.1", "1e-5", "-inf", "nan".
std::string number_text(double value);

/// The keyword arguments of a node that are not at their defaults: {"over=(m,n)", "per=b", "groups=4"}, {"slope=0.1"}.
/// Where an operation has no default (over= of a reduction, groups= of group_norm), always.
std::vector<std::string> keyword_texts(const Node& node);

/// "m", "n", "b", "h" or "w".
std::string_view to_string(Coordinate c);

}  // namespace unisono::ir
