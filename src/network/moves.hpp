#pragma once
/// Operators that give elements other places, and what becomes of several that follow one another (internal).

#include <cstdint>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::network {

/// Whether the tensors have the same type and extents that are numbers, none of them 0, and the first is no constant:
/// an operator between them may move elements and do nothing else.
bool may_be_moved(const Network& network, TensorId from, TensorId to);

/// Whether the operator's result is its input, element by element, and may be read in its place.
bool stays_in_place(const Network& network, const Operator& op);

/// Whether the operator gives every element of its input another place: a reshape or permute, or what moves nothing.
bool joins_moves(const Network& network, const Operator& op);

/// By tensor: of rank 4 and made or read as an image, with its channels innermost in memory, not as matrices.
std::vector<bool> images_among(const Network& network);

/// Moves one after the other, appended to a network, the last of which makes the tensor `to`.
class MoveChain {
 public:
  MoveChain(Network& network, TensorId from, TensorId to);

  void reshape(const std::vector<std::int64_t>& shape);  ///< nothing if it has that shape
  void permute(const std::vector<int>& order);
  void gather(int axis, const std::vector<std::int64_t>& places);  ///< operators::Gather with constant indices
  /// The shape of `to`; as an image, of the order in which its elements lie in memory.
  void end(bool image);

 private:
  void push(OperatorKind kind, std::vector<TensorId> others, std::vector<std::int64_t> made);

  Network& n_;
  TensorId to_, last_;
  std::vector<std::int64_t> shape_;
  bool is_begun_ = false;
};

/// Vectors that are reshaped to (C,1,1) beside an image are reshaped to (1,C,1,1), which is a view.
Network vectors_of_columns(const Network& network);

/// Pointwise operators on a contraction's result that was moved are computed before that, where they can be part of
/// the contraction's epilogue.
Network points_before_moves(const Network& network);

/// Slices and concatenations of one tensor's pixels, as rolls, windows and merged patches are written, become a gather.
Network gathered_pixels(const Network& network);

/// Moves that follow one another become at most one permute of the axes as they lie in memory, between reshapes that
/// are views.
Network joined_moves(const Network& network);

/// Products by the transpose of a matrix that is computed, or given, read that matrix.
Network turned_matrices(const Network& network);

}  // namespace unisono::network
