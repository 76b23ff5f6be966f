#include "families/cutlass_evt/sm90_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <vector>

#include "codegen/expression.hpp"
#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {
namespace {

std::string stride_of(const Visitor& v) {
  switch (v.kind) {
    case VisitorKind::scalar:
    case VisitorKind::scalar_reduction: return "Stride<_0, _0, std::int64_t>";
    case VisitorKind::row:
    case VisitorKind::row_reduction: return "Stride<_0, _1, std::int64_t>";
    case VisitorKind::column:
    case VisitorKind::column_reduction: return "Stride<_1, _0, std::int64_t>";
    default: return "Stride<std::int64_t, _1, std::int64_t>";
  }
}

std::string reducing(Op op) {
  return op == Op::reduce_max   ? "cutlass::maximum_with_nan_propagation"
         : op == Op::reduce_min ? "cutlass::minimum_with_nan_propagation"
                                : "cutlass::plus";
}

std::string identity_of(Op op) {
  return op == Op::reduce_max   ? "-std::numeric_limits<float>::infinity()"
         : op == Op::reduce_min ? "std::numeric_limits<float>::infinity()"
                                : "0.f";
}

// A visitor by itself
std::string type_of(const Visitor& v) {
  const std::string element = element_name(v.element), stride = stride_of(v);
  switch (v.kind) {
    case VisitorKind::accumulator: return "fusion::Sm90AccFetch";
    case VisitorKind::source: return "fusion::Sm90SrcFetch<ElementC>";
    case VisitorKind::scalar:
      return v.scalars.size() == 1 ? fmt::format("fusion::Sm90ScalarBroadcast<float, {}>", stride)
                                   : fmt::format("fusion::Sm90ScalarBroadcast<float, {}, {}, cutlass::multiplies>",
                                                 stride, v.scalars.size());
    case VisitorKind::row: return fmt::format("fusion::Sm90RowBroadcast<0, TileShape, {}, float, {}>", element, stride);
    case VisitorKind::column:
      return fmt::format("fusion::Sm90ColBroadcast<0, TileShape, {}, float, {}>", element, stride);
    case VisitorKind::aux_load: return fmt::format("fusion::Sm90AuxLoad<0, void, {}, {}, void, void>", element, stride);
    case VisitorKind::aux_store:
      return fmt::format("fusion::Sm90AuxStore<0, void, {}, kRound, {}, void, void>", element, stride);
    case VisitorKind::compute:
      return fmt::format("fusion::Sm90Compute<{}, {}, float, kRound>", v.functor->name, element);
    case VisitorKind::scalar_reduction:
      return fmt::format("fusion::Sm90ScalarReduction<{}, cutlass::atomic_add, {}, float, kRound, {}>",
                         reducing(v.reduction), element, stride);
    case VisitorKind::row_reduction:
      return fmt::format("fusion::Sm90RowReduction<{0}, {0}, {0}, 0, TileShape, {1}, float, kRound, {2}>",
                         reducing(v.reduction), element, stride);
    case VisitorKind::column_reduction:
      return fmt::format("fusion::Sm90ColReduction<{0}, {0}, {0}, 0, TileShape, {1}, float, kRound, {2}>",
                         reducing(v.reduction), element, stride);
  }
  throw InternalError("a visitor of an unknown kind");
}

constexpr const char* matrix_stride = "{n, _1{}, m * n}";

std::string vector_stride(const Visitor& v) {
  const bool column = v.kind == VisitorKind::column || v.kind == VisitorKind::column_reduction;
  return fmt::format("{{_{}{{}}, _{}{{}}, {}}}", column ? 1 : 0, column ? 0 : 1,
                     v.per_batch ? (column ? "m" : "n") : "std::int64_t(0)");
}

// In initialisers, which the host evaluates
std::string number_of(double value) {
  if (std::isnan(value)) return "std::numeric_limits<float>::quiet_NaN()";
  const std::string text = codegen::literal(value, DType::f32);
  if (!text.ends_with("__int_as_float(0x7f800000)")) return text;
  return fmt::format("{}std::numeric_limits<float>::infinity()", value < 0 ? "-" : "");
}

std::string scalar_arguments(const Visitor& v) {
  std::vector<std::string> values, pointers, strides;
  for (const Scalar& s : v.scalars) {
    const char* rows = s.per_batch ? "m" : "(m * p.to.batch)";
    switch (s.kind) {
      case Scalar::Kind::constant: values.push_back(number_of(s.constant)); break;
      case Scalar::Kind::value: values.push_back(fmt::format("number(p, {})", s.field)); break;
      case Scalar::Kind::pointer: values.emplace_back("0.f"); break;
      case Scalar::Kind::inverse_rows: values.push_back(fmt::format("float(1.0 / double({}))", rows)); break;
      case Scalar::Kind::inverse_columns: values.emplace_back("float(1.0 / double(n))"); break;
      case Scalar::Kind::inverse_all: values.push_back(fmt::format("float(1.0 / double({} * n))", rows)); break;
    }
    pointers.push_back(s.kind == Scalar::Kind::pointer ? fmt::format("address<const float>(p, {})", s.field)
                                                       : "nullptr");
    strides.push_back(
        fmt::format("{{_0{{}}, _0{{}}, std::int64_t({})}}", s.per_batch && s.kind == Scalar::Kind::pointer));
  }
  return fmt::format("{{{{{}}}, {{{}}}, {{{}}}}}", fmt::join(values, ", "), fmt::join(pointers, ", "),
                     fmt::join(strides, ", "));
}

std::string initialisers(const Visitor& v) {
  const std::string element = element_name(v.element);
  switch (v.kind) {
    case VisitorKind::accumulator:
    case VisitorKind::source: return "{}";
    case VisitorKind::scalar: return scalar_arguments(v);
    case VisitorKind::row:
    case VisitorKind::column:
      return fmt::format("{{address<const {0}>(p, {1}), {0}(0), {2}}}", element, v.field, vector_stride(v));
    case VisitorKind::aux_load:
      return fmt::format("{{address<const {0}>(p, {1}), {0}(0), {2}}}", element, v.field, matrix_stride);
    case VisitorKind::aux_store:
      return fmt::format("{{{}, {}}}", result_address(v.place, element, v.field), result_stride(v.place));
    case VisitorKind::compute: return fmt::format("{{{}}}", v.functor->arguments);
    case VisitorKind::scalar_reduction:
      return fmt::format("{{address<{}>(p, {}), {}, {{_0{{}}, _0{{}}, std::int64_t({})}}}}", element, v.field,
                         identity_of(v.reduction), v.per_batch ? 1 : 0);
    case VisitorKind::row_reduction:
    case VisitorKind::column_reduction:
      return fmt::format("{{address<{}>(p, {}), {}, {}}}", element, v.field, identity_of(v.reduction),
                         vector_stride(v));
  }
  throw InternalError("a visitor of an unknown kind");
}

}  // namespace

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

std::string sm90_type(const Visitors& all, const Tree& t, const std::string& indent) {
  const Visitor& v = all.list[t.visitor];
  const std::string deeper = indent + "    ";
  if (t.is_topological()) {
    std::vector<std::string> edges;
    for (const auto& reads : t.edges) edges.push_back(fmt::format("seq<{}>", fmt::join(reads, ", ")));
    std::string text =
        fmt::format("fusion::Sm90TopologicalVisitor<\n{0}float, cute::tuple<{1}>", deeper, fmt::join(edges, ", "));
    for (const Tree& item : t.items) text += fmt::format(",\n{}{}", deeper, sm90_type(all, item, deeper));
    return text + ">";
  }
  if (t.children.empty()) return type_of(v);
  std::string text = fmt::format("fusion::Sm90EVT<\n{}{}", deeper, type_of(v));
  for (const Tree& child : t.children) text += fmt::format(",\n{}{}", deeper, sm90_type(all, child, deeper));
  return text + ">";
}

std::string sm90_arguments(const Visitors& all, const Tree& t, const std::string& indent) {
  const Visitor& v = all.list[t.visitor];
  if (!t.is_topological() && t.children.empty()) return initialisers(v);
  const std::string deeper = indent + "    ";
  const auto line = [&](const Tree& part) {
    const bool leaf = part.children.empty() && !part.is_topological();
    return fmt::format("{}{},{}\n", deeper, sm90_arguments(all, part, deeper),
                       leaf ? "  // " + label_of(all.list[part.visitor]) : "");
  };
  std::string text = "{\n";
  for (const Tree& item : t.items) text += line(item);
  for (const Tree& child : t.children) text += line(child);
  if (!t.is_topological()) text += fmt::format("{}{},  // {}\n", deeper, initialisers(v), label_of(v));  // its own last
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
