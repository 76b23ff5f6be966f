#include "network/attention_extents.hpp"

#include "network/dim.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

// Which of the extents an axis of an operand has: all have those of the batch, then rows and columns
std::size_t extent_of(std::size_t operand, std::size_t axis, std::size_t batch) {
  static constexpr std::size_t rows[] = {0, 1, 1, 0}, columns[] = {2, 2, 3, 1};  // q, k, v, masks
  const std::size_t kind = operand < 3 ? operand : 3;
  return axis < batch ? axis : batch + (axis == batch ? rows : columns)[kind];
}

}  // namespace

Shape attention_extents(const operators::Attention& a, const std::vector<Shape>& shapes) {
  Shape extents(a.extents.begin(), a.extents.end());
  const std::size_t batch = a.extents.size() - 4;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    bool found = a.extents[i] != 0;
    for (std::size_t o = 0; !found && o < a.operands.size(); ++o)
      for (std::size_t axis = 0; !found && axis < batch + 2; ++axis) {
        const operators::MatrixAxis& m = a.operands[o].axes[axis];
        if (m.axis < 0 || extent_of(o, axis, batch) != i) continue;
        extents[i] = divided(shapes[o][static_cast<std::size_t>(m.axis)], m.step);
        found = true;
      }
    if (!found) throw InternalError("an extent of attention that no operand has");
  }
  return extents;
}

Shape result_shape(const operators::Attention& a, const std::vector<Shape>& shapes) {
  const Shape extents = attention_extents(a, shapes);
  const std::size_t batch = a.extents.size() - 4;
  Shape result;
  for (std::size_t axis = 0; axis < a.result.begin.size(); ++axis) {
    Shape along;
    for (std::size_t i = 0; i < a.result.axes.size(); ++i)
      if (a.result.axes[i].axis == static_cast<int>(axis))
        along.push_back(extents[i < batch ? i : batch + (i == batch ? 0 : 3)]);
    result.push_back(product(along));
  }
  return result;
}

}  // namespace unisono::network
