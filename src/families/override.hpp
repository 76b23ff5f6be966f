#pragma once
/// Overrides (unisono/plan.hpp) and the fields of the families.

#include <string>

#include "families/interface/family.hpp"

namespace unisono::families {

/// Throws UserError for a field or a value that no family's plans have (says which are known), and for fields that
/// contradict each other whatever the workload.
void check_override(const PlanOverride& fixed);

/// What CompileOptions::plan and CompileOptions::plan_override fix together. Throws UserError as check_override() does,
/// and for a field that both fix.
PlanOverride fixed_by(const std::string& text, const PlanOverride& by_key);

/// Whether the family's plans have all of the fields, and such values of them.
bool has_fields(const Family& family, const PlanOverride& fixed);

}  // namespace unisono::families
