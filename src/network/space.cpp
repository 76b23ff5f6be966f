#include "network/space.hpp"

#include <algorithm>
#include <array>

#include "network/dim.hpp"

namespace unisono::network {

namespace {

bool covers(const Axes& a, SpaceAxis p) {
  if (p == SpaceAxis::column) return a.col == ColAxis::n;
  return a.row == RowAxis::m || (a.row == RowAxis::b && p == SpaceAxis::image);
}

}  // namespace

SpaceAxis space_axis(std::size_t axis, std::size_t rank) {
  if (axis == column_axis(rank)) return SpaceAxis::column;
  return axis == 0 ? SpaceAxis::image : SpaceAxis::row;
}

bool has_axes(const Shape& operand, const Shape& space, const Axes& axes) {
  if (operand.size() > space.size()) return false;
  const std::size_t missing = space.size() - operand.size();
  // tensors of different rank may lie in memory in different orders; a vector has only one
  const auto extended = std::count_if(operand.begin(), operand.end(), [](const Dim& d) { return !is_one(d); });
  if (missing != 0 && extended > 1) return false;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const Dim d = i < missing ? Dim(1) : operand[i - missing];
    if (!covers(axes, space_axis(i, space.size()))) {
      if (!is_one(d)) return false;
    } else if (!(d == space[i]) && (is_one(d) || !may_equal(d, space[i]))) {
      return false;
    }
  }
  return true;
}

std::optional<Axes> axes_of(const Shape& operand, const Shape& space, bool images) {
  if (operand == space && space.size() > 1) return axes::mn;
  for (const Axes& a : {axes::scalar, axes::n, axes::b, axes::bn, axes::m, axes::mn}) {
    if (a.row == RowAxis::b && !images) continue;
    if (!has_axes(operand, space, a)) continue;
    // Two names may be 1 and more: an image whose rows repeat is read by the strides of its axes, also of one column
    const bool same_names = operand.size() == space.size() && std::ranges::equal(operand, space, [](auto& x, auto& y) {
                              return x == y || is_one(x) || x.known() || y.known();
                            });
    return a == axes::m && space.size() == 4 && operand.size() == 4 && !same_names ? axes::mn : a;
  }
  return std::nullopt;
}

Extents extents_of(const std::vector<std::int64_t>& s) {
  if (s.empty()) return {.images = 1, .height = 1, .width = 1, .cols = 1};
  if (s.size() == 4) return {.images = s[0], .height = s[2], .width = s[3], .cols = s[1]};
  if (s.size() == 1) return {.images = 1, .height = 1, .width = 1, .cols = s[0]};
  Extents e{.images = s[0], .height = 1, .width = 1, .cols = s.back()};
  for (std::size_t i = 1; i + 1 < s.size(); ++i) e.height *= s[i];
  return e;
}

Dim columns(const Shape& shape) { return shape.empty() ? Dim(1) : shape[column_axis(shape.size())]; }

bool logical_order(const Shape& s) { return s.size() != 4 || is_one(s[1]) || (is_one(s[2]) && is_one(s[3])); }

bool walks_pixels(const OperatorKind& kind) { return std::holds_alternative<operators::PixelReshape>(kind); }

bool is_reshape(const OperatorKind& kind) {
  return std::holds_alternative<operators::Reshape>(kind) || std::holds_alternative<operators::Flatten>(kind) ||
         std::holds_alternative<operators::PixelReshape>(kind);
}

std::vector<std::int64_t> pixel_order(const std::vector<std::int64_t>& of_axes) {
  if (of_axes.size() != 4) return of_axes;
  return {of_axes[0], of_axes[2], of_axes[3], of_axes[1]};
}

}  // namespace unisono::network
