#include "families/plain/plan.hpp"

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

}  // namespace unisono::families::plain
