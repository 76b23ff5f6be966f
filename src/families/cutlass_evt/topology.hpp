#pragma once
/// Visitors as a tree, with a topological visitor around just the part between where a value branches and where its
/// users meet again.

#include <vector>

#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

/// A leaf; an EVT, whose operation is `visitor` and whose inputs are `children`; or a topological visitor of `items`,
/// the last of which is `visitor` by itself, where item i reads those that edges[i] lists.
struct Tree {
  int visitor = 0;
  std::vector<Tree> children = {};
  std::vector<Tree> items = {};
  std::vector<std::vector<int>> edges = {};

  bool is_topological() const { return !items.empty(); }
};

/// The tree of all visitors, which gives D.
Tree tree_of(const Visitors& visitors);

}  // namespace unisono::families::cutlass_evt
