#pragma once
/// Contractions as the convolution kernels see them.

#include "coda/contraction.hpp"

namespace coda::plan {

/// The convolution that computes a contraction: itself, or for a product A·Bᵀ, with A (1, m, k) and B (1, n, k), the
/// 1x1 convolution of one line of m pixels with k channels and n filters; operands and results lie alike in memory.
/// Throws Unsupported with every reason for other layouts of a product, for batches, and for transposed convolutions.
Conv2d as_convolution(const Contraction& contraction);

}  // namespace coda::plan
