#pragma once
/// Shapes of the operators on tensors of any type.

#include <span>
#include <string>

#include "network/shape_limits.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

inline constexpr std::int64_t largest_step = std::int64_t{1}
                                             << 24;  ///< window, stride, dilation: products stay below 2^63

/// The inputs of one operator, and how errors name it.
struct OperatorInputs {
  std::span<const NetworkTensor* const> tensors;
  const std::string& where;
  const Shape& shape(std::size_t i) const { return tensors[i]->shape; }
};

Shape infer_tensor_shape(const operators::Map& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Reduce& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::ArgReduce& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Gather& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Tile& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::DepthToSpace& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::ReshapeLike& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::ShapeOf& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::MatMul& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Conv3d& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::StackedConv3d& c, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::FilterGradient& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::NormGradient& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::PoolNd& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Resample& k, const OperatorInputs& in);
// infer_indices.cpp
Shape infer_tensor_shape(const operators::Slice& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::GatherElements& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::GatherND& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::ScatterElements& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::ScatterND& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Range& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Triangle& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::CumulativeSum& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::TopK& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::GridSample& k, const OperatorInputs& in);
Shape infer_tensor_shape(const operators::Recurrence& k, const OperatorInputs& in);

/// Common shape of two operands by NumPy's rules.
Shape broadcast_shapes(const Shape& x, const Shape& y, const std::string& where);

/// Where a Slice along an axis of a known extent begins, and how many elements it takes.
struct SliceRange {
  std::int64_t begin = 0, count = 0, step = 1;
};
SliceRange slice_range(std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step);
/// Along axes[i].
SliceRange slice_range(const operators::Slice& s, std::size_t i, std::int64_t extent);

}  // namespace unisono::network
