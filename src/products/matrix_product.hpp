#pragma once
/// Products of two batches of matrices: c = a b.

#include <vector>

#include "products/kernel.hpp"

namespace unisono::products {

/// A product of these extents and strides (`extents.row_tiles`, `column_tiles` and addresses are not read); `a_first`,
/// `b_first`: see lies_together().
struct MatrixProduct {
  MatrixProductParams extents{};
  std::int64_t a_first = 0, b_first = 0;
  DType element = DType::bf16;
};

/// The kernel; sets the numbers of tiles in `extents`, which it is launched with.
Kernel matrix_product(MatrixProduct& product);

/// Products of which matrix_product() makes every kernel that it has.
std::vector<MatrixProduct> matrix_product_space();

}  // namespace unisono::products
