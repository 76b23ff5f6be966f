/// Constants, and integers that follow from shapes: the chains by which exporters compute the shape of a Reshape.

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <tuple>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

void import_constant(const NodeReader& node) {
  if (node.proto().attribute_size() != 1)
    node.fail("has {} attributes; expected one, its value", node.proto().attribute_size());
  if (const auto* a = node.attribute("value_int"))
    return node.result(Integers{.elements = {Dim(a->i())}, .scalar = true});
  if (const auto list = node.list("value_ints")) return node.result(Integers{.elements = {list->begin(), list->end()}});
  if (const auto* a = node.attribute("value_float")) return node.result(node.make_constant(node.name(), {}, {a->f()}));
  if (const auto* a = node.attribute("value_floats")) {
    const std::vector<float> v(a->floats().begin(), a->floats().end());
    return node.result(node.make_constant(node.name(), {v.size()}, v));
  }
  const auto* a = node.attribute("value");
  if (a == nullptr) node.fail("has no value of numbers");
  node.result_of_type(node.stored_constant(a->t()), a->t().data_type());
}

void import_shape(const NodeReader& node) {
  Shape shape;
  if (node.is_integers(0)) {
    const Integers v = node.integers(0);
    if (!v.scalar) shape = {v.elements.size()};
  } else {
    shape = node.value(0).shape();
  }
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto place = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t begin = place(node.integer("start", 0)), end = std::max(begin, place(node.integer("end", rank)));
  node.result(Integers{.elements = {shape.begin() + begin, shape.begin() + end}});
}

// The product of the extents
void import_size(const NodeReader& node) {
  const Shape shape = node.is_integers(0) ? Shape{node.integers(0).elements.size()} : node.value(0).shape();
  node.result(Integers{.elements = {product(shape)}, .scalar = true});
}

void import_constant_of_shape(const NodeReader& node) {
  const auto shape = node.numbers(0);
  if (shape.size() > 8) node.fail("the shape has {} extents; expected at most 8", shape.size());
  double count = 1;
  for (const auto d : shape) {
    if (d < 0) node.fail("the shape has an extent of {}; expected at least 0", d);
    count *= static_cast<double>(d);
  }
  if (count > 0x1p20) node.fail("the result has {} elements; the limit is 2^20", count);
  const auto* a = node.attribute("value");
  const NetworkValue one = a == nullptr ? node.make_constant(node.name(), {1}, {0}) : node.stored_constant(a->t());
  if (product(one.shape()) != Dim(1)) node.fail("value has shape {}; expected one element", to_string(one.shape()));
  const NetworkTensor& t = one.tensor();
  const auto element = t.elements();
  const auto n = static_cast<std::size_t>(count);
  node.ask_memory(n * element.size());
  std::vector<std::byte> bytes(n * element.size());
  if (std::any_of(element.begin(), element.end(), [](std::byte b) { return b != std::byte{0}; }))
    for (std::size_t i = 0; i < n; ++i) std::memcpy(bytes.data() + i * element.size(), element.data(), element.size());
  node.result_of_type(node.make_constant(node.name(), Shape(shape.begin(), shape.end()), t.dtype, std::move(bytes)),
                      a == nullptr ? 0 : a->t().data_type());
}

std::int64_t combine_numbers(const NodeReader& node, MapOp op, std::int64_t x, std::int64_t y) {
  std::int64_t r = 0;
  bool overflow = false;
  if (op == MapOp::add) overflow = __builtin_add_overflow(x, y, &r);
  if (op == MapOp::sub) overflow = __builtin_sub_overflow(x, y, &r);
  if (op == MapOp::mul) overflow = __builtin_mul_overflow(x, y, &r);
  if (op == MapOp::div && (y == 0 || y == -1)) node.fail("integers are divided by {}", y);
  if (op == MapOp::div) r = x / y;
  if (overflow) node.fail("integers overflow: {} and {}", x, y);
  return r;
}

constexpr std::int64_t largest_offset = std::int64_t{1} << 40;

// At least one is a symbol, and a formula the result
std::optional<Dim> combine_symbols(MapOp op, const Dim& x, const Dim& y) {
  const bool both = !x.known() && !y.known();
  if (op == MapOp::mul)
    return both ? product(std::array{x, y}) : x.known() ? affine(y, x.value(), 0) : affine(x, y.value(), 0);
  if (op == MapOp::add) return both ? sum(x, y) : x.known() ? affine(y, 1, x.value()) : affine(x, 1, y.value());
  if (op == MapOp::sub && x == y) return Dim(0);
  if (op == MapOp::sub && y.known() && y.value() > -largest_offset) return affine(x, 1, -y.value());
  if (op == MapOp::div && y.known() && y.value() > 0) return divided(x, y.value());
  return std::nullopt;
}

// Nothing if that is left to the run
std::optional<Dim> combine(const NodeReader& node, const Dim& x, const Dim& y) {
  const std::string& name = node.op_type();
  const MapOp op = name == "Add" ? MapOp::add : name == "Sub" ? MapOp::sub : name == "Mul" ? MapOp::mul : MapOp::div;
  if (x.known() && y.known()) return Dim(combine_numbers(node, op, x.value(), y.value()));
  const auto result = combine_symbols(op, x, y);
  if (!result || !node.remember_arithmetic(*result, op, x, y)) return std::nullopt;
  return result;
}

constexpr OperatorRow integer_table[] = {{"Constant", 1, import_constant},
                                         {"ConstantOfShape", 9, import_constant_of_shape},
                                         {"Shape", 1, import_shape},
                                         {"Size", 1, import_size}};

bool all_known(const Integers& v) {
  return std::all_of(v.elements.begin(), v.elements.end(), [](const Dim& d) { return d.known(); });
}

// Elements of the result of an elementwise operator
std::size_t broadcast_count(const NodeReader& node, std::initializer_list<const Integers*> all) {
  std::size_t n = 1;
  for (const Integers* v : all) {
    const std::size_t own = v->elements.size();
    if (own != 1 && n != 1 && own != n) node.fail("vectors of {} and {} integers do not broadcast", n, own);
    if (own != 1) n = own;
  }
  return n;
}

const Dim& element(const Integers& v, std::size_t i) { return v.elements[v.elements.size() == 1 ? 0 : i]; }

// Nothing if that is left to the run. Extents of tensors are not negative; other symbols may be.
std::optional<bool> is_same(const NodeReader& node, const Dim& x, const Dim& y) {
  if (x == y) return true;
  if (x.known() && y.known()) return false;
  if (!x.known() && !y.known()) return std::nullopt;
  const auto& [symbol, number] = x.known() ? std::tie(y, x) : std::tie(x, y);
  if (number.value() >= 0) return std::nullopt;
  for (const NetworkTensor& t : node.builder().so_far().tensors)
    if (std::find(t.shape.begin(), t.shape.end(), symbol) != t.shape.end()) return false;
  return std::nullopt;
}

}  // namespace

bool import_integer_concat(const NodeReader& node) {
  if (node.inputs() == 0) return false;
  Integers all;
  for (int i = 0; i < node.inputs(); ++i) {
    if (!node.has(i) || !node.is_integers(i)) return false;
    const Integers part = node.integers(i);
    if (part.scalar) node.fail("input {} is a scalar; expected a vector", i);
    if (i > 0 && part.dtype != all.dtype) return false;
    all.dtype = part.dtype;
    all.elements.insert(all.elements.end(), part.elements.begin(), part.elements.end());
    if (all.elements.size() > 4096) return false;
  }
  (void)node.axis(node.integer("axis", 0), 1);
  node.result(std::move(all));
  return true;
}

bool import_integer_gather(const NodeReader& node) {
  if (!node.is_integers(0) || !node.is_integers(1) || !all_known(node.integers(1))) return false;
  const Integers from = node.integers(0), at = node.integers(1);
  if (from.scalar) node.fail("the input is a scalar");
  (void)node.axis(node.integer("axis", 0), 1);
  Integers result{.elements = {}, .scalar = at.scalar, .dtype = from.dtype};
  for (const auto i : node.numbers(1)) {
    const auto n = static_cast<std::int64_t>(from.elements.size());
    if (i < -n || i >= n) node.fail("index {} is outside the {} elements", i, n);
    result.elements.push_back(from.elements[static_cast<std::size_t>(i < 0 ? i + n : i)]);
  }
  node.result(std::move(result));
  return true;
}

bool import_integer_slice(const NodeReader& node) {
  if (!node.is_integers(0) || node.integers(0).scalar) return false;
  const Integers from = node.integers(0);
  const auto one = [&](int input, std::int64_t otherwise) -> std::int64_t {
    if (!node.has(input)) return otherwise;
    const auto v = node.numbers(input);
    if (v.size() != 1) node.fail("starts, ends, axes and steps must have one element for a vector");
    return v[0];
  };
  const auto n = static_cast<std::int64_t>(from.elements.size());
  (void)node.axis(one(3, 0), 1);
  const std::int64_t step = one(4, 1);
  if (step == 0) node.fail("the step is 0");
  const SliceRange r = slice_range(n, one(1, 0), one(2, n), step);
  Integers result{.elements = {}, .scalar = false, .dtype = from.dtype};
  for (std::int64_t i = 0; i < r.count; ++i)
    result.elements.push_back(from.elements[static_cast<std::size_t>(r.begin + i * step)]);
  node.result(std::move(result));
  return true;
}

bool import_integer_reshape(const NodeReader& node) {
  if (!node.is_integers(0) || !node.is_integers(1) || !all_known(node.integers(1))) return false;
  Integers v = node.integers(0);
  const auto n = static_cast<std::int64_t>(v.elements.size());
  const auto shape = node.numbers(1);
  const bool same = shape.size() == 1 && (shape[0] == -1 || shape[0] == n), scalar = shape.empty() && n == 1;
  if (!same && !scalar) return false;
  v.scalar = scalar;
  node.result(std::move(v));
  return true;
}

bool import_integer_equal(const NodeReader& node) {
  if (!node.is_integers(0) || !node.is_integers(1)) return false;
  const Integers x = node.integers(0), y = node.integers(1);
  if (all_known(x) && all_known(y)) return false;  // constants
  const std::size_t n = broadcast_count(node, {&x, &y});
  std::vector<std::byte> result;
  for (std::size_t i = 0; i < n; ++i) {
    const auto same = is_same(node, element(x, i), element(y, i));
    if (!same) return false;
    result.push_back(std::byte{*same});
  }
  node.result(node.make_constant("equal", x.scalar && y.scalar ? Shape{} : Shape{n}, DType::boolean, result));
  return true;
}

bool import_integer_where(const NodeReader& node) {
  if (!node.is_integers(1) || !node.is_integers(2) || node.is_integers(0)) return false;
  const NetworkTensor condition = node.value(0).tensor();
  const Integers x = node.integers(1), y = node.integers(2);
  if (!condition.bytes || condition.dtype != DType::boolean || condition.shape.size() > 1 || x.dtype != y.dtype ||
      (all_known(x) && all_known(y)))
    return false;
  Integers chosen{.elements = {}, .scalar = condition.shape.empty()};
  for (const std::byte b : *condition.bytes) chosen.elements.emplace_back(static_cast<std::int64_t>(b));
  const std::size_t n = broadcast_count(node, {&chosen, &x, &y});
  Integers result{.elements = {}, .scalar = chosen.scalar && x.scalar && y.scalar, .dtype = x.dtype};
  for (std::size_t i = 0; i < n; ++i) result.elements.push_back(element(element(chosen, i) == Dim(0) ? y : x, i));
  node.result(std::move(result));
  return true;
}

bool import_integer_arithmetic(const NodeReader& node) {
  if (!node.is_integers(0) || !node.is_integers(1)) return false;
  const Integers x = node.integers(0), y = node.integers(1);
  if (x.dtype != DType::i64 || y.dtype != DType::i64) return false;
  const std::size_t n = broadcast_count(node, {&x, &y});
  Integers result{.elements = {}, .scalar = x.scalar && y.scalar};
  for (std::size_t i = 0; i < n; ++i) {
    const auto d = combine(node, element(x, i), element(y, i));
    if (!d) return false;
    result.elements.push_back(*d);
  }
  node.result(std::move(result));
  return true;
}

std::span<const OperatorRow> integer_rows() { return integer_table; }

}  // namespace unisono::network::onnx_import
