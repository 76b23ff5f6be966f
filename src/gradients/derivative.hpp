#pragma once
/// Derivatives of the operators of networks, one file a kind.

#include <optional>
#include <string>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::autodiff {

/// An operator of a network, and the gradient of its result.
struct Use {
  NetworkBuilder& net;
  std::string where;  ///< "conv2d 'down.0'"
  std::vector<NetworkValue> in;
  NetworkValue out;
  NetworkValue gradient;     ///< the loss's with respect to `out`, with its shape
  std::vector<bool> wanted;  ///< by input
};

/// By input: the gradient with respect to it, of its shape; none where the result does not change with it, or where it
/// is not wanted.
using InputGradients = std::vector<std::optional<NetworkValue>>;

/// Appends what computes the gradients of the inputs that are wanted. Throws Unsupported for an operator that has no
/// derivative with respect to one of these.
InputGradients derivative(const OperatorKind& kind, const Use& use);

/// Refuses: "node: reason".
[[noreturn]] void refuse_derivative(const Use& use, const std::string& reason);

// elementwise.cpp
InputGradients derivative_of(const operators::Elementwise& e, const Use& use);
InputGradients derivative_of(const operators::Map& m, const Use& use);
// convolutions.cpp
InputGradients derivative_of(const operators::Conv2d& c, const Use& use);
InputGradients derivative_of(const operators::ConvTranspose2d& c, const Use& use);
// volumes.cpp
InputGradients derivative_of(const operators::Conv3d& c, const Use& use);
// products.cpp
InputGradients derivative_of(const operators::Gemm& g, const Use& use);
InputGradients derivative_of(const operators::MatMul& m, const Use& use);
// normalisations.cpp
InputGradients derivative_of(const operators::Normalisation& n, const Use& use);
InputGradients derivative_of(const operators::BatchNorm& b, const Use& use);
InputGradients derivative_of(const operators::Softmax& s, const Use& use);
// pools.cpp
InputGradients derivative_of(const operators::Pool2d& p, const Use& use);
InputGradients derivative_of(const operators::PoolNd& p, const Use& use);
InputGradients derivative_of(const operators::GlobalAveragePool& p, const Use& use);
// resizes.cpp
InputGradients derivative_of(const operators::Resize& r, const Use& use);
InputGradients derivative_of(const operators::Resample& r, const Use& use);
// moves.cpp
InputGradients derivative_of(const operators::Concat& c, const Use& use);
InputGradients derivative_of(const operators::Pad& p, const Use& use);
InputGradients derivative_of(const operators::Slice& s, const Use& use);
InputGradients derivative_of(const operators::Reshape& r, const Use& use);
InputGradients derivative_of(const operators::Flatten& f, const Use& use);
InputGradients derivative_of(const operators::ReshapeLike& r, const Use& use);
InputGradients derivative_of(const operators::Transpose& t, const Use& use);
InputGradients derivative_of(const operators::Expand& e, const Use& use);
InputGradients derivative_of(const operators::Identity& i, const Use& use);
InputGradients derivative_of(const operators::Tile& t, const Use& use);
InputGradients derivative_of(const operators::DepthToSpace& d, const Use& use);
InputGradients derivative_of(const operators::Triangle& t, const Use& use);
// reductions.cpp
InputGradients derivative_of(const operators::Reduce& r, const Use& use);
InputGradients derivative_of(const operators::CumulativeSum& c, const Use& use);
// gathers.cpp
InputGradients derivative_of(const operators::Gather& g, const Use& use);
InputGradients derivative_of(const operators::GatherElements& g, const Use& use);
InputGradients derivative_of(const operators::GatherND& g, const Use& use);
InputGradients derivative_of(const operators::ScatterElements& s, const Use& use);
InputGradients derivative_of(const operators::ScatterND& s, const Use& use);
// recurrences.cpp
InputGradients derivative_of(const operators::Recurrence& r, const Use& use);
// grid_samples.cpp
InputGradients derivative_of(const operators::GridSample& s, const Use& use);

}  // namespace unisono::autodiff
