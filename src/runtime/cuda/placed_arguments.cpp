#include "runtime/cuda/placed_arguments.hpp"

#include <fmt/format.h>

#include <limits>
#include <variant>

#include "ir/batch_view.hpp"
#include "ir/row_coordinates.hpp"
#include "runtime/common/views.hpp"
#include "runtime/cuda/tensor_checks.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

constexpr std::size_t vector_bytes = 16;  // of the widest load

std::vector<std::int64_t> strides_of(const ConstTensorView& view) {
  return view.strides.empty() ? row_major_strides(view.shape) : view.strides;
}

bool has_planes(const Contraction& contraction) {
  return std::visit(
      [](const auto& of) {
        if constexpr (requires { of.layout; }) return of.layout == Layout::nchw;
        return false;
      },
      contraction);
}

ir::RowSteps steps_of(const Placed& tensor, const Contraction& contraction) {
  const auto s = strides_of(tensor.view);
  if (!(tensor.axes == axes::mn) || tensor.rows != RowCoordinates::all)
    return ir::operand_steps(tensor.axes, tensor.rows, s, extents(contraction));
  if (s.size() == 3) return {s[0], s[1], 0, s[2]};  // a product's: an image is a matrix, an image row its row
  if (has_planes(contraction)) return {s[0], s[2], s[3], s[1]};
  return {s[0], s[1], s[2], s[3]};
}

}  // namespace

std::vector<std::int64_t> operand_shape(const codegen::Field& operand, const Contraction& contraction) {
  if (operand.rows == RowCoordinates::all) return shape_of(operand.axes, contraction);
  return ir::operand_shape(operand.axes, operand.rows, extents(contraction));
}

ConstTensorView in_memory(const ConstTensorView& given, const codegen::Field& operand, const Contraction& contraction) {
  return operand.rows == RowCoordinates::all ? ir::in_batch(given, operand_shape(operand, contraction)) : given;
}

std::uint64_t step_of(const Placed& tensor, Coordinate along, const Contraction& contraction) {
  const ir::RowSteps steps = steps_of(tensor, contraction);
  switch (along) {
    case Coordinate::b: return static_cast<std::uint64_t>(steps.image);
    case Coordinate::h: return static_cast<std::uint64_t>(steps.row);
    case Coordinate::w: return static_cast<std::uint64_t>(steps.pixel);
    default: return static_cast<std::uint64_t>(steps.column);
  }
}

bool loads_vectors(const Placed& tensor, const Contraction& contraction) {
  const ir::RowSteps s = steps_of(tensor, contraction);
  return s.column == 1 && s.image % 8 == 0 && s.row % 8 == 0 && s.pixel % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(tensor.view.data) % vector_bytes == 0;
}

void check_strided(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                   const std::string& what) {
  std::vector<DType> dtypes{dtype};
  if (dtype == DType::f32) dtypes.push_back(DType::tf32);  // stored alike
  runtime::checked_strides(view, shape, dtypes, what);
  if (const auto address = reinterpret_cast<std::uintptr_t>(view.data); address % size_of(dtype) != 0)
    throw UserError(
        fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes", what, address, size_of(dtype)));
}

void check_placed(const ConstTensorView& view, const codegen::Field& operand, const std::vector<std::int64_t>& shape,
                  const std::string& what) {
  if (operand.strided)
    check_strided(view, shape, operand.dtype, what);
  else
    check_tensor(view, shape, operand.dtype, size_of(operand.dtype), what);
  if (operand.axes == axes::mn) return;
  std::int64_t last = 0;
  const auto strides = strides_of(view);
  for (std::size_t i = 0; i < strides.size(); ++i) last += (view.shape[i] - 1) * strides[i];
  if (last > std::numeric_limits<std::int32_t>::max())
    throw UserError(
        fmt::format("{} was given strides that reach over {} elements; kernels count the values of rows to 2^31: lay "
                    "them closer",
                    what, last));
}

void check_distinct_elements(const ConstTensorView& view, const std::string& what) {
  runtime::check_distinct(view, strides_of(view), what);
}

}  // namespace unisono::cuda
