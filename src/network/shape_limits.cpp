#include "network/shape_limits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono::network {

namespace {
constexpr double largest_tensor = 0x1p46;  // elements
}

void check_size(const Shape& shape, const std::string& where) {
  if (shape.size() > largest_rank)
    throw UserError(fmt::format("{}: has {} axes; the limit is {}", where, shape.size(), largest_rank));
  double elements = 1;
  for (const Dim& d : shape) {
    if (!d.known()) continue;
    if (d.value() < 0 || d.value() > largest_extent)
      throw UserError(fmt::format("{}: extent {} of shape {} is out of range; expected 0 to 2^31", where, d.value(),
                                  to_string(shape)));
    elements *= static_cast<double>(std::max<std::int64_t>(d.value(), 1));
  }
  if (elements > largest_tensor)
    throw UserError(fmt::format("{}: shape {} has more than 2^46 elements", where, to_string(shape)));
}

}  // namespace unisono::network
