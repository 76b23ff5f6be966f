#include "reference/image.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reference/strided.hpp"
#include "unisono/error.hpp"

namespace unisono::reference {

Image read_image(const ConstTensorView& x, Layout layout, std::string_view what) {
  const bool positive = std::all_of(x.shape.begin(), x.shape.end(), [](std::int64_t e) { return e > 0; });
  if (x.shape.size() != 4 || !positive)
    throw UserError(fmt::format("{} was given an image of shape ({}); expected four extents of at least 1", what,
                                fmt::join(x.shape, ", ")));
  Strided view = checked(x, x.shape, what);
  if (layout == Layout::nchw) view = view.permuted({0, 2, 3, 1});
  return {view.extent[0], view.extent[1], view.extent[2], view.extent[3], gather(view)};
}

}  // namespace unisono::reference
