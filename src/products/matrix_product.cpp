#include "products/matrix_product.hpp"

#include <fmt/format.h>

#include "codegen/pieces.hpp"
#include "support/checked.hpp"

namespace unisono::products {

namespace {

constexpr std::uint32_t tile = 64, depth = 32;

// How an operand's tile lies in shared memory (kernels/unisono/product/matrix_product.cuh)
struct Lines {
  bool along = true, together = true;  // its lines run along the depth; they lie together in memory
  std::uint32_t bytes() const { return along ? tile * (depth + 8) * 2 : depth * (tile + 8) * 2; }
  std::string text() const {
    return fmt::format("product::OperandShape<{}, product::Lines::{}>", along, together ? "together" : "anyhow");
  }
};

// `line`: from row to row of a, or column to column of b; `step`: along the depth
Lines lines_of(const BatchedMatrix& m, std::int64_t first, std::int64_t line, std::int64_t step) {
  if (lies_together(m, first, line, step)) return {};
  if (lies_together(m, first, step, line)) return {.along = false};
  return {.together = false};
}

}  // namespace

Kernel matrix_product(MatrixProduct& product) {
  MatrixProductParams& p = product.extents;
  p.row_tiles = (p.rows + tile - 1) / tile, p.column_tiles = (p.columns + tile - 1) / tile;
  const Lines a = lines_of(p.a, product.a_first, p.a.row, p.a.column),
              b = lines_of(p.b, product.b_first, p.b.column, p.b.row);
  Kernel k;
  k.entry = "unisono_matrix_product";
  k.source =
      source_of("matrix_product.cuh", k.entry, "MatrixProductParams",
                fmt::format("matrix_product<{}, {}, {}>", codegen::element_name(product.element), a.text(), b.text()));
  k.ctas = (support::Checked("CTAs of a product", std::int64_t{count(p.batches)}) * std::int64_t{p.row_tiles} *
            std::int64_t{p.column_tiles})
               .to<std::uint32_t>();
  k.shared_bytes = 2 * (a.bytes() + b.bytes());
  k.how = fmt::format("product kernel, mma.sync, tiles of {}x{}{}, {} CTAs", tile, tile,
                      a.together && b.together ? "" : ", gathered", k.ctas);
  return k;
}

// Kernels differ by how each operand lies: its rows together, its columns, or neither
std::vector<MatrixProduct> matrix_product_space() {
  std::vector<MatrixProduct> all;
  static constexpr std::int64_t strides[][2] = {{tile, 1}, {1, tile}, {tile, 2}};
  for (const DType element : {DType::bf16, DType::f16})
    for (const auto& a : strides)
      for (const auto& b : strides) {
        MatrixProduct product{.element = element};
        MatrixProductParams& p = product.extents;
        p.batches = {{1, 1, 1, 1}};
        p.rows = p.columns = p.depth = tile;
        p.a.row = a[0], p.a.column = a[1], p.b.row = b[0], p.b.column = b[1];
        all.push_back(product);
      }
  return all;
}

}  // namespace unisono::products
