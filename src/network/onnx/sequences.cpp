/// Operators that count and order: Range, CumSum, TopK, Trilu, EyeLike, Hardmax.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::int64_t most_counted = std::int64_t{1} << 22;  // elements of a constant that is made here

// A constant vector (or another shape of as many elements) of f(0), f(1), …
template <class T, class F>
NetworkValue counted_constant(const NodeReader& node, std::int64_t count, Shape shape, DType dtype, F f) {
  if (count > most_counted) node.fail("the result has {} elements; the limit is 2^22", count);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = f(i);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &x, sizeof(T));
  }
  return node.make_constant(node.name(), std::move(shape), dtype, std::move(bytes));
}

// All of constants. The count is that of float64, which is exact for what f32 and small integers can be.
NetworkValue constant_range(const NodeReader& node, DType dtype) {
  return cpu::with_type(dtype, [&]<class T>() {
    const double start = node.needed_scalar(0, "start"), limit = node.needed_scalar(1, "limit"),
                 delta = node.needed_scalar(2, "delta");
    if (delta == 0 || !std::isfinite(start) || !std::isfinite(limit) || !std::isfinite(delta))
      node.fail("start is {}, limit {} and delta {}; expected numbers, and a delta that is not 0", start, limit, delta);
    const double count = std::max(std::ceil((limit - start) / delta), 0.0);
    if (!(count <= static_cast<double>(most_counted)))
      node.fail("the result has {} elements; the limit is 2^22", count);
    const auto n = static_cast<std::int64_t>(count);
    return counted_constant<T>(node, n, {n}, dtype,
                               [&](std::int64_t i) { return static_cast<T>(start + static_cast<double>(i) * delta); });
  });
}

// limit − start where that is a number or a formula
std::optional<Dim> difference(const NodeReader& node, const Dim& limit, const Dim& start) {
  if (limit == start) return Dim(0);
  if (start.known() && start.value() > -most_counted && start.value() < most_counted) {
    const Dim count = affine(limit, 1, -start.value());
    if (!count.known() && count != limit && !node.remember_arithmetic(count, MapOp::sub, limit, start))
      return std::nullopt;
    return count;
  }
  return node.other_summand(limit, start);
}

// How many numbers lie from `start` to before `limit`, `step` apart: nothing if it is not a formula of extents
std::optional<Dim> steps_between(const NodeReader& node, const Dim& limit, const Dim& start, std::int64_t step) {
  const auto span = difference(node, limit, start);
  if (!span || step == 1) return span;
  const Dim more = affine(*span, 1, step - 1), count = divided(more, step);
  if (more.known()) return Dim(std::max<std::int64_t>(count.value(), 0));
  if (more != *span && !node.remember_arithmetic(more, MapOp::add, *span, Dim(step - 1))) return std::nullopt;
  if (!node.remember_arithmetic(count, MapOp::div, more, Dim(step))) return std::nullopt;
  return count;
}

// A range between integers that follow from extents: its length is an extent of some tensor. `start` is a tensor.
void import_symbolic_range(const NodeReader& node, const std::array<Dim, 3>& of) {
  const auto& [start, limit, delta] = of;
  if (!delta.known() || delta == Dim(0) || delta.value() <= -most_counted || delta.value() >= most_counted)
    node.fail("delta is {}; with an extent as its start or limit, expected a whole number that is not 0, up to 2^22",
              to_string(delta));
  const std::int64_t step = delta.value();
  const auto count = step < 0 ? steps_between(node, start, limit, -step) : steps_between(node, limit, start, step);
  if (!count)
    node.fail("the number of elements from {} to {} cannot be written as a formula of extents", to_string(start),
              to_string(limit));
  NetworkValue y = counted(node, *count, {*count});
  if (step == -1) y = node.map(MapOp::neg, {y});
  if (step != 1 && step != -1) y = node.map(MapOp::mul, {y, node.number_like(y, static_cast<double>(step))});
  if (start != Dim(0)) y = node.map(MapOp::add, {y, node.cast(node.value(0), DType::i64)});
  const int type = node.type(0);
  node.result_of_type(node.cast(y, is_short_float(type) ? DType::f32 : *dtype_of(type)), type);
}

// An input as a whole number or an extent, also one that was cast to a float; nothing if it is neither
std::optional<Dim> whole_number(const NodeReader& node, int i) {
  const auto scalar = [&](const Integers& v) {
    if (v.elements.size() != 1) node.fail("input {} has {} elements; expected a scalar", i, v.elements.size());
    return v.elements[0];
  };
  if (node.is_integers(i)) return scalar(node.integers(i));
  if (const auto v = node.cast_from(i)) return scalar(*v);
  if (!node.known_constant(i)) return std::nullopt;
  const double x = node.needed_scalar(i, "an input");
  if (std::floor(x) != x || std::fabs(x) > static_cast<double>(most_counted)) return std::nullopt;
  return Dim(static_cast<std::int64_t>(x));
}

void import_range(const NodeReader& node) {
  const int type = node.type(0);
  bool numbers = true, symbols = false;
  std::array<Dim, 3> of;
  for (int i = 0; i < 3 && numbers; ++i) {
    const auto d = whole_number(node, i);
    numbers = d.has_value();
    if (d) of[static_cast<std::size_t>(i)] = *d;
    symbols = symbols || (d && !d->known());
  }
  if (numbers && symbols) return import_symbolic_range(node, of);
  for (int i = 0; i < 3; ++i)
    if (!node.value(i).tensor().is_constant())
      node.fail("input {} is {}; expected a constant, or, if all three are whole numbers, what follows from extents", i,
                node.cast_from(i) ? "an extent that stands with a fraction" : "computed by the run");
  node.result_of_type(constant_range(node, node.value(0).dtype()), type);
}

void import_trilu(const NodeReader& node) {
  std::int64_t k = 0;
  if (node.has(1) && !node.is_empty(1)) {
    const auto given = node.numbers(1);
    if (given.size() != 1) node.fail("k has {} elements; expected a scalar", given.size());
    k = given[0];
  }
  node.result(node.apply(operators::Triangle{.upper = node.integer("upper", 1) != 0, .diagonal = k}, {node.value(0)}));
}

void import_cumsum(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto axis = node.numbers(1);
  if (axis.size() != 1) node.fail("axis has {} elements; expected a scalar", axis.size());
  node.result(node.apply(operators::CumulativeSum{.axis = node.axis(axis[0], x.shape().size()),
                                                  .exclusive = node.integer("exclusive", 0) != 0,
                                                  .reverse = node.integer("reverse", 0) != 0},
                         {x}));
}

// Places, and the elements there. What need not be sorted is sorted all the same.
void import_top_k(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  std::int64_t k = node.integer("k", -1);
  if (node.opset() >= 10) {
    const auto given = node.numbers(1);
    if (given.size() != 1) node.fail("k has {} elements; expected one", given.size());
    k = given[0];
  }
  const int axis = node.axis(node.integer("axis", -1), x.shape().size());
  const NetworkValue places =
      node.apply(operators::TopK{.axis = axis, .count = k, .smallest = node.integer("largest", 1) == 0}, {x});
  if (node.wants(0)) node.result(node.apply(operators::GatherElements{.axis = axis}, {x, places}));
  if (!node.wants(0) && !node.wants(1)) node.fail("has no output");
  node.result(places, 1);
}

// Ones on a diagonal of a matrix
void import_eye_like(const NodeReader& node) {
  const bool integers = node.is_integers(0);
  const Shape shape = integers ? Shape{} : node.value(0).shape();
  if (shape.size() != 2 || !shape[0].known() || !shape[1].known())
    node.fail("the input has shape {}; expected a matrix of a fixed size", to_string(shape));
  const auto type = node.type_attribute("dtype", node.type(0));
  const auto dtype = dtype_of(type);
  if (!dtype) node.fail("a result of {} is not supported", data_type_name(type));
  const std::int64_t rows = shape[0].value(), columns = shape[1].value(), k = node.integer("k", 0);
  if (rows > most_counted || columns > most_counted) node.fail("the result has shape {}", to_string(shape));
  const DType inside = is_short_float(type) ? DType::f32 : *dtype;
  const NetworkValue y = cpu::with_type(inside, [&]<class T>() {
    return counted_constant<T>(node, rows * columns, shape, inside,
                               [&](std::int64_t i) { return static_cast<T>(i % columns - i / columns == k ? 1 : 0); });
  });
  node.result_of_type(y, type);
}

// One where the first of the largest elements along an axis is; before opset 13 all axes from `axis` on are one
void import_hardmax(const NodeReader& node) {
  const NetworkValue given = node.value(0);
  const bool old = node.opset() < 13;
  int axis = node.axis(node.integer("axis", old ? 1 : -1), given.shape().size());
  const NetworkValue x = old ? node.apply(operators::Flatten{.axis = axis}, {given}) : given;
  if (old) axis = 1;
  const std::size_t rank = x.shape().size();
  const NetworkValue place = node.apply(operators::ArgReduce{.axis = axis}, {x});
  Shape along(rank, Dim(1));
  along[static_cast<std::size_t>(axis)] = x.shape()[static_cast<std::size_t>(axis)];
  const NetworkValue at = reshape_to(node, node.apply(operators::Range{.axis = axis}, {x}), along);
  const NetworkValue y =
      node.map(MapOp::select, {node.map(MapOp::equal, {at, place}), node.number_like(x, 1), node.number_like(x, 0)});
  node.result(old ? reshape_like(node, y, given) : y);
}

// A vector whose extent is the symbol: of a tensor that has it, or put together as the symbol was from others
std::optional<NetworkValue> vector_along(const NodeReader& node, const Dim& extent, int depth) {
  const auto& tensors = node.builder().so_far().tensors;
  for (TensorId id = 0; id < tensors.size(); ++id)
    for (std::size_t axis = 0; axis < tensors[id].shape.size(); ++axis)
      if (tensors[id].shape[axis] == extent)
        return node.apply(operators::Range{.axis = static_cast<int>(axis)}, {NetworkValue(node.builder(), id)});
  const auto parts = node.arithmetic_of(extent);
  if (!parts || depth == 0) return std::nullopt;
  const auto& [op, x, y] = *parts;
  const bool number = x.known() || y.known();
  const auto first = vector_along(node, x.known() ? y : x, depth - 1);
  if (!first) return std::nullopt;
  const std::int64_t n = x.known() ? x.value() : y.known() ? y.value() : 0;
  if (number && n > -most_counted && n < most_counted) {
    if (op == MapOp::mul && n > 0) return node.apply(operators::Tile{{n}}, {*first});
    if (op == MapOp::div && y.known() && n > 0)  // the last of each n elements
      return node.apply(operators::Slice{{n - 1}, {std::numeric_limits<std::int64_t>::max()}, {n}, {0}}, {*first});
    if (op == MapOp::sub && y.known() && n >= 0)  // nothing where there are fewer
      return node.apply(operators::Slice{{n}, {std::numeric_limits<std::int64_t>::max()}, {1}, {0}}, {*first});
    const bool takes = op == MapOp::sub && y.known();
    if (op == MapOp::add || takes)
      return node.apply(operators::Pad{.before = {0}, .after = {takes ? -n : n}}, {*first});
    return std::nullopt;
  }
  const auto second = number ? std::nullopt : vector_along(node, y, depth - 1);
  if (!second || op != MapOp::add) return std::nullopt;
  return node.apply(operators::Concat{.axis = 0}, {*first, *second});
}

constexpr OperatorRow sequence_table[] = {{"CumSum", 11, import_cumsum},  {"EyeLike", 9, import_eye_like},
                                          {"Hardmax", 1, import_hardmax}, {"Range", 11, import_range},
                                          {"TopK", 1, import_top_k},      {"Trilu", 14, import_trilu}};

}  // namespace

NetworkValue counted(const NodeReader& node, const Dim& extent, const Shape& shape) {
  if (extent.known())
    return counted_constant<std::int64_t>(node, std::max<std::int64_t>(extent.value(), 0), shape, DType::i64,
                                          [](std::int64_t i) { return i; });
  const auto vector = vector_along(node, extent, 8);
  if (!vector) node.fail("the extent {} is not known, and no tensor has it", to_string(extent));
  const bool counts = std::holds_alternative<operators::Range>(node.builder().so_far().operators.back().kind) &&
                      node.builder().so_far().operators.back().output == vector->id();
  const NetworkValue y = counts ? *vector : node.apply(operators::Range{.axis = 0}, {*vector});
  return reshape_to(node, y, shape);
}

std::span<const OperatorRow> sequence_rows() { return sequence_table; }

}  // namespace unisono::network::onnx_import
