#pragma once
/// Images as the operators between contractions see them.

#include <vector>

#include "reference/reference.hpp"
#include "unisono/contraction.hpp"

namespace unisono::reference {

/// An image in float64, (n, h, w, c), whatever its layout in memory.
struct Image {
  std::int64_t n = 1, h = 1, w = 1, c = 1;
  std::vector<double> value;
  const double* pixel(std::int64_t b, std::int64_t y, std::int64_t x) const {
    return value.data() + ((b * h + y) * w + x) * c;
  }
};

/// Reads a view of shape (N,H,W,C) or (N,C,H,W). Throws UserError that starts with `what` unless it has rank 4 and no
/// empty extent.
Image read_image(const ConstTensorView& x, Layout layout, std::string_view what);

}  // namespace unisono::reference
