#pragma once
/// Parts of a GPU kernel's plan that the caller fixes. CompileOptions::plan says the same as text.

#include <map>
#include <string>

namespace unisono {

/// Fields of a plan by key, as text; what is absent is chosen:
///
///     options.plan_override.fields = {{"tile", "128x160"}, {"order", "pingpong"}, {"split", "off"}};
///
/// `family` names a family of kernels. All other keys belong to the families, which check the values.
/// docs/cuda-backend.md lists them.
///
/// A key or a value that no family has, such as a tile of 0 rows, is a UserError of compile(). What this problem cannot
/// have is Unsupported, with the rule that is broken.
struct PlanOverride {
  std::map<std::string, std::string> fields = {};

  bool operator==(const PlanOverride&) const = default;
  /// Whether anything is fixed.
  bool any() const { return !fields.empty(); }
};

/// As CompileOptions::plan: "tile=128x160 order=pingpong split=off". Throws UserError as parse_plan() does.
std::string to_string(const PlanOverride& fixed);

/// What such a text fixes. Throws UserError for an unknown key or value, with those that are known.
PlanOverride parse_plan(const std::string& text);

}  // namespace unisono
