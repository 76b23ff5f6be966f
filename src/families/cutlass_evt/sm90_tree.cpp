#include "families/cutlass_evt/sm90_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

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

// A visitor by itself
std::string type_of(const Visitor& v) {
  const std::string element = element_name(v.element), stride = stride_of(v);
  switch (v.kind) {
    case VisitorKind::accumulator: return "fusion::Sm90AccFetch";
    case VisitorKind::accumulator1: break;  // refused
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
  throw InternalError("a visitor that CUTLASS 3.x has not");
}

std::string scalar_arguments(const Visitor& v) {
  std::vector<std::string> values, pointers, strides;
  for (const Scalar& s : v.scalars) {
    values.push_back(scalar_value(s));
    pointers.push_back(scalar_pointer(s));
    strides.push_back(
        fmt::format("{{_0{{}}, _0{{}}, std::int64_t({})}}", s.per_batch && s.kind == Scalar::Kind::pointer));
  }
  return fmt::format("{{{{{}}}, {{{}}}, {{{}}}}}", fmt::join(values, ", "), fmt::join(pointers, ", "),
                     fmt::join(strides, ", "));
}

std::string arguments_of(const Visitor& v) {
  const std::string element = element_name(v.element);
  switch (v.kind) {
    case VisitorKind::accumulator:
    case VisitorKind::accumulator1:
    case VisitorKind::source: return "{}";
    case VisitorKind::scalar: return scalar_arguments(v);
    case VisitorKind::row:
    case VisitorKind::column:
      return fmt::format("{{address<const {0}>(p, {1}), {0}(0), {2}}}", element, v.field, vector_stride(v));
    case VisitorKind::aux_load:
      return fmt::format("{{address<const {0}>(p, {1}), {0}(0), {2}}}", element, v.field, result_stride(Place::field));
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

class Sm90Dialect final : public Dialect {
 public:
  std::string_view scope() const override { return "fusion::Sm90"; }
  std::string type_of(const Visitor& v) const override { return cutlass_evt::type_of(v); }
  std::string initialisers(const Visitor& v) const override { return arguments_of(v); }
};

class Sm90GroupedDialect final : public Dialect {
 public:
  std::string_view scope() const override { return "fusion::Sm90"; }
  std::string type_of(const Visitor& v) const override {
    if (v.kind != VisitorKind::column) return cutlass_evt::type_of(v);
    return fmt::format("fusion::Sm90ColBroadcast<0, TileShape, {}*, float, Stride<_1, _0, _0>>",
                       element_name(v.element));
  }
  std::string initialisers(const Visitor& v) const override {
    if (v.kind != VisitorKind::column) return arguments_of(v);
    return fmt::format("{{table<const {0}*>(p, {1}), {0}(0), {{}}}}", element_name(v.element),
                       first_vector_table + v.field);
  }
};

}  // namespace

const Dialect& sm90_grouped_dialect() {
  static const Sm90GroupedDialect dialect;
  return dialect;
}

const Dialect& sm90_dialect() {
  static const Sm90Dialect dialect;
  return dialect;
}

}  // namespace unisono::families::cutlass_evt
