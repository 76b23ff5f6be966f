/// AffineGrid: where an affine map puts the pixels of an image, as GridSample reads it.

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::int64_t most_places = std::int64_t{1} << 22;  // a constant of three or four floats for each

// From -1 to 1: the centres of the outermost pixels, or their outer borders
double place_of(std::int64_t i, std::int64_t extent, bool align_corners) {
  const auto at = static_cast<double>(i), n = static_cast<double>(extent);
  return align_corners ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1;
}

// (x, y[, z], 1) of each pixel as a column; pixels in their order in memory, the last extent the fastest
std::vector<float> homogeneous_places(const std::vector<std::int64_t>& extents, std::int64_t count,
                                      bool align_corners) {
  const std::size_t axes = extents.size();
  std::vector<float> columns((axes + 1) * static_cast<std::size_t>(count), 1);
  std::int64_t stride = 1;
  for (std::size_t row = 0; row < axes; ++row) {
    const std::int64_t extent = extents[axes - 1 - row];
    for (std::int64_t i = 0; i < count; ++i)
      columns[row * static_cast<std::size_t>(count) + static_cast<std::size_t>(i)] =
          static_cast<float>(place_of(i / stride % extent, extent, align_corners));
    stride *= extent;
  }
  return columns;
}

// The extents of the image, from which its pixels are counted
std::vector<std::int64_t> image_extents(const NodeReader& node, const Shape& size, bool align_corners) {
  std::vector<std::int64_t> extents;
  std::int64_t count = 1;
  for (std::size_t i = 2; i < size.size(); ++i) {
    if (!size[i].known()) node.fail("size has the symbol {}; the image's extents must be numbers", size[i].symbol());
    const std::int64_t extent = size[i].value();
    if (extent < 1 || extent > most_places / count)
      node.fail("size is {}; expected extents of at least 1 and at most 2^22 pixels", to_string(size));
    if (extent == 1 && align_corners)
      node.fail("size is {}; with align_corners an axis of one pixel has no places (ONNX's definition divides by 0)",
                to_string(size));
    extents.push_back(extent);
    count *= extent;
  }
  return extents;
}

// theta (N,2,3) or (N,3,4), size (N,C,[D,]H,W) → (N,[D,]H,W,2 or 3)
void import_affine_grid(const NodeReader& node) {
  const NetworkValue theta = node.value(0);
  const Integers size = node.integers(1);
  if (size.elements.size() != 4 && size.elements.size() != 5)
    node.fail("size has {} extents; expected 4 (N,C,H,W) or 5 (N,C,D,H,W)", size.elements.size());
  const auto n = static_cast<std::int64_t>(size.elements.size()) - 2;
  const Shape given = theta.shape();
  if (given.size() != 3 || given[1] != Dim(n) || given[2] != Dim(n + 1))
    node.fail("theta has shape {}; expected (N,{},{}) for a size of {} extents", to_string(given), n, n + 1, n + 2);
  if (given[0].known() && size.elements[0].known() && given[0] != size.elements[0])
    node.fail("theta has {} maps, and size {} images", given[0].value(), size.elements[0].value());
  const bool align_corners = node.integer("align_corners", 0) != 0;
  const auto extents = image_extents(node, Shape(size.elements), align_corners);
  const std::int64_t count = element_count(extents);
  const NetworkValue places =
      node.make_constant("places", {n + 1, count}, homogeneous_places(extents, count, align_corners));
  const NetworkValue moved = matrix_product(node, theta, node.cast(places, theta.dtype()));
  Shape shape{given[0]};
  for (const auto e : extents) shape.push_back(e);
  shape.push_back(n);
  node.result(reshape_to(node, transposed(node, moved, {0, 2, 1}), shape));
}

constexpr OperatorRow affine_grid_table[] = {{"AffineGrid", 20, import_affine_grid}};

}  // namespace

std::span<const OperatorRow> affine_grid_rows() { return affine_grid_table; }

}  // namespace unisono::network::onnx_import
