#include "families/mma/plan.hpp"

#include <array>

namespace unisono::families::mma {

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::none: return "none";
    case Mode::general: return "general";
    case Mode::rows: return "rows";
    case Mode::resident: return "resident";
    case Mode::streamed: return "streamed";
  }
  return "none";
}

std::span<const plan::PlanField> plan_fields() {
  static const std::array<plan::PlanField, 5> fields{
      {{.name = "tile", .form = "ROWSxCHANNELS or ROWSxCHANNELSxDEPTH, such as 128x64", .numbers = {8192, 2, 3}},
       {.name = "warps", .form = "4 or 8", .words = {"4", "8"}},
       {.name = "stages", .form = "2, 3 or 4", .numbers = {64, 1, 1}},
       {.name = "parts", .form = "1 to 8", .numbers = {8, 1, 1}},
       {.name = "mode",
        .form = "none, general, rows, resident or streamed",
        .words = {"none", "general", "rows", "resident", "streamed"}}}};
  return fields;
}

}  // namespace unisono::families::mma
