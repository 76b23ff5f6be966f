#pragma once
/// Contractions as the convolution kernels see them.

#include <cstdint>
#include <optional>
#include <vector>

#include "unisono/contraction.hpp"

namespace unisono::plan {

/// A convolution, and how operands lie that are not NHWC and KRSC. `conv` is of one filter; `products` counts them.
struct ConvTask {
  Conv2d conv;
  bool columns_a = false;                     ///< A is (k, m): a product with transpose_a
  bool columns_b = false;                     ///< B is (k, n): a product without transpose_b
  bool batched = false;                       ///< as many filters as images: products b = 0, …, of A[b] and B[b]
  int products = 1;                           ///< 2: two filters B alike of one A (Gemm::products, Conv2d::products)
  std::optional<ConvTranspose2d> transposed;  ///< then `conv` has its fields, and no extents of its own
  /// `transposed` by its output's phases: `conv` is of stride 1 and has the taps of one of them.
  bool phases = false;
  /// `transposed`, of stride 1, as a convolution by its filter's taps in reverse: `conv` has the padding of that one.
  bool flipped = false;
  /// `conv` has the planes of volumes, and those of the filter, one below the other: h is D·H and r is T·R. Its stride,
  /// pad and dilation are those within a plane, and it has no extents of its own.
  std::optional<Conv3d> volume;
  std::vector<std::int64_t> group_rows;      ///< Gemm::group_rows of a grouped product: as many filters as groups
  std::optional<FilterGradient2d> gradient;  ///< then `conv` is the convolution whose filter's gradient is asked for

  // NOLINTNEXTLINE(google-explicit-constructor): every convolution is one
  ConvTask(const Conv2d& of) : conv(of), products(of.products) { conv.products = 1; }

  Contraction contraction() const {
    return transposed ? Contraction(*transposed)
           : volume   ? Contraction(*volume)
           : gradient ? Contraction(*gradient)
                      : Contraction(conv);
  }
};

/// The convolution that computes a contraction: itself, or for a product of A (batch, m, k) and B (batch, n, k) the 1x1
/// convolution of images of one line of m pixels with k channels, each with n filters of its own; for volumes of single
/// voxels, stride 1, the 1x1 convolution of all planes as one image. Results lie alike in memory.
ConvTask as_convolution(const Contraction& contraction);

}  // namespace unisono::plan
