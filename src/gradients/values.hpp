#pragma once
/// What derivatives are written with.

#include <cstdint>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::autodiff {

using Extents64 = std::vector<std::int64_t>;

/// All extents of the networks that gradients are written for are numbers.
Extents64 extents_of(NetworkValue x);
std::int64_t elements_of(const Extents64& shape);

/// x with this shape, of as many elements.
NetworkValue shaped(NetworkValue x, const Extents64& shape);
/// x repeated to the shape of `like`, to which it broadcasts.
NetworkValue repeated_as(NetworkValue x, NetworkValue like);
/// The sums of x over the axes along which a tensor of this shape was repeated to that of x.
NetworkValue summed_to(NetworkValue x, const Extents64& shape);
NetworkValue reduced(ReduceOp op, NetworkValue x, std::vector<int> axes, bool keep = true);
/// Elements `begin` to before `end` of an axis.
NetworkValue range_of(NetworkValue x, int axis, std::int64_t begin, std::int64_t end);
NetworkValue reversed(NetworkValue x, int axis);
NetworkValue filled(NetworkBuilder& net, const Extents64& shape, double value);
NetworkValue zeros(NetworkBuilder& net, const Extents64& shape);
NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x);
/// The last two axes exchanged.
NetworkValue transposed(NetworkValue x);
/// Σ_i matrix(i, k)·x(…, i, …) along an axis; `matrix` is row-major with as many rows as the axis has elements.
NetworkValue multiplied_along(NetworkValue x, std::size_t axis, const std::vector<float>& matrix, std::int64_t columns);

/// What a convolution's stride leaves of an axis with its padding: no window reads it.
std::int64_t left_over(std::int64_t padded, std::int64_t taps, std::int64_t dilation, std::int64_t stride);

/// Output padding of a stride or more would make the result of the convolution that leads back from a transposed one
/// too large: padding behind the axis goes that is not needed, then elements that no tap meets.
struct Surplus {
  std::int64_t padding = 0, elements = 0;
};
Surplus surplus_of(std::int64_t output_pad, std::int64_t stride, std::int64_t after);

}  // namespace unisono::autodiff
