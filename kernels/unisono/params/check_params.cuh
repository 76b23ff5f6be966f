// Parameters of the kernels of check/check.cuh. Plain structs, the same to the host's compiler.
#pragma once
#include "unisono/params/element_codes.cuh"
#include "unisono/params/params.cuh"

namespace unisono {

struct FillParams {
  void* to;
  u64 count;  // elements
  u64 seed;
  float scale, offset;
  ElementCode type;  // none: words of 16 bits, all ones
};

// Accumulators of the rows first_row, first_row + 1, … of a contraction, as include/unisono/contraction.hpp defines it,
// row-major over rows and outputs: the sums, and the sums of the absolute values.
struct SumsParams {
  const void *a, *b;
  double *sum, *absolute;
  u64 first_row, rows;
  int height, width, channels, outputs;  // of all groups; of a product: 1, its depth
  int out_height, out_width;             // of a product: m and 1
  int taps_h, taps_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
  // Volumes, whose output's planes are counted in out_height; of an image: 1 plane, 1 tap, stride and dilation 1, pad
  // 0, and plane_height is out_height.
  int depth, taps_d, stride_d, pad_d, dilation_d, plane_height;
  int planes, transposed;             // convolutions: channels first; transposed
  int product, columns_a, columns_b;  // products: A is (k, m), B is (k, n)
  ElementCode type;                   // of elements
};

}  // namespace unisono
