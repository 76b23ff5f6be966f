#pragma once
/// Gradients of a convolution's filter by the matrix instructions of a warpgroup, of tiles that TMA loads (sm_90a).

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "products/filter_gradient.hpp"
#include "unisono/params/sm90_filter_gradient_params.cuh"

namespace unisono::products {

/// A tensor of pixels in memory, the channels first, and what a load takes of it, as TMA is told.
struct PixelMap {
  int rank = 4;
  std::array<std::uint64_t, 4> extents{};  ///< elements
  std::array<std::uint64_t, 3> strides{};  ///< bytes; of the extents from the second on
  std::array<std::uint32_t, 4> box{};      ///< rows of 128 bytes, swizzled
  bool im2col = false;                     ///< or `pixels` consecutive ones, whose place is bounded by the corners
  std::array<int, 2> lower{}, upper{};     ///< along a row, and along a column
  std::uint32_t pixels = 0;
  std::array<std::uint32_t, 4> steps{1, 1, 1, 1};

  /// As a families::MapShape, which this folder does not know.
  template <class Shape>
  Shape as() const {
    Shape shape{.rank = rank, .im2col = im2col, .channels = box[0], .pixels = pixels, .swizzle_bytes = 128};
    std::copy(extents.begin(), extents.end(), shape.extents.begin());
    std::copy(strides.begin(), strides.end(), shape.strides.begin());
    std::copy(box.begin(), box.end(), shape.box.begin());
    std::copy(lower.begin(), lower.end(), shape.lower.begin());
    std::copy(upper.begin(), upper.end(), shape.upper.begin());
    std::copy(steps.begin(), steps.end(), shape.steps.begin());
    return shape;
  }
};

/// How tiles are loaded and shared out (kernels/unisono/product/sm90_filter_gradient.cuh).
struct Sm90FilterGradientPlan {
  bool halo = false;
  int groups = 3, slabs = 3;  ///< warpgroups that multiply, and slabs of each
  int whole = 0;              ///< tiles that a CTA sums by itself
  int parts = 1;              ///< into which each other is cut
  double clocks = 0;          ///< predicted
  int threads() const { return 128 * (groups + 1); }
  int rows() const { return halo ? 64 : 64 * groups; }
  int tile_slabs() const { return halo ? groups * slabs : slabs; }
  int stage_bytes() const;
  int stages(const plan::Device& device) const;
};

/// Why TMA cannot load the problem's operands, or this is no device for it.
std::optional<plan::Refusal> refuse_sm90_filter_gradient(const FilterGradientProblem& problem,
                                                         const plan::Device& device);

/// Those of a problem that is not refused, the fastest predicted first.
std::vector<Sm90FilterGradientPlan> sm90_filter_gradient_plans(const FilterGradientProblem& problem,
                                                               const plan::Device& device);

/// Kernels that take Sm90FilterGradientParams; `parameters` has all but the maps of x and of g, and addresses.
struct Sm90FilterGradientKernels {
  Kernel sums;
  std::optional<Kernel> addition;
  std::int64_t partial_bytes = 0;
  Sm90FilterGradientParams parameters{};
  PixelMap image, gradient;
};
Sm90FilterGradientKernels sm90_filter_gradient(const FilterGradientProblem& problem, const Sm90FilterGradientPlan& plan,
                                               const plan::Device& device);

/// Plans of every kernel that sm90_filter_gradient() makes of a problem, and of its additions.
std::vector<Sm90FilterGradientPlan> sm90_filter_gradient_space();

}  // namespace unisono::products
