#pragma once
/// Reading strided memory of any dtype into dense float64.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::reference {

/// A checked view: one stride (in elements) for each extent.
struct Strided {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> extent;
  std::vector<std::int64_t> stride;

  /// The same memory with its dimensions in another order: dimension i of the result is order[i] of this.
  Strided permuted(std::span<const int> order) const;
  Strided permuted(std::initializer_list<int> order) const { return permuted(std::span(order.begin(), order.size())); }
  /// Dimension `dim` as two, the first of extent `outer`.
  Strided split(int dim, std::int64_t outer) const;
};

/// Checks `view` against `shape`, of which a matrix may lack the batch of one. Throws UserError that starts with `what`
/// for another shape, strides that do not fit, a null pointer or a reserved dtype.
Strided checked(const ConstTensorView& view, const std::vector<std::int64_t>& shape, std::string_view what);

/// All elements in row-major order of the view's dimensions, exactly as stored.
std::vector<double> gather(const Strided& view);
void gather(const Strided& view, double* out);

}  // namespace unisono::reference
