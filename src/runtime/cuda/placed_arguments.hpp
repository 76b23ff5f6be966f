#pragma once
/// Operands and results that do not lie as the output does: where their elements are.

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "unisono/contraction.hpp"
#include "unisono/tensor.hpp"

namespace unisono::cuda {

/// A tensor of shape_mn, or an operand that lacks some coordinates of rows.
struct Placed {
  ConstTensorView view;
  Axes axes;
  RowCoordinates rows{};
};

/// Shape in memory of the operand of an operand_pointer field.
std::vector<std::int64_t> operand_shape(const codegen::Field& operand, const Contraction& contraction);

/// What is bound to it; of a single product a batch of one.
ConstTensorView in_memory(const ConstTensorView& given, const codegen::Field& operand, const Contraction& contraction);

/// Elements from one image (b), image row (h), pixel (w) or column (n) to the next.
std::uint64_t step_of(const Placed& tensor, Coordinate along, const Contraction& contraction);

/// Whether eight neighbouring columns, the first a multiple of eight, are one load.
bool loads_vectors(const Placed& tensor, const Contraction& contraction);

/// Throws UserError for another shape or dtype, strides below 0 and an address that is not aligned to an element.
void check_strided(const ConstTensorView& view, const std::vector<std::int64_t>& shape, DType dtype,
                   const std::string& what);

/// The same of an operand; one that is not declared strided is dense. Values of rows are at most 2^31 elements apart.
void check_placed(const ConstTensorView& view, const codegen::Field& operand, const std::vector<std::int64_t>& shape,
                  const std::string& what);

/// Throws UserError if two elements of a result are the same memory.
void check_distinct_elements(const ConstTensorView& view, const std::string& what);

}  // namespace unisono::cuda
