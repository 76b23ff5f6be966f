#include "support/checked.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::support {

std::string beyond_text(const char* what, int bits) {
  return fmt::format("{}: the number does not fit {} bits; give smaller extents, or split the problem into several",
                     what, bits);
}

void throw_beyond(const char* what, int bits) { throw Unsupported(beyond_text(what, bits)); }

}  // namespace unisono::support
