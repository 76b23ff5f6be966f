#include "runtime/cuda/tensor_checks.hpp"

#include <fmt/format.h>

#include "runtime/common/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

using runtime::shape_string;

std::vector<std::int64_t> shape_of(const Axes& a, const Contraction& contraction) {
  if (a == axes::mn) return shape_mn(contraction);
  const Extents e = extents(contraction);
  std::vector<std::int64_t> shape;
  if (a.row != RowAxis::none) shape.push_back(a.row == RowAxis::m ? e.rows() : e.images);
  if (a.col != ColAxis::none) shape.push_back(a.col == ColAxis::n ? e.cols : a.groups);
  return shape;
}

void check_tensor(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                  std::size_t alignment, const std::string& what, bool apart) {
  std::vector<DType> dtypes{dtype};
  if (dtype == DType::f32) dtypes.push_back(DType::tf32);  // stored alike
  const auto strides = runtime::checked_strides(view, shape, dtypes, what);
  const auto dense = row_major_strides(shape);
  if (apart && (strides[0] < dense[0] || (strides[0] != dense[0] && strides[0] % 8 != 0)))
    throw UserError(fmt::format(
        "{} was given {} elements from one matrix to the next; expected a multiple of 8 from {} on, or none "
        "for a dense tensor. If all products share it, fold the batch into m",
        what, strides[0], dense[0]));
  for (std::size_t i = apart ? 1 : 0; i < shape.size(); ++i)
    if (shape[i] > 1 && strides[i] != dense[i])
      throw UserError(
          fmt::format("{} was given strides {} for shape {}; the kernels read and write dense tensors, "
                      "strides {}: make a dense copy",
                      what, shape_string(strides), shape_string(shape), shape_string(dense)));
  if (const auto address = reinterpret_cast<std::uintptr_t>(view.data); address % alignment != 0)
    throw UserError(
        fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes", what, address, alignment));
}

std::int64_t check_rows(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                        std::size_t alignment, const std::string& what) {
  const std::size_t rank = shape.size();
  const auto& strides = view.strides;
  bool rows = rank >= 2 && strides.size() == rank && view.shape == shape && strides[rank - 1] == 1 &&
              strides[rank - 2] > shape[rank - 1];
  for (std::size_t i = 0; rows && i + 2 < rank; ++i)
    rows = shape[i] == 1 || strides[i] == strides[i + 1] * shape[i + 1];
  if (!rows) return check_tensor(view, shape, dtype, alignment, what), 0;
  const std::int64_t pitch = strides[rank - 2], unit = static_cast<std::int64_t>(alignment / size_of(dtype));
  if (pitch % unit != 0)
    throw UserError(fmt::format("{} was given rows {} elements apart; expected a multiple of {} bytes, {} elements",
                                what, pitch, alignment, unit));
  ConstTensorView dense = view;  // all else as of any tensor
  dense.strides.clear();
  check_tensor(dense, shape, dtype, alignment, what);
  return pitch;
}

}  // namespace unisono::cuda
