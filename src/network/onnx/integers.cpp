/// Constants, and integers that follow from shapes: the chains by which exporters compute the shape of a Reshape.

#include <algorithm>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace coda::network::onnx_import {

namespace {

void import_constant(const NodeReader& node) {
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
  const schema::TensorProto& t = a->t();
  const std::string what = fmt::format("Constant '{}'", node.name());
  if (is_integer_tensor(t)) {
    if (t.dims_size() > 1) node.fail("is an integer tensor of rank {}; expected at most 1", t.dims_size());
    const auto numbers = integer_elements(t, what);
    return node.result(Integers{.elements = {numbers.begin(), numbers.end()}, .scalar = t.dims_size() == 0});
  }
  std::vector<float> elements = float_elements(t, what);
  if (elements.empty()) return node.result(Integers{});
  node.result(node.make_constant(node.name(), Shape(t.dims().begin(), t.dims().end()), std::move(elements)));
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

void import_gather(const NodeReader& node) {
  if (!node.is_integers(0)) node.fail("only elements of known integers can be gathered, such as those of a Shape");
  const Integers from = node.integers(0), at = node.integers(1);
  Integers result{.elements = {}, .scalar = at.scalar};
  for (const auto i : node.numbers(1)) {
    const auto n = static_cast<std::int64_t>(from.elements.size());
    if (i < -n || i >= n) node.fail("index {} is outside the {} elements", i, n);
    result.elements.push_back(from.elements[static_cast<std::size_t>(i < 0 ? i + n : i)]);
  }
  node.result(std::move(result));
}

void import_slice(const NodeReader& node) {
  if (!node.is_integers(0)) node.fail("only known integers can be sliced, such as those of a Shape");
  const Integers from = node.integers(0);
  const auto one = [&](int input, std::int64_t otherwise) {
    if (!node.has(input)) return otherwise;
    const auto v = node.numbers(input);
    if (v.size() != 1) node.fail("starts, ends, axes and steps must have one element");
    return v[0];
  };
  if (from.scalar) node.fail("the input is a scalar");
  const auto n = static_cast<std::int64_t>(from.elements.size());
  if (const auto axis = one(3, 0); axis != 0 && axis != -1) node.fail("axis is {}; expected 0", axis);
  if (const auto step = one(4, 1); step != 1) node.fail("step is {}; expected 1", step);
  const auto place = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  const std::int64_t begin = place(one(1, 0)), end = std::max(begin, place(one(2, n)));
  node.result(Integers{.elements = {from.elements.begin() + begin, from.elements.begin() + end}});
}

void import_constant_of_shape(const NodeReader& node) {
  const auto shape = node.numbers(0);
  double count = 1;
  for (const auto d : shape) {
    if (d < 1) node.fail("the shape has an extent of {}; expected at least 1", d);
    count *= static_cast<double>(d);
  }
  if (count > 0x1p20) node.fail("the result has {} elements; the limit is 2^20", count);
  const auto n = static_cast<std::size_t>(count);
  const auto* a = node.attribute("value");
  const std::string what = fmt::format("ConstantOfShape '{}'", node.name());
  if (a != nullptr && is_integer_tensor(a->t())) {
    const auto v = integer_elements(a->t(), what);
    if (v.size() != 1 || shape.size() > 1) node.fail("expected a vector of one repeated integer");
    return node.result(Integers{.elements = std::vector<Dim>(n, Dim(v[0])), .scalar = shape.empty()});
  }
  const auto v = a == nullptr ? std::vector<float>{0} : float_elements(a->t(), what);
  if (v.size() != 1) node.fail("value has {} elements; expected 1", v.size());
  node.result(node.make_constant(node.name(), Shape(shape.begin(), shape.end()), std::vector<float>(n, v[0])));
}

Dim combine(const NodeReader& node, const Dim& x, const Dim& y) {
  const std::string& op = node.op_type();
  if (x.known() && y.known()) {
    std::int64_t r = 0;
    bool overflow = false;
    if (op == "Add") overflow = __builtin_add_overflow(x.value(), y.value(), &r);
    if (op == "Sub") overflow = __builtin_sub_overflow(x.value(), y.value(), &r);
    if (op == "Mul") overflow = __builtin_mul_overflow(x.value(), y.value(), &r);
    if (op == "Div" && (y.value() == 0 || y.value() == -1)) node.fail("integers are divided by {}", y.value());
    if (op == "Div") r = x.value() / y.value();
    if (overflow) node.fail("integers overflow: {} and {}", x.value(), y.value());
    return Dim(r);
  }
  if (op == "Mul" && (x.known() || y.known())) return x.known() ? affine(y, x.value(), 0) : affine(x, y.value(), 0);
  if (op == "Add" && (x.known() || y.known())) return x.known() ? affine(y, 1, x.value()) : affine(x, 1, y.value());
  if (op == "Sub" && y.known() && y.value() > -(std::int64_t{1} << 40)) return affine(x, 1, -y.value());
  node.fail("arithmetic on the symbols {} and {} is not supported", to_string(x), to_string(y));
}

constexpr OperatorRow integer_table[] = {{"Constant", 1, import_constant},
                                         {"ConstantOfShape", 9, import_constant_of_shape},
                                         {"Gather", 1, import_gather},
                                         {"Shape", 1, import_shape},
                                         {"Slice", 10, import_slice}};

}  // namespace

bool import_integer_arithmetic(const NodeReader& node) {
  if (!node.is_integers(0) || !node.is_integers(1)) return false;
  const Integers x = node.integers(0), y = node.integers(1);
  const std::size_t n = std::max(x.elements.size(), y.elements.size());
  if ((x.elements.size() != n && x.elements.size() != 1) || (y.elements.size() != n && y.elements.size() != 1))
    node.fail("vectors of {} and {} integers do not broadcast", x.elements.size(), y.elements.size());
  Integers result{.elements = {}, .scalar = x.scalar && y.scalar};
  for (std::size_t i = 0; i < n; ++i)
    result.elements.push_back(
        combine(node, x.elements[x.elements.size() == 1 ? 0 : i], y.elements[y.elements.size() == 1 ? 0 : i]));
  node.result(std::move(result));
  return true;
}

std::span<const OperatorRow> integer_rows() { return integer_table; }

}  // namespace coda::network::onnx_import
