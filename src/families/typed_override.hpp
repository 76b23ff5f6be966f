#pragma once
/// Fixed fields of a plan as the public interface has them, those of the built-in families, and as text.

#include "families/interface/override.hpp"
#include "unisono/plan.hpp"

namespace unisono::plan {

/// Throws UserError for a value that no plan has.
Override to_text_fields(const PlanOverride& fixed);
/// Those that have a type.
PlanOverride to_typed_fields(const Override& fixed);

/// What a caller fixes by text and by type together. Throws UserError as the two do, and for a field that both fix.
Override fixed_by(const std::string& text, const PlanOverride& typed);

}  // namespace unisono::plan
