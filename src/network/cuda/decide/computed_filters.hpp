#pragma once
/// Filters, matrices and images that are no constants, as kernels of families read them.

#include <optional>

#include "network/cuda/decide/region_plan.hpp"
#include "plan/expected.hpp"

namespace unisono::network::gpu {

/// Which filter, and the order in which the kernel reads it: (filters, taps, channels), or of a transposed convolution
/// (channels, taps, filters).
struct FilterOrder {
  TensorId filter{};
  Sizes extents;             ///< what the kernel reads of the three, padded with zeros
  Sizes own, strides;        ///< what the tensor has of them, and where it lies in it, in elements
  std::vector<int> columns;  ///< where the last of the three lies, if not at multiples of its stride
};

/// `padded`: the convolution that the kernel is asked for; `channels`, `filters`: without padding.
FilterOrder order_of(const PlanningInput& in, const Operator& op, const Contraction& given, const Conv2d& padded,
                     bool im2col);

/// Whether a product reads the matrix (k,n) as it lies.
bool reads_columns(const PlanningInput& in, const NetworkPlan& plan, const Operator& op, const Conv2d& padded);

/// The launches that make an image with further channels of zeros. Their second argument has no location yet.
plan::Expected<TensorLaunches> padded_image(const PlanningInput& in, TensorId image, std::int64_t channels);

/// The launches that pack it: nothing if it lies as the kernel reads it. Their second argument has no location yet.
plan::Expected<std::optional<TensorLaunches>> packing_of(const PlanningInput& in, const NetworkPlan& plan,
                                                         const FilterOrder& order);

}  // namespace unisono::network::gpu
