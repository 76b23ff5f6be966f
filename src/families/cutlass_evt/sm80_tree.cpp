#include "families/cutlass_evt/sm80_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {
namespace {

bool is_of_batch(const Visitor& v) {
  if (v.kind != VisitorKind::scalar) return v.per_batch;
  return std::ranges::any_of(v.scalars, [](const Scalar& s) { return s.per_batch && s.kind == Scalar::Kind::pointer; });
}

// Scalars have a stride of their own type where each matrix of the batch has one
std::string stride_of(const Visitor& v) {
  switch (v.kind) {
    case VisitorKind::scalar:
    case VisitorKind::scalar_reduction: return is_of_batch(v) ? "Stride<_0, _0, int>" : "Stride<_0, _0, _0>";
    case VisitorKind::row:
    case VisitorKind::row_reduction: return "Stride<_0, _1, std::int64_t>";
    case VisitorKind::column:
    case VisitorKind::column_reduction: return "Stride<_1, _0, std::int64_t>";
    default: return "Stride<std::int64_t, _1, std::int64_t>";
  }
}

std::string scalar_stride(const Visitor& v) { return is_of_batch(v) ? "{_0{}, _0{}, 1}" : "{}"; }

// Folds of floats within a CTA, and atomic ones in memory
std::string folds(Op op) {
  if (op == Op::reduce_max) return "cutlass::maximum_with_nan_propagation, unisono::evt::AtomicMaximum";
  if (op == Op::reduce_min) return "cutlass::minimum_with_nan_propagation, unisono::evt::AtomicMinimum";
  return "cutlass::plus, cutlass::atomic_add";
}

std::string type_of(const Visitor& v, bool is_dual) {
  const std::string element = element_name(v.element), stride = stride_of(v);
  switch (v.kind) {
    case VisitorKind::accumulator: return is_dual ? "FirstAccumulator" : "threadblock::VisitorAccFetch";
    case VisitorKind::accumulator1: return "SecondAccumulator";
    case VisitorKind::source: break;  // there is none: an AuxLoad stands in
    case VisitorKind::scalar:
      return v.scalars.size() == 1
                 ? fmt::format("threadblock::VisitorScalarBroadcast<float, {}>", stride)
                 : fmt::format("threadblock::VisitorScalarBroadcast<float, {}, {}, cutlass::multiplies>", stride,
                               v.scalars.size());
    case VisitorKind::row: return fmt::format("threadblock::VisitorRowBroadcast<ThreadMap, {}, {}>", element, stride);
    case VisitorKind::column:
      return fmt::format("threadblock::VisitorColBroadcast<ThreadMap, {}, {}>", element, stride);
    case VisitorKind::aux_load: return fmt::format("threadblock::VisitorAuxLoad<ThreadMap, {}, {}>", element, stride);
    case VisitorKind::aux_store:
      return fmt::format("threadblock::VisitorAuxStore<ThreadMap, {}, kRound, {}>", element, stride);
    case VisitorKind::compute:
      return fmt::format("threadblock::VisitorCompute<{}, {}, float, kRound>", v.functor->name, element);
    case VisitorKind::scalar_reduction:
      return fmt::format("unisono::evt::ScalarReduction<{}, ThreadMap, {}, float, kRound, {}>", folds(v.reduction),
                         element, stride);
    case VisitorKind::row_reduction:
      return fmt::format("unisono::evt::RowReduction<{}, ThreadMap, {}, float, kRound, {}>", folds(v.reduction),
                         element, stride);
    case VisitorKind::column_reduction:
      return fmt::format("threadblock::VisitorColReduction<{}, ThreadMap, {}, float, kRound, {}>", folds(v.reduction),
                         element, stride);
  }
  throw InternalError("a visitor that CUTLASS 2.x has not");
}

std::string scalar_arguments(const Visitor& v) {
  std::vector<std::string> values, pointers;
  for (const Scalar& s : v.scalars) values.push_back(scalar_value(s)), pointers.push_back(scalar_pointer(s));
  return fmt::format("{{{{{}}}, {{{}}}, {}}}", fmt::join(values, ", "), fmt::join(pointers, ", "), scalar_stride(v));
}

std::string arguments_of(const Visitor& v) {
  const std::string element = element_name(v.element);
  switch (v.kind) {
    case VisitorKind::accumulator:
    case VisitorKind::accumulator1:
    case VisitorKind::compute: return "{}";
    case VisitorKind::source: break;
    case VisitorKind::scalar: return scalar_arguments(v);
    case VisitorKind::row:
    case VisitorKind::column:
      return fmt::format("{{address<const {0}>(p, {1}), {0}(0), {2}}}", element, v.field, vector_stride(v));
    case VisitorKind::aux_load:
      return fmt::format("{{address<{0}>(p, {1}), {0}(0), {2}}}", element, v.field, result_stride(Place::field));
    case VisitorKind::aux_store:
      return fmt::format("{{{}, {}}}", result_address(v.place, element, v.field), result_stride(v.place));
    case VisitorKind::scalar_reduction:
      return fmt::format("{{address<{}>(p, {}), {}, {}}}", element, v.field, identity_of(v.reduction),
                         scalar_stride(v));
    case VisitorKind::row_reduction:
    case VisitorKind::column_reduction:
      return fmt::format("{{address<{}>(p, {}), {}, {}}}", element, v.field, identity_of(v.reduction),
                         vector_stride(v));
  }
  throw InternalError("a visitor that CUTLASS 2.x has not");
}

class Sm80Dialect final : public Dialect {
 public:
  explicit Sm80Dialect(bool is_dual) : is_dual_(is_dual) {}
  std::string_view scope() const override { return "threadblock::Sm80"; }
  std::string type_of(const Visitor& v) const override { return cutlass_evt::type_of(v, is_dual_); }
  std::string initialisers(const Visitor& v) const override { return arguments_of(v); }

 private:
  bool is_dual_;
};

}  // namespace

const Dialect& sm80_dialect(bool is_dual) {
  static const Sm80Dialect of_one(false), of_two(true);
  return is_dual ? of_two : of_one;
}

}  // namespace unisono::families::cutlass_evt
