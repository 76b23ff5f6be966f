#pragma once
/// Elements of a tensor in another order, as reshapes, permutes, ranges and broadcasts leave them, without a copy.

#include <cstdint>
#include <optional>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// A run along an axis of a tensor: `extent` elements, `step` elements apart. No axis: the same elements again.
struct ViewPiece {
  int axis = -1;
  std::int64_t step = 0;
  Dim extent = 1;
  bool operator==(const ViewPiece&) const = default;
};

/// A tensor in other axes. Each is a list of pieces, the outer ones first: none if its extent is 1, several if axes
/// that do not follow one another in the tensor were joined.
struct ElementView {
  TensorId base = 0;
  std::vector<std::int64_t> begin;  ///< by axis of the tensor
  std::vector<std::vector<ViewPiece>> axes;
};

/// The tensor as it is.
ElementView whole_view(TensorId id, const Shape& shape);

/// The pieces of several axes as those of one.
std::vector<ViewPiece> joined_pieces(const std::vector<std::vector<ViewPiece>>& axes);

/// The view through an operator that moves elements, to a result of this shape; nothing if it is none, or there is no
/// view of what it makes.
std::optional<ElementView> through(const Network& network, const Operator& op, const ElementView& view);

/// The same elements in the same order, in other axes.
std::optional<ElementView> in_shape(const ElementView& view, const Shape& shape);
/// Axis i is axis order[i] of `view`.
ElementView permuted(const ElementView& view, const std::vector<int>& order);
/// Broadcast to a shape, which `from` is that of the view.
ElementView broadcast(const ElementView& view, const Shape& from, const Shape& to);

}  // namespace unisono::network
