#pragma once
/// The operators of unisono/network/tensor_operators.hpp in float64. Integers are exact: they wrap as their type does;
/// one that no f64 is makes the reference refuse (Unsupported).

#include "reference/network/index.hpp"
#include "unisono/network.hpp"

namespace unisono::float64 {

Tensor64 evaluate_tensors(const operators::Map& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Reduce& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::ArgReduce& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Slice& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Gather& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Tile& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::DepthToSpace& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::ReshapeLike& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::ShapeOf& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::MatMul& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Conv3d& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::FilterGradient& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::PoolNd& o, const ReferenceInputs& in);
// resample.cpp
Tensor64 evaluate_tensors(const operators::Resample& o, const ReferenceInputs& in);
// indices.cpp
Tensor64 evaluate_tensors(const operators::GatherElements& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::GatherND& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::ScatterElements& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::ScatterND& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Range& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::Triangle& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::CumulativeSum& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::TopK& o, const ReferenceInputs& in);
Tensor64 evaluate_tensors(const operators::GridSample& o, const ReferenceInputs& in);
// recurrence.cpp
Tensor64 evaluate_tensors(const operators::Recurrence& o, const ReferenceInputs& in);

/// The shape that the network infers for these inputs.
Extents64 inferred_shape(const OperatorKind& kind, const ReferenceInputs& in);

/// An integer result, exact in f64, as its type wraps it; Unsupported for one that no f64 is.
double as_integer(double x, DType t);

/// Pad with edge, reflect and wrap.
Tensor64 pad_repeating(const operators::Pad& o, const Tensor64& x);

}  // namespace unisono::float64
