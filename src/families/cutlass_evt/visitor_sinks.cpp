// Stores of elements, and reductions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "families/cutlass_evt/visitor_builder.hpp"
#include "ir/op_table.hpp"

namespace unisono::families::cutlass_evt {

// Whether something but stores reads a reduction
std::optional<plan::Refusal> VisitorBuilder::refuse_reduction(ValueId id) const {
  const Node& x = g_[id];
  for (ValueId user = id + 1; user < g_.nodes.size(); ++user)
    if (std::ranges::find(g_[user].inputs, id) != g_[user].inputs.end())
      return refused(
          g_, id, "reduction",
          fmt::format("'{}' reads its result; a visitor's reduction is complete only when the launch ends, so "
                      "it can be stored and nothing else",
                      plan::text_of(g_, user)));
  if (x.op == Op::variance) return refused(g_, id, "reduction", "CUTLASS has no visitor for variances");
  if (x.attr.domain.cols && x.attr.domain.groups > 1)
    return refused(g_, id, "reduction", "CUTLASS reduces whole rows, not groups of their columns");
  if (g_[x.inputs[0]].dtype == DType::i32) return refused(g_, id, "reduction", "visitors reduce floats, not i32");
  const bool scalar = x.attr.domain.rows && x.attr.domain.cols;
  if (set_.is_2x && !set_.atomic)
    return refused(
        g_, id, "reduction",
        "the visitors of CUTLASS 2.x (arch=sm80, sm120) reduce by atomic operations in any order, so the bits "
        "of sums differ from run to run; ask for it by reductions=atomic");
  if (scalar && !set_.atomic)
    return refused(
        g_, id, "reduction",
        "CUTLASS's ScalarReduction adds by atomic operations in any order, so its bits differ from run to run; "
        "ask for it by reductions=atomic");
  if (scalar && x.op != Op::sum && x.op != Op::mean && x.op != Op::sum_squares)
    return refused(g_, id, "reduction", "to a scalar, CUTLASS reduces by sums alone");
  return {};
}

// What a reduction adds up, from what the graph's reads
int VisitorBuilder::reduced(ValueId id) {
  const Node& x = g_[id];
  const int from = of_value_[x.inputs[0]];
  const auto times = [&](int by, const char* name) {
    Visitor v{.kind = VisitorKind::compute, .name = name, .inputs = {from, by}};
    v.functor = product_functor(x.inputs[0]);
    return add(std::move(v));
  };
  if (x.op == Op::sum_squares) return times(from, "square");
  if (x.op != Op::mean) return from;
  Visitor count{.kind = VisitorKind::scalar, .name = "1 / count", .inputs = {}};
  const ReduceDomain& d = x.attr.domain;
  count.scalars = {{.kind = d.rows && d.cols ? Scalar::Kind::inverse_all
                            : d.rows         ? Scalar::Kind::inverse_rows
                                             : Scalar::Kind::inverse_columns,
                    .per_batch = d.per_image}};
  return times(add(std::move(count)), "share");
}

std::optional<plan::Refusal> VisitorBuilder::add_sink(std::size_t i) {
  const Store& s = g_.stores[i];
  const Node& x = g_[s.value];
  if (!is_stored(s.dtype))
    return refused(g_, s.value, "node",
                   fmt::format("store {}: CUTLASS stores f32, bf16 and f16 here, not {}", s.name, to_string(s.dtype)));
  if (i == v_.store) return {};
  Visitor v{.name = s.name, .element = s.dtype, .inputs = {}};
  if (ir::is_reduction(x.op)) {
    const ReduceDomain& d = x.attr.domain;
    v.kind = !d.rows  ? VisitorKind::column_reduction
             : d.cols ? VisitorKind::scalar_reduction
                      : VisitorKind::row_reduction;
    v.reduction = x.op == Op::reduce_max || x.op == Op::reduce_min ? x.op : Op::sum;
    v.per_batch = d.per_image || !d.rows;
    v.inputs = {reduced(s.value)};
    if (set_.is_2x || v.kind == VisitorKind::scalar_reduction) {
      v_.is_atomic = true;
      if (s.dtype != DType::f32)
        return refused(g_, s.value, "reduction", "a result that is added to by atomic operations is f32");
    }
  } else if (x.axes == axes::mn && of_value_[s.value] != no_visitor) {
    v.kind = VisitorKind::aux_store, v.per_batch = true;
    v.inputs = {of_value_[s.value]};
  } else {
    return refused(g_, s.value, "node",
                   fmt::format("store {}: visitors store elements [m,n] and reductions, not values {}", s.name,
                               to_string(x.axes)));
  }
  v.place = place_of(i);
  if (v.place == Place::field) v.field = add_field(codegen::Field::Kind::store_pointer, s.name, s.dtype, x.axes);
  sinks_.push_back(add(std::move(v)));
  return {};
}

// The main and the second store have places of their own in a launch's tensors
Place VisitorBuilder::place_of(std::size_t store) const {
  const auto main = plan::main_store(e_);
  if (main == store) return Place::main;
  const auto is_this = [&](const plan::Output& o) {
    return o.store == store && (o.path == plan::Output::StorePath::before || o.path == plan::Output::StorePath::after);
  };
  return std::ranges::any_of(e_.outputs, is_this) ? Place::side : Place::field;
}

}  // namespace unisono::families::cutlass_evt
