// A row times a matrix, summed in f64.
#pragma once

#include "lanes.hpp"

namespace UNISONO_UNIT {

namespace {

using HalfOfFloats = float __attribute__((vector_size(UNISONO_VECTOR_BYTES / 2)));

// sums[j] = Σ_i a[i]·b[i·64 + j] for 64 columns
void row_product(const float* a, const float* b, size_t terms, double* sums) {
  constexpr size_t columns = unisono::cpu::row_product_columns, vectors = 8, width = vectors * lanes_of<D>;
  static_assert(columns % width == 0);
  for (size_t first = 0; first < columns; first += width) {
    D sum[vectors] = {};
    const float* row = b + first;
    for (size_t i = 0; i < terms; ++i, row += columns) {
      const D x = splat<D>(static_cast<double>(a[i]));
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v) {
        HalfOfFloats y;
        __builtin_memcpy(&y, row + v * lanes_of<D>, sizeof y);
        sum[v] = multiply_add(x, __builtin_convertvector(y, D), sum[v]);
      }
    }
    for (size_t v = 0; v < vectors; ++v) store<D>(sums + first + v * lanes_of<D>, sum[v]);
  }
}

}  // namespace

}  // namespace UNISONO_UNIT
