#pragma once
/// Translates one graph into a Program: the state that the files program*.cpp share.

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/cpu/strips/program.hpp"

namespace coda::cpu {

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const passes::Partition& partition, const Tiling& tiling, const Operands& operands,
                 const VectorUnit& unit, Program& program);
  void build();

 private:
  using Key = std::tuple<ValueId, bool, std::int64_t, bool>;  // value, per_row, width, wide

  const Node& node(ValueId v) const { return g_[v]; }
  std::int64_t width_of(const Axes& a) const;
  static bool is_wide(DType t) { return t == DType::f64 || t == DType::i32; }
  static bool per_row(const Axes& a) { return a.row == RowAxis::m; }

  void plan_kept();
  void plan_reductions();
  void build_stage(std::size_t index);
  bool can_skip(ValueId v) const;
  void finish_stores(const passes::Stage& stage, StageProgram& out);

  // Registers
  Register allocate(bool per_row, std::int64_t width, bool wide);
  void emit(bool per_row, Instruction instruction);
  Register value(ValueId v);
  /// The value as lanes of this shape: broadcast and converted if need be.
  Register shaped(ValueId v, bool per_row, std::int64_t width, bool wide);
  Register broadcast(const Register& from, bool per_row, std::int64_t width);
  Register converted(const Register& from, bool wide);
  Instruction lanes(Code code, const Register& result, std::vector<Register> sources, double immediate0 = 0,
                    double immediate1 = 0);

  // Leaves
  Register leaf(ValueId v);
  Register load_operand(ValueId v);
  Register load_matrix_operand(std::size_t index, const Register& r);
  Register constant(double x, bool wide);
  Register coordinate(Coordinate c);

  // Nodes
  void compute(ValueId v);
  void compute_elementwise(ValueId v, const Register& out);
  void compute_integer(ValueId v, const Register& out);
  void compute_cast(ValueId v, const Register& out);
  void compute_one_hot(ValueId v, const Register& out);
  void compute_call(ValueId v, const Register& out);
  void compute_row_reduction(ValueId v, const Register& out);
  void accumulate(ValueId v, RowReduction& r);
  bool fused_normalisation(ValueId v, const Register& out);
  void store(std::size_t index);

  const Graph& g_;
  const passes::Partition& partition_;
  const Tiling& tiling_;
  const Operands& operands_;
  const VectorUnit& unit_;
  Program& p_;
  std::size_t stage_ = 0;
  StageProgram* out_ = nullptr;
  std::map<Key, Register> registers_;
  std::vector<int> uses_;
  std::map<ValueId, std::size_t> kept_, reduction_;
  std::map<ValueId, std::size_t> home_stage_;
  std::size_t top_ = 0;  ///< of the registers of this stage
};

}  // namespace coda::cpu
