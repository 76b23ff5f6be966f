#include "gradients/values.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "unisono/error.hpp"

namespace unisono::autodiff {

Extents64 extents_of(NetworkValue x) {
  Extents64 extents;
  for (const Dim& d : x.shape()) {
    if (!d.known()) throw InternalError("gradients: the shape of '" + x.tensor().name + "' is " + to_string(x.shape()));
    extents.push_back(d.value());
  }
  return extents;
}

std::int64_t elements_of(const Extents64& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

NetworkValue shaped(NetworkValue x, const Extents64& shape) {
  if (extents_of(x) == shape) return x;
  return x.builder().apply(operators::Reshape{.shape = shape, .literal = true}, {x});
}

NetworkValue repeated_as(NetworkValue x, NetworkValue like) {
  if (extents_of(x) == extents_of(like)) return x;
  return x.builder().apply(operators::Expand{}, {x, like});
}

NetworkValue summed_to(NetworkValue x, const Extents64& shape) {
  const Extents64 from = extents_of(x);
  if (from == shape) return x;
  std::vector<int> axes;
  const std::size_t added = from.size() - shape.size();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (i < added || (shape[i - added] == 1 && from[i] != 1)) axes.push_back(static_cast<int>(i));
  return shaped(axes.empty() ? x : reduced(ReduceOp::sum, x, axes), shape);
}

NetworkValue reduced(ReduceOp op, NetworkValue x, std::vector<int> axes, bool keep) {
  return x.builder().apply(operators::Reduce{.op = op, .axes = std::move(axes), .keep = keep}, {x});
}

std::int64_t left_over(std::int64_t padded, std::int64_t taps, std::int64_t dilation, std::int64_t stride) {
  return (padded - dilation * (taps - 1) - 1) % stride;
}

Surplus surplus_of(std::int64_t output_pad, std::int64_t stride, std::int64_t after) {
  const std::int64_t more = output_pad / stride * stride, less = std::min(more, after);
  return {less, more - less};
}

NetworkValue range_of(NetworkValue x, int axis, std::int64_t begin, std::int64_t end) {
  if (begin == 0 && x.shape()[static_cast<std::size_t>(axis)] == Dim(end)) return x;
  return x.builder().apply(operators::Slice{.starts = {begin}, .ends = {end}, .steps = {1}, .axes = {axis}}, {x});
}

NetworkValue reversed(NetworkValue x, int axis) {
  return x.builder().apply(
      operators::Slice{
          .starts = {-1}, .ends = {std::numeric_limits<std::int64_t>::min()}, .steps = {-1}, .axes = {axis}},
      {x});
}

NetworkValue filled(NetworkBuilder& net, const Extents64& shape, double value) {
  const NetworkValue one = net.constant("element", Shape(shape.size(), Dim(1)), {static_cast<float>(value)});
  return elements_of(shape) == 1 ? one : net.apply(operators::Tile{.repeats = shape}, {one});
}

NetworkValue zeros(NetworkBuilder& net, const Extents64& shape) { return filled(net, shape, 0); }

NetworkValue mapped(MapOp op, const std::vector<NetworkValue>& x) {
  return x[0].builder().apply(operators::Map{.op = op}, x);
}

NetworkValue transposed(NetworkValue x) {
  std::vector<int> order(x.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

NetworkValue multiplied_along(NetworkValue x, std::size_t axis, const std::vector<float>& matrix,
                              std::int64_t columns) {
  NetworkBuilder& net = x.builder();
  const std::size_t rank = x.shape().size();
  const std::int64_t rows = extents_of(x)[axis];
  const NetworkValue m = net.constant("taps", {Dim(rows), Dim(columns)}, matrix);
  if (axis + 1 == rank) {
    if (rank >= 2) return net.apply(operators::MatMul{}, {x, m});
    return shaped(net.apply(operators::MatMul{}, {shaped(x, {1, rows}), m}), {columns});
  }
  if (axis + 2 == rank) return net.apply(operators::MatMul{}, {transposed(m), x});
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order[rank - 1]);
  return transpose(net.apply(operators::MatMul{}, {transpose(x, order), m}), order);
}

}  // namespace unisono::autodiff
