#include "support/checked.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::support {

void throw_beyond(const char* what, int bits) {
  throw Unsupported(fmt::format(
      "{}: the number does not fit {} bits; give smaller extents, or split the problem into several", what, bits));
}

}  // namespace unisono::support
