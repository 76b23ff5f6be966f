#pragma once
/// Overrides as text. Which fields there are, and what their values may be, the families say.

#include <string>

#include "families/interface/family.hpp"

namespace unisono::plan {

/// "tile=128x160 order=pingpong". Throws UserError for a field or a value that no family's plans have (says which are
/// known).
Override parse_override(const std::string& text);

/// As parse_override() reads it.
std::string to_string(const Override& fixed);

/// Throws UserError as parse_override() does, and for fields that contradict each other whatever the workload.
void check_override(const Override& fixed);

}  // namespace unisono::plan

namespace unisono::families {

/// Whether the family's plans have all of the fields, and such values of them.
bool has_fields(const Family& family, const plan::Override& fixed);

}  // namespace unisono::families
