#include "network/operand_view.hpp"

#include "network/space.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

// Several axes as one: their extent, and the stride if it is the same from each element to the next
struct Joined {
  std::int64_t extent = 1, stride = 0;
};

// `axes` from the outermost to the innermost
std::optional<Joined> join(const std::vector<Joined>& axes) {
  Joined all;
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (axes[i].extent == 1) continue;
    if (all.extent == 1)
      all.stride = axes[i].stride;
    else if (axes[i].stride != all.stride * all.extent)
      return std::nullopt;
    all.extent *= axes[i].extent;
  }
  return all;
}

}  // namespace

bool OperandView::has(const Axes& axes) const {
  if (axes.col == ColAxis::none && columns > 1 && column != 0) return false;
  if (axes.row == RowAxis::m) return true;
  return (rows == 1 || row == 0) && (axes.row == RowAxis::b || images == 1 || image == 0);
}

bool OperandView::repeats(const Axes& axes) const {
  if (images == 0 || rows == 0 || columns == 0) return false;  // strides of a tensor without elements may be 0
  if (axes.col == ColAxis::n && columns > 1 && column == 0) return true;
  if (axes.row != RowAxis::none && images > 1 && image == 0) return true;
  return axes.row == RowAxis::m && rows > 1 && row == 0;
}

std::optional<OperandView> broadcast_view(const Sizes& operand, const Sizes& strides, const Sizes& space) {
  if (operand.size() > space.size()) return std::nullopt;
  const std::size_t missing = space.size() - operand.size();
  OperandView v;
  std::vector<Joined> rows;
  // strides that the tensor has along axes of one element; whoever compares views finds those of its own memory there
  std::optional<std::int64_t> own_image, own_row, own_column;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const bool given = i >= missing;
    const std::int64_t extent = given ? operand[i - missing] : 1;
    if (extent != space[i] && extent != 1) return std::nullopt;
    const std::int64_t stride = given && extent == space[i] ? strides[i - missing] : 0;
    const auto own = given ? std::optional(stride) : std::nullopt;
    switch (space_axis(i, space.size())) {
      case SpaceAxis::image: v.images = space[i], v.image = stride, own_image = own; break;
      case SpaceAxis::row: rows.push_back({space[i], stride}), own_row = own; break;
      case SpaceAxis::column: v.columns = space[i], v.column = stride, own_column = own; break;
    }
  }
  const auto joined = join(rows);
  if (!joined) return std::nullopt;
  v.rows = joined->extent, v.row = joined->stride;
  if (v.columns == 1) v.column = own_column.value_or(1);
  if (v.rows == 1) v.row = own_row.value_or(own_image.value_or(v.columns * v.column));
  if (v.images == 1) v.image = own_image.value_or(v.rows * v.row);
  return v;
}

std::optional<OperandView> operand_view(const RegionOperand& operand, const Sizes& sizes, const Sizes& strides,
                                        const Sizes& space) {
  auto view = broadcast_view(operand.per_column ? Sizes{} : sizes, operand.per_column ? Sizes{} : strides, space);
  if (operand.per_column) {
    if (sizes != Sizes{view->columns}) return std::nullopt;
    view->column = strides[0];
  }
  if (view && !view->has(operand.axes)) return std::nullopt;
  return view;
}

ArgumentView argument_view(const OperandView& v, const Axes& axes, const Extents& e, bool matrix) {
  if (e.images * e.rows_per_image() != v.images * v.rows || e.cols != v.columns)
    throw InternalError("an operand is seen from another space");
  const bool images_agree = e.images == v.images;
  if (axes.row == RowAxis::m && !v.is_uniform() && !(images_agree && axes == axes::mn))
    throw InternalError("an operand's rows are not equally far apart");
  ArgumentView a;
  if (axes == axes::mn) {
    const std::int64_t row = images_agree ? v.row : v.pitch();
    a.shape = matrix ? std::vector{e.images, e.height} : std::vector{e.images, e.height, e.width};
    a.strides = {images_agree ? v.image : e.rows_per_image() * row, e.width * row};
    if (!matrix) a.strides.push_back(row);
  } else if (axes.row == RowAxis::m) {
    a.shape = {e.rows()}, a.strides = {v.pitch()};
  } else if (axes.row == RowAxis::b) {
    if (!images_agree) throw InternalError("an operand's images are not those of the space");
    a.shape = {e.images}, a.strides = {v.image};
  }
  if (axes.col != ColAxis::none) a.shape.push_back(e.cols), a.strides.push_back(v.column);
  return a;
}

PitchedRows packed_rows(const OperandView& v, const Axes& axes, std::int64_t padded_columns) {
  const std::int64_t rows = axes.row == RowAxis::none ? 1 : axes.row == RowAxis::b ? v.images : v.images * v.rows;
  const bool columns = axes.col != ColAxis::none;
  return {rows, columns ? v.columns : 1, columns ? padded_columns : 1};
}

std::optional<PitchedRows> pitched_rows(const OperandView& v, const Axes& axes) {
  if (axes.col != ColAxis::none && v.columns > 1 && v.column != 1) return std::nullopt;
  if (axes.row == RowAxis::m && !v.is_uniform()) return std::nullopt;
  PitchedRows p = packed_rows(v, axes, v.columns);
  if (axes.row != RowAxis::none) p.pitch = axes.row == RowAxis::b ? v.image : v.pitch();
  return p;
}

std::vector<float> packed_elements(const float* elements, const OperandView& v, const Axes& axes,
                                   std::int64_t padded_columns) {
  const PitchedRows p = packed_rows(v, axes, padded_columns);
  const std::int64_t per_image = axes.row == RowAxis::m ? v.rows : 1;
  std::vector<float> packed(static_cast<std::size_t>(p.rows * p.pitch));
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t column = 0; column < p.columns; ++column)
      packed[static_cast<std::size_t>(row * p.pitch + column)] =
          elements[v.at(row / per_image, row % per_image, column)];
  return packed;
}

}  // namespace unisono::network
