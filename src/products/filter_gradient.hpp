#pragma once
/// Gradients of a convolution's filter: sums of products over all pixels, in parts that are added in their order.

#include <vector>

#include "products/kernel.hpp"
#include "unisono/params/filter_gradient_params.cuh"

namespace unisono::products {

/// Extents and steps (what the functions below complete, and addresses, are not read). `x_first`,
/// `g_first`, `result_first`: bytes from a multiple of 16 to the first element.
struct FilterGradientProblem {
  FilterGradientParams extents{};
  std::int64_t taps = 1;
  std::int64_t x_first = 0, g_first = 0, result_first = 0;
  DType element = DType::bf16;
  bool f32 = false;  ///< the result; else it is of the element
};

/// A CTA's tile of filters by columns, and in how many parts the pixels are summed.
struct FilterGradientPlan {
  int rows = 128, columns = 128;
  int parts = 1;
  double clocks = 0;  ///< predicted
};

/// Those of the problem, whose `tap_columns` and `columns` this completes, the fastest predicted first.
std::vector<FilterGradientPlan> filter_gradient_plans(FilterGradientProblem& problem, const plan::Device& device);

/// A launch with the problem's extents, and perhaps another that adds its parts.
struct FilterGradientKernels {
  Kernel sums;
  std::optional<Kernel> addition;
  std::int64_t partial_bytes = 0;
};

/// The kernels of a plan; completes `extents`, with which both are launched.
FilterGradientKernels filter_gradient(FilterGradientProblem& problem, const FilterGradientPlan& plan,
                                      const plan::Device& device);

/// Problems of which filter_gradient() makes every kernel that it has; some of them twice.
std::vector<FilterGradientProblem> filter_gradient_space();

}  // namespace unisono::products
