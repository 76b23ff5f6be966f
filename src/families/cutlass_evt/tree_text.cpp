#include "families/cutlass_evt/tree_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <vector>

#include "codegen/expression.hpp"
#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {
namespace {

constexpr const char* matrix_stride = "{n, _1{}, m * n}";

}  // namespace

// In initialisers, which the host evaluates
std::string number_of(double value) {
  if (std::isnan(value)) return "std::numeric_limits<float>::quiet_NaN()";
  const std::string text = codegen::literal(value, DType::f32);
  if (!text.ends_with("__int_as_float(0x7f800000)")) return text;
  return fmt::format("{}std::numeric_limits<float>::infinity()", value < 0 ? "-" : "");
}

std::string scalar_value(const Scalar& s) {
  const char* rows = s.per_batch ? "m" : "(m * p.to.batch)";
  switch (s.kind) {
    case Scalar::Kind::constant: return number_of(s.constant);
    case Scalar::Kind::value: return fmt::format("number(p, {})", s.field);
    case Scalar::Kind::pointer: return "0.f";
    case Scalar::Kind::inverse_rows: return fmt::format("float(1.0 / double({}))", rows);
    case Scalar::Kind::inverse_columns: return "float(1.0 / double(n))";
    case Scalar::Kind::inverse_all: return fmt::format("float(1.0 / double({} * n))", rows);
  }
  throw InternalError("a scalar of an unknown kind");
}

std::string scalar_pointer(const Scalar& s) {
  return s.kind == Scalar::Kind::pointer ? fmt::format("address<const float>(p, {})", s.field) : "nullptr";
}

std::string identity_of(Op op) {
  return op == Op::reduce_max   ? "-std::numeric_limits<float>::infinity()"
         : op == Op::reduce_min ? "std::numeric_limits<float>::infinity()"
                                : "0.f";
}

std::string vector_stride(const Visitor& v) {
  const bool column = v.kind == VisitorKind::column || v.kind == VisitorKind::column_reduction;
  return fmt::format("{{_{}{{}}, _{}{{}}, {}}}", column ? 1 : 0, column ? 0 : 1,
                     v.per_batch ? (column ? "m" : "n") : "std::int64_t(0)");
}

std::string result_address(Place place, const std::string& element, std::size_t field) {
  return place == Place::field ? fmt::format("address<{}>(p, {})", element, field)
                               : fmt::format("static_cast<{}*>(p.to.{})", element, place == Place::main ? "d" : "side");
}

std::string result_stride(Place place) {
  return place == Place::main ? "{p.to.pitch_d, _1{}, m * p.to.pitch_d}" : matrix_stride;
}

std::string label_of(const Visitor& v) {
  const auto named = [&](const char* what) { return v.name.empty() ? what : fmt::format("{} {}", what, v.name); };
  switch (v.kind) {
    case VisitorKind::accumulator: return "AccFetch";
    case VisitorKind::accumulator1: return "AccFetch of the second product";
    case VisitorKind::source: return named("SrcFetch");
    case VisitorKind::scalar: return named("ScalarBroadcast");
    case VisitorKind::row: return named("RowBroadcast");
    case VisitorKind::column: return named("ColBroadcast");
    case VisitorKind::aux_load: return named("AuxLoad");
    case VisitorKind::aux_store: return named("AuxStore");
    case VisitorKind::compute:
      return fmt::format("{}{}", v.functor->name, v.name.empty() ? "" : fmt::format(" = {}", v.name));
    case VisitorKind::scalar_reduction: return named("ScalarReduction");
    case VisitorKind::row_reduction: return named("RowReduction");
    case VisitorKind::column_reduction: return named("ColReduction");
  }
  throw InternalError("a visitor of an unknown kind");
}

std::string tree_type(const Dialect& dialect, const Visitors& all, const Tree& t, const std::string& indent) {
  const Visitor& v = all.list[t.visitor];
  const std::string deeper = indent + "    ";
  if (t.is_topological()) {
    std::vector<std::string> edges;
    for (const auto& reads : t.edges) edges.push_back(fmt::format("seq<{}>", fmt::join(reads, ", ")));
    std::string text = fmt::format("{0}TopologicalVisitor<\n{1}float, cute::tuple<{2}>", dialect.scope(), deeper,
                                   fmt::join(edges, ", "));
    for (const Tree& item : t.items) text += fmt::format(",\n{}{}", deeper, tree_type(dialect, all, item, deeper));
    return text + ">";
  }
  if (t.children.empty()) return dialect.type_of(v);
  std::string text = fmt::format("{}EVT<\n{}{}", dialect.scope(), deeper, dialect.type_of(v));
  for (const Tree& child : t.children) text += fmt::format(",\n{}{}", deeper, tree_type(dialect, all, child, deeper));
  return text + ">";
}

std::string tree_arguments(const Dialect& dialect, const Visitors& all, const Tree& t, const std::string& indent) {
  const Visitor& v = all.list[t.visitor];
  if (!t.is_topological() && t.children.empty()) return dialect.initialisers(v);
  const std::string deeper = indent + "    ";
  const auto line = [&](const Tree& part) {
    const bool leaf = part.children.empty() && !part.is_topological();
    return fmt::format("{}{},{}\n", deeper, tree_arguments(dialect, all, part, deeper),
                       leaf ? "  // " + label_of(all.list[part.visitor]) : "");
  };
  std::string text = "{\n";
  for (const Tree& item : t.items) text += line(item);
  for (const Tree& child : t.children) text += line(child);
  if (!t.is_topological())
    text += fmt::format("{}{},  // {}\n", deeper, dialect.initialisers(v), label_of(v));  // its own last
  return text + indent + "}";
}

std::string functor_definitions(const Visitors& all) {
  std::set<std::string> written;
  std::string text;
  for (const Visitor& v : all.list)
    if (v.functor && !v.functor->definition.empty() && written.insert(v.functor->name).second)
      text += v.functor->definition + "\n";
  return text;
}

}  // namespace unisono::families::cutlass_evt
