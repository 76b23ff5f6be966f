#include "families/plain/plan.hpp"

#include <array>

namespace unisono::families::plain {

std::string_view to_string(Config::Mode mode) {
  switch (mode) {
    case Config::Mode::none: return "none";
    case Config::Mode::general: return "general";
    case Config::Mode::normalises: return "streamed";
    case Config::Mode::normalises_rows: return "rows";
  }
  return "none";
}

std::span<const plan::PlanField> plan_fields() {
  static const std::array<plan::PlanField, 2> fields{
      {{.name = "tile", .form = "ROWSxCHANNELS, such as 128x64", .numbers = {8192, 2, 2}},
       {.name = "mode", .form = "none, general, streamed or rows", .words = {"none", "general", "streamed", "rows"}}}};
  return fields;
}

}  // namespace unisono::families::plain
