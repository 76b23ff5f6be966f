#pragma once
/// Fixed fields of a plan as the public interface has them, with types where a built-in family has them, and as text.

#include "families/interface/override.hpp"
#include "unisono/plan.hpp"

namespace unisono::plan {

/// Throws UserError for a value that no plan has, and for a field that is fixed by its type and by name.
Override to_text_fields(const PlanOverride& fixed);
/// The same fields; those without a type by name.
PlanOverride to_typed_fields(const Override& fixed);

/// What a caller fixes by text and by type together. Throws UserError as the two do, and for a field that both fix.
Override fixed_by(const std::string& text, const PlanOverride& typed);

}  // namespace unisono::plan
