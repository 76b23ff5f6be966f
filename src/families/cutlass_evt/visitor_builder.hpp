#pragma once
/// How visitors_of() goes about it: values in the order of the graph, then what is stored, then the order in which
/// visitors stand.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/cutlass_evt/visitors.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "plan/refusal.hpp"

namespace unisono::families::cutlass_evt {

class VisitorBuilder {
 public:
  VisitorBuilder(const plan::Epilogue& e, const codegen::Options& options, VisitorSet set)
      : e_(e), g_(e.graph), options_(options), set_(set), of_value_(g_.nodes.size(), no_visitor) {}

  plan::Expected<Visitors> run();

 private:
  static constexpr int no_visitor = -1;
  std::optional<plan::Refusal> refuse_whole() const;
  void choose_store();
  Place place_of(std::size_t store) const;
  void choose_source();
  std::optional<plan::Refusal> add_value(ValueId id);
  std::optional<plan::Refusal> add_leaf(ValueId id);
  std::optional<plan::Refusal> add_operand(ValueId id);
  void add_compute(ValueId id);
  bool are_one_broadcast(const std::vector<int>& visitors) const;
  int constant(double value, const std::string& name);
  int add(Visitor visitor) { return v_.list.push_back(std::move(visitor)), static_cast<int>(v_.list.size()) - 1; }
  std::size_t add_field(codegen::Field::Kind kind, std::string name, DType t, Axes axes);
  DType storage_of(ValueId operand) const;
  std::optional<plan::Refusal> refuse_reduction(ValueId id) const;
  std::optional<plan::Refusal> add_sink(std::size_t store);
  int reduced(ValueId id);
  void finish();
  std::vector<bool> reaching(int target) const;

  const plan::Epilogue& e_;
  const Graph& g_;
  const codegen::Options& options_;
  VisitorSet set_;
  std::vector<int> of_value_;  // the visitor of each value
  std::optional<ValueId> source_;
  std::vector<int> sinks_;
  Visitors v_;
};

/// "node: 'VALUE': REASON".
plan::Refusal refused(const Graph& graph, ValueId id, std::string_view rule, const std::string& reason);
bool is_stored(DType t);

}  // namespace unisono::families::cutlass_evt
