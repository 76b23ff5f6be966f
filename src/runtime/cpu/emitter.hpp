#pragma once
/// Writes the instructions of graph nodes into a program.

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/cpu/program.hpp"

namespace unisono::cpu {

/// True for the dtypes that stand in double lanes.
inline bool is_wide(DType t) { return t == DType::f64 || t == DType::i32; }

/// Writes one program: either over uniform values (shapes are fixed) or over blocks of rows of the tiles.
class Emitter {
 public:
  /// `plan` has the graph, the extents, the operands and the slots of uniform values.
  Emitter(Plan& plan, Program& program, bool tiles, std::vector<Fill>* fills);

  /// Emits what computes node `v` (no leaf, no late reduction).
  void value(ValueId v);
  /// Calls that return nothing.
  void effect(ValueId v);
  /// The register that holds value `v` with `shape`, emitting loads, conversions and repetitions as needed.
  int get(ValueId v, LaneShape shape, bool wide);
  /// The register of v itself.
  int native(ValueId v);
  /// Declares where a value stands that this program does not compute.
  void bind(ValueId v, int reg) { native_[v] = reg; }
  int add_register(Register r);
  void emit(Instruction i) { program_.instructions.push_back(std::move(i)); }

  LaneShape shape_of(const Axes& a) const;
  /// Home of the results of tile values that are kept.
  void place(ValueId v, Register home) { placed_.emplace(v, home); }
  /// Values whose instruction another one takes over (sub and mul of a fused normalisation).
  void absorb(ValueId v) { absorbed_.push_back(v); }

 private:
  int result_register(ValueId v);
  int leaf(ValueId v);
  int constant(double value, bool wide);
  int uniform_value(ValueId v);
  int repeated_value(ValueId v, std::int64_t cols);
  int spread(int reg, LaneShape shape);
  int widened(int reg);
  int narrowed(int reg);
  bool arithmetic_is_wide(const Node& x) const;
  bool arithmetic_is_integer(const Node& x) const;
  void elementwise(ValueId v);
  void cast(ValueId v);
  void one_hot(ValueId v);
  void row_reduction(ValueId v);
  void uniform_reduction(ValueId v);
  void call(ValueId v, bool effect);
  void round_result(int reg, DType t);
  bool fused_normalisation(ValueId v);

  const Graph& g_;
  Plan& plan_;
  Program& program_;
  bool tiles_;
  std::vector<Fill>* fills_;
  std::map<ValueId, int> native_;
  std::map<ValueId, Register> placed_;
  std::vector<ValueId> absorbed_;
  std::map<std::tuple<int, std::int64_t, std::int64_t>, int> spread_;
  std::map<int, int> widened_, narrowed_;
  std::map<std::pair<ValueId, std::int64_t>, int> repeated_;
  std::map<std::pair<double, bool>, int> constants_;
};

Instruction instruction(Kind kind, int result, std::vector<int> source);

/// Number of nodes, stores and effects that read each value.
std::vector<int> count_uses(const Graph& graph);

}  // namespace unisono::cpu
