#pragma once
/// Shapes that broadcast, for the tests of operands.

#include <cstdint>
#include <set>
#include <vector>

namespace unisono::test {

using Extents64 = std::vector<std::int64_t>;

/// Every shape of this rank with extents from `choices`, a list for each axis.
inline std::vector<Extents64> shapes_from(const std::vector<Extents64>& choices) {
  std::vector<Extents64> all{{}};
  for (const Extents64& axis : choices) {
    std::vector<Extents64> longer;
    for (const Extents64& shape : all)
      for (const std::int64_t extent : axis) {
        longer.push_back(shape);
        longer.back().push_back(extent);
      }
    all = std::move(longer);
  }
  return all;
}

/// Every shape that broadcasts to just `space` or to a part of it: of each rank up to its own, with each extent its own
/// or 1.
inline std::vector<Extents64> operands_over(const Extents64& space) {
  std::set<Extents64> all;
  for (std::size_t rank = 0; rank <= space.size(); ++rank) {
    std::vector<Extents64> choices;
    for (std::size_t i = space.size() - rank; i < space.size(); ++i) choices.push_back({1, space[i]});
    for (Extents64& s : shapes_from(choices)) all.insert(std::move(s));
  }
  return {all.begin(), all.end()};
}

/// Calls visit(index) for every element of a shape, in row-major order.
template <class Visit>
void for_each_index(const Extents64& shape, const Visit& visit) {
  for (const std::int64_t extent : shape)
    if (extent == 0) return;
  Extents64 index(shape.size(), 0);
  for (;;) {
    visit(index);
    std::size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

/// Where NumPy's rules find, in a row-major tensor of shape `operand`, what stands at `index` of the space.
inline std::int64_t broadcast_position(const Extents64& operand, const Extents64& index) {
  std::int64_t position = 0;
  for (std::size_t i = 0; i < operand.size(); ++i)
    position = position * operand[i] + (operand[i] == 1 ? 0 : index[index.size() - operand.size() + i]);
  return position;
}

}  // namespace unisono::test
