#include "runtime/common/views.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "unisono/error.hpp"

namespace unisono::runtime {

std::string shape_string(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ",")); }

std::vector<std::int64_t> checked_strides(const ConstTensorView& view, const std::vector<std::int64_t>& shape,
                                          std::span<const DType> dtypes, const std::string& what) {
  if (view.data == nullptr && view.shape.empty() && !shape.empty())
    throw UserError(fmt::format("{} is not bound; give a tensor of shape {} and dtype {}", what, shape_string(shape),
                                to_string(dtypes.front())));
  if (view.shape != shape)
    throw UserError(
        fmt::format("{} was given shape {}; expected {}", what, shape_string(view.shape), shape_string(shape)));
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    std::vector<std::string_view> names;
    for (const DType t : dtypes) names.push_back(to_string(t));
    throw UserError(
        fmt::format("{} was given dtype {}; expected {}", what, to_string(view.dtype), fmt::join(names, " or ")));
  }
  if (!view.data) throw UserError(fmt::format("{} was given a null pointer", what));
  if (view.strides.empty()) return row_major_strides(shape);
  if (view.strides.size() != shape.size())
    throw UserError(
        fmt::format("{} was given {} strides for shape {}; expected one for each extent, or none for a dense "
                    "tensor",
                    what, view.strides.size(), shape_string(shape)));
  for (const auto s : view.strides)
    if (s < 0)
      throw UserError(fmt::format("{} was given strides {}; expected none below 0", what, shape_string(view.strides)));
  return view.strides;
}

void check_distinct(const ConstTensorView& view, const std::vector<std::int64_t>& strides, const std::string& what) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (view.shape[i] > 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return strides[x] < strides[y]; });
  std::int64_t reach = 0;  // last element of the dimensions so far
  for (const std::size_t i : order) {
    if (strides[i] <= reach)
      throw UserError(fmt::format("{} was given strides {} for shape {}: its elements overlap, so it cannot be written",
                                  what, shape_string(strides), shape_string(view.shape)));
    reach += (view.shape[i] - 1) * strides[i];
  }
}

ByteRange byte_range(const ConstTensorView& view, const std::vector<std::int64_t>& strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) last += (view.shape[i] - 1) * strides[i];
  const auto* first = static_cast<const std::byte*>(view.data);
  return {first, first + (last + 1) * static_cast<std::int64_t>(size_of(view.dtype))};
}

namespace {

// Slices of the same pixels: they share the strides of all dimensions but one, in which both step by one element
bool disjoint_slices(const ConstTensorView& x, const std::vector<std::int64_t>& xs, const ConstTensorView& y,
                     const std::vector<std::int64_t>& ys) {
  if (xs.size() != ys.size() || size_of(x.dtype) != size_of(y.dtype)) return false;
  std::int64_t pitch = 0;  // the smallest stride above 1
  std::int64_t x_width = 1, y_width = 1;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (x.shape[i] == 1 && y.shape[i] == 1) continue;
    if (xs[i] != ys[i]) return false;
    if (xs[i] == 1) {
      if (x_width * y_width != 1) return false;
      x_width = x.shape[i];
      y_width = y.shape[i];
    } else {
      pitch = pitch == 0 ? xs[i] : std::min(pitch, xs[i]);
    }
  }
  if (pitch == 0) return false;
  for (std::size_t i = 0; i < xs.size(); ++i)
    if ((x.shape[i] > 1 || y.shape[i] > 1) && xs[i] != 1 && xs[i] % pitch != 0) return false;
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t bytes = static_cast<const std::byte*>(y.data) - static_cast<const std::byte*>(x.data);
  if (bytes % size != 0) return false;
  const std::int64_t offset = ((bytes / size) % pitch + pitch) % pitch;  // y's first column within x's pixel
  return offset >= x_width && offset + y_width <= pitch;
}

}  // namespace

bool may_overlap(const ConstTensorView& x, const std::vector<std::int64_t>& x_strides, const ConstTensorView& y,
                 const std::vector<std::int64_t>& y_strides) {
  const ByteRange a = byte_range(x, x_strides), b = byte_range(y, y_strides);
  const std::less<const std::byte*> before;
  if (!before(a.first, b.last) || !before(b.first, a.last)) return false;
  return !disjoint_slices(x, x_strides, y, y_strides);
}

}  // namespace unisono::runtime
