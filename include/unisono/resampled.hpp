#pragma once
/// What a GPU kernel makes of the [m,n] store that it writes last.

#include <string>

namespace unisono {

/// Tensors that stand beside that store, by the names under which Arguments::outputs binds them; an empty name: not
/// made. Their elements are those of the store, as it is rounded. Pixels may lie apart, as the store's may.
struct Resampled {
  std::string pooled = {};  ///< (n, h/2, w/2, k): the largest of each 2x2 pixels; NaN if one is. Odd lines, pixels end
  std::string enlarged = {};   ///< (n, 2h, 2w, k): each pixel four times
  bool only_enlarged = false;  ///< the store itself is not written, and not bound
  bool any() const { return !pooled.empty() || !enlarged.empty(); }
  bool operator==(const Resampled&) const = default;
};

}  // namespace unisono
