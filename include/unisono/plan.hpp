#pragma once
/// Fixing parts of a GPU kernel's plan. CompileOptions::plan does the same by text.

#include <map>
#include <string>

namespace unisono {

/// Fields of a plan by key, as text. Absent fields are chosen:
///
///     options.plan_override.fields = {{"tile", "128x160"}, {"order", "pingpong"}, {"split", "off"}};
///
/// `family` names a family of kernels. All other keys belong to the families, which check the values; docs/plan.md
/// lists them.
///
/// compile() throws UserError for a key or a value that no family has, such as a tile of 0 rows, and Unsupported, with
/// the broken rule, for a value that is not possible for the problem.
struct PlanOverride {
  std::map<std::string, std::string> fields = {};

  bool operator==(const PlanOverride&) const = default;
  /// Returns whether any field is fixed.
  bool any() const { return !fields.empty(); }
};

/// Returns the text for CompileOptions::plan: "tile=128x160 order=pingpong split=off". Throws UserError as
/// parse_plan().
std::string to_string(const PlanOverride& fixed);

/// Parses such a text. Throws UserError for an unknown key or value, listing the known ones.
PlanOverride parse_plan(const std::string& text);

}  // namespace unisono
