#pragma once
/// The workbench of a pass: a graph whose nodes can be added and replaced in any order.

#include <optional>
#include <vector>

#include "ir/infer.hpp"
#include "unisono/graph.hpp"

namespace unisono::passes {

/// Edits a copy of a graph. New nodes are appended, so while an edit goes on the order is not topological; finish()
/// sorts.
class Editor {
 public:
  explicit Editor(const Graph& source);

  /// Nodes so far, dead ones included.
  ValueId size() const { return static_cast<ValueId>(graph_.nodes.size()); }
  const Node& operator[](ValueId id) const { return graph_.nodes[id]; }
  const Graph& graph() const { return graph_; }
  bool changed() const { return changed_; }

  /// How many inputs of live nodes, stores and effects refer to the value. A node that was added counts for nothing
  /// before it replaces another.
  int uses(ValueId id) const { return uses_[id]; }
  bool dead(ValueId id) const { return uses_[id] == 0; }
  /// The nodes that read the value, once for each input, dead ones included.
  const std::vector<ValueId>& users(ValueId id) const { return users_[id]; }

  /// Appends a node after inferring its type, if it has one; `requested` is the dtype of a cast.
  std::optional<ValueId> try_add(Op op, std::vector<ValueId> inputs, Attributes attr = {},
                                 std::optional<DType> requested = {});
  /// The same. Throws what ir::infer throws.
  ValueId add(Op op, std::vector<ValueId> inputs, Attributes attr = {}, std::optional<DType> requested = {});
  ValueId constant(double value);
  ValueId extent(Coordinate c);

  /// Lets every user of `old` read `fresh` instead, which must not depend on `old`. They must have the same type; a
  /// constant may stand in for a value whose users allow it (see constant_fits). The name of `old` goes to `fresh` if
  /// that has none.
  void replace(ValueId old, ValueId fresh);

  /// Changes inputs of a node in place; its type must stay.
  void set_inputs(ValueId id, std::vector<ValueId> inputs);

  /// Drops the nodes from `first` on, which nothing may use: for an edit that was tried and given up.
  void roll_back(ValueId first);

  /// True if `value` as a bare constant in the place of `old` leaves the type of every user, and the dtype that its
  /// inputs meet in, unchanged. A constant takes the dtype of what it meets, so this is not always so.
  bool constant_fits(ValueId old, double value) const;

  /// The live nodes in topological order, as close to the order of the source as that allows. If nothing was changed,
  /// the source itself.
  Graph finish() &&;

 private:
  ValueId append(Node node);
  ValueId append(Op op, const ir::Inferred& type, std::vector<ValueId> inputs, Attributes attr);
  void use(ValueId id, int times);
  void release(ValueId id, int times);

  Graph graph_;
  std::vector<int> uses_;
  std::vector<std::vector<ValueId>> users_;
  std::vector<ValueId> pending_;
  bool changed_ = false;
};

/// True if the first two operands of `op` can change places without changing a bit. Not so for min and max, which tell
/// 0 from -0 by position.
bool operands_commute(Op op);

/// Nodes reachable from stores and effects, each after its inputs, otherwise in the order of `graph`.
Graph live_in_order(const Graph& graph);

/// What `roots` need, in the order of a depth-first search from one after the other: each node after its inputs. All
/// stores and effects must be among what is found. `places`: where each value has gone.
Graph in_depth_first_order(const Graph& graph, const std::vector<ValueId>& roots,
                           std::vector<ValueId>* places = nullptr);

}  // namespace unisono::passes
