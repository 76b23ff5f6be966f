// Operands, and what else visitors read from elsewhere.
#include <fmt/format.h>

#include <utility>

#include "families/cutlass_evt/visitor_builder.hpp"

namespace unisono::families::cutlass_evt {

namespace {

bool is_loaded(DType t) { return is_stored(t) || t == DType::boolean; }

}  // namespace

// C is the first operand [m,n] that is a float
void VisitorBuilder::choose_source() {
  if (set_.is_2x) return;
  for (ValueId id = 0; id < g_.nodes.size() && !source_; ++id)
    if (g_[id].op == Op::operand && g_[id].axes == axes::mn && is_stored(storage_of(id))) source_ = id;
}

DType VisitorBuilder::storage_of(ValueId operand) const {
  const Attributes& a = g_[operand].attr;
  if (a.storage) return *a.storage;
  const auto bound = options_.storage.find(a.name);
  return bound != options_.storage.end() ? bound->second : plan::storage_of(e_, operand);
}

std::size_t VisitorBuilder::add_field(codegen::Field::Kind kind, std::string name, DType t, Axes axes) {
  v_.fields.push_back({.kind = kind, .name = std::move(name), .dtype = t, .axes = axes});
  return v_.fields.size() - 1;
}

int VisitorBuilder::constant(double value, const std::string& name) {
  return add({.kind = VisitorKind::scalar,
              .name = name,
              .inputs = {},
              .scalars = {{.kind = Scalar::Kind::constant, .constant = value}}});
}

std::optional<plan::Refusal> VisitorBuilder::add_leaf(ValueId id) {
  const Node& x = g_[id];
  if (x.op == Op::acc) {
    of_value_[id] = add({.kind = VisitorKind::accumulator, .name = "acc", .inputs = {}});
    return {};
  }
  if (x.op == Op::constant) return {};  // where it is read
  if (x.op == Op::acc1 && !set_.is_2x)
    return refused(g_, id, "node", "the visitors of CUTLASS 3.x read one accumulator; arch=sm80 has a kernel of two");
  if (x.op == Op::acc1) {
    of_value_[id] = add({.kind = VisitorKind::accumulator1, .name = "acc1", .inputs = {}});
    return {};
  }
  if (x.op != Op::operand)
    return refused(g_, id, "node", "CUTLASS has no visitor for coordinates and extents; bind them as an operand");
  return add_operand(id);
}

std::optional<plan::Refusal> VisitorBuilder::add_operand(ValueId id) {
  const Node& x = g_[id];
  if (x.axes.col == ColAxis::g)
    return refused(g_, id, "layout", "CUTLASS broadcasts rows, columns and scalars, not groups of columns");
  const DType t = storage_of(id);
  const bool by_value = x.axes == axes::scalar && !options_.scalar_pointers.contains(x.attr.name);
  if (x.dtype == DType::i32 || (!by_value && !is_loaded(t)) || (by_value && t != DType::f32 && t != DType::boolean))
    return refused(g_, id, "node", fmt::format("operands are f32, bf16, f16 or bool in memory, not {}", to_string(t)));
  Visitor v{.name = x.attr.name, .element = t, .inputs = {}, .per_batch = x.axes.row == RowAxis::b};
  const auto kind = by_value ? codegen::Field::Kind::operand_value : codegen::Field::Kind::operand_pointer;
  v.field = add_field(kind, x.attr.name, t, x.axes);
  if (x.axes.col == ColAxis::none && x.axes.row != RowAxis::m) {
    v.kind = VisitorKind::scalar;
    if (!by_value && t != DType::f32)
      return refused(g_, id, "node", fmt::format("scalars in memory are f32 for CUTLASS, not {}", to_string(t)));
    v.scalars = {{.kind = by_value ? Scalar::Kind::value : Scalar::Kind::pointer,
                  .field = v.field,
                  .per_batch = x.axes.row == RowAxis::b}};
    if (by_value && t == DType::boolean) return refused(g_, id, "node", "scalars are f32 for CUTLASS, not bool");
  } else if (x.axes.row != RowAxis::m) {
    v.kind = VisitorKind::row;
  } else if (x.axes.col == ColAxis::none) {
    v.kind = VisitorKind::column, v.per_batch = true;  // rows are counted over all matrices
  } else {
    v.kind = source_ == id ? VisitorKind::source : VisitorKind::aux_load;
    v.per_batch = true;
    if (source_ == id) v_.source_field = v.field, v_.element_c = t;
  }
  of_value_[id] = add(std::move(v));
  return {};
}

}  // namespace unisono::families::cutlass_evt
