#pragma once
/// Tables of places that a few numbers say.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// Place i is begin + the sum of steps[k] times digit k of i, where digits are below extents[k], the outermost first.
struct PlaceDigits {
  std::int64_t begin = 0;
  std::vector<std::int64_t> extents, steps;
};

/// The digits of constant indices along an axis of this extent, negative ones from its end; nothing if they are no such
/// sums, or one lies outside.
std::optional<PlaceDigits> digits_of_places(const NetworkTensor& indices, std::int64_t extent);

/// Whether they are constant indices along an axis of this extent, none of them negative or outside.
bool is_table(const NetworkTensor& indices, std::int64_t extent);

}  // namespace unisono::network
