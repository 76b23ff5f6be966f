#pragma once
/// Gradients of normalisations over groups of channels: sums over pixels in one pass, and what follows from them.

#include <vector>

#include "products/kernel.hpp"
#include "unisono/params/norm_gradient_params.cuh"

namespace unisono::products {

/// Tensors (N,C,H,W) channels last: the normalisation's input x, the gradient g of its result, and y, that of x.
/// `extents`: pitches, images, pixels, channels, groups, eps (the rest is completed, addresses are not read).
struct NormGradientProblem {
  NormGradientParams extents{};
  DType x = DType::bf16, g = DType::bf16, y = DType::bf16;
};

/// Three launches with the same parameters, in their order.
struct NormGradientKernels {
  Kernel sums, factors, input;
  std::int64_t partial_bytes = 0, factor_bytes = 0, vector_bytes = 0;
};

NormGradientKernels norm_gradient(NormGradientProblem& problem, const plan::Device& device);

/// The gradient of a scale or shift, or the sums of y over all but channels, in this type.
Kernel norm_gradient_of_vector(std::uint32_t channels, DType type);

/// Problems of which norm_gradient() makes every kernel that it has; some of them twice.
std::vector<NormGradientProblem> norm_gradient_space();

}  // namespace unisono::products
