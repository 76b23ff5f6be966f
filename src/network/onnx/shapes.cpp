/// Operators that move elements or do nothing at all.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace coda::network::onnx_import {

namespace {

constexpr int type_float = 1, type_int32 = 6, type_int64 = 7, type_float16 = 10, type_double = 11, type_bfloat16 = 16;

void pass_on(const NodeReader& node) {
  if (node.is_integers(0)) return node.result(node.integers(0));
  node.result(node.value(0));
}

void import_dropout(const NodeReader& node) {
  if (node.has(2) && !node.is_integers(2)) node.fail("training_mode must be a constant");
  if (node.has(2) && node.numbers(2) != std::vector<std::int64_t>{0})
    node.fail("training_mode is 1; export the model for inference");
  pass_on(node);
}

void import_cast(const NodeReader& node) {
  const auto to = node.integer("to", 0);
  const bool integers = node.is_integers(0);
  if (integers && (to == type_int64 || to == type_int32)) return node.result(node.integers(0));
  if (to != type_float)
    node.fail("a cast {} to {} is not supported; only to float32 is", integers ? "of integers" : "",
              data_type_name(static_cast<int>(to)));
  node.result(node.value(0));
}

void import_concat(const NodeReader& node) {
  bool integers = node.inputs() > 0;
  for (int i = 0; i < node.inputs(); ++i) integers = integers && node.is_integers(i);
  if (integers) {
    Integers all;
    for (int i = 0; i < node.inputs(); ++i) {
      const Integers part = node.integers(i);
      if (part.scalar) node.fail("input {} is a scalar; expected a vector", i);
      all.elements.insert(all.elements.end(), part.elements.begin(), part.elements.end());
      if (all.elements.size() > 4096) node.fail("the result has more than 4096 integers");
    }
    return node.result(std::move(all));
  }
  std::vector<NetworkValue> inputs;
  for (int i = 0; i < node.inputs(); ++i) inputs.push_back(node.value(i));
  if (inputs.empty()) node.fail("has no inputs");
  if (!node.attribute("axis")) node.fail("axis is missing");
  node.result(
      node.apply(operators::Concat{.axis = node.axis(node.integer("axis", 0), inputs[0].shape().size())}, inputs));
}

// x with another shape; back to the shape that it was reshaped from it is that tensor again
void finish_reshape(const NodeReader& node, NetworkValue x, std::vector<std::int64_t> shape,
                    const std::optional<Shape>& wanted) {
  const auto source = node.reshaped_from(x);
  if (source && wanted && source->shape() == *wanted) return node.result(*source);
  const NetworkValue y = node.apply(operators::Reshape{std::move(shape)}, {x});
  if (source && y.shape() == source->shape()) return node.result(*source);
  node.remember_reshape(y, source ? *source : x);
  node.result(y);
}

void import_reshape(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const Integers target = node.integers(1);
  if (target.elements.size() > 8) node.fail("the new shape has {} extents; expected at most 8", target.elements.size());
  if (node.integer("allowzero", 0) != 0) node.fail("allowzero is not supported");
  std::vector<std::int64_t> shape;
  bool exact = true;
  int symbols = 0;
  for (std::size_t i = 0; i < target.elements.size(); ++i) {
    const Dim& d = target.elements[i];
    if (d.known()) {
      exact = exact && d.value() > 0;
      shape.push_back(d.value());
    } else if (i < x.shape().size() && x.shape()[i] == d) {
      shape.push_back(0);
    } else {
      ++symbols;
      shape.push_back(-1);
    }
  }
  if (symbols > 1 || (symbols == 1 && std::count(shape.begin(), shape.end(), -1) > 1)) {
    if (const auto s = node.reshaped_from(x); !s || s->shape() != Shape(target.elements))
      node.fail("the new shape {} has more than one unknown extent", to_string(Shape(target.elements)));
  }
  finish_reshape(node, x, std::move(shape), exact ? std::optional(Shape(target.elements)) : std::nullopt);
}

void import_flatten(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  const std::int64_t axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank) node.fail("axis is {}; expected {} to {}", axis, -rank, rank);
  node.result(node.apply(operators::Flatten{.axis = static_cast<int>(axis < 0 ? axis + rank : axis)}, {x}));
}

void import_transpose(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  operators::Transpose t;
  if (const auto order = node.list("perm")) {
    for (const auto i : *order) t.order.push_back(node.axis(i, x.shape().size()));
  } else {
    for (std::size_t i = x.shape().size(); i-- > 0;) t.order.push_back(static_cast<int>(i));
  }
  node.result(node.apply(std::move(t), {x}));
}

void import_pad(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (const auto mode = node.text("mode", "constant"); mode != "constant")
    node.fail("mode '{}' is not supported; only constant is", mode);
  const auto pads = node.numbers(1);
  const std::size_t rank = x.shape().size();
  std::vector<std::int64_t> axes;
  if (node.has(3)) {
    axes = node.numbers(3);
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) node.fail("pads has {} numbers; expected {}", pads.size(), 2 * axes.size());
  operators::Pad p{
      .before = std::vector<std::int64_t>(rank, 0), .after = std::vector<std::int64_t>(rank, 0), .value = 0};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(node.axis(axes[i], rank));
    p.before[axis] = pads[i];
    p.after[axis] = pads[axes.size() + i];
  }
  if (node.has(2)) {
    const auto& value = node.needed_constant(2, "constant_value");
    if (value.size() != 1) node.fail("constant_value has {} elements; expected a scalar", value.size());
    p.value = static_cast<double>(value[0]);
  }
  node.result(node.apply(std::move(p), {x}));
}

// The axes of Unsqueeze and Squeeze: an attribute before opset 13, an input since
std::optional<std::vector<std::int64_t>> given_axes(const NodeReader& node) {
  if (node.has(1)) return node.numbers(1);
  return node.list("axes");
}

void import_unsqueeze(const NodeReader& node) {
  const auto axes = given_axes(node);
  if (!axes) node.fail("axes are missing");
  if (node.is_integers(0)) {
    Integers v = node.integers(0);
    if (!v.scalar || axes->size() != 1) node.fail("only a scalar of integers can be unsqueezed, to a vector");
    v.scalar = false;
    return node.result(std::move(v));
  }
  const NetworkValue x = node.value(0);
  const std::size_t rank = x.shape().size() + axes->size();
  if (rank > 8) node.fail("the result has rank {}; the limit is 8", rank);
  std::vector<bool> fresh(rank, false);
  for (const auto a : *axes) fresh[static_cast<std::size_t>(node.axis(a, rank))] = true;
  std::vector<std::int64_t> shape;
  std::size_t from = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (fresh[i] || from >= x.shape().size()) {
      shape.push_back(1);
      continue;
    }
    const Dim& d = x.shape()[from];
    shape.push_back(d.known() ? d.value() : from == i ? 0 : -1);
    ++from;
  }
  if (from != x.shape().size()) node.fail("axes name the same axis twice");
  finish_reshape(node, x, std::move(shape), std::nullopt);
}

void import_squeeze(const NodeReader& node) {
  const auto axes = given_axes(node);
  if (node.is_integers(0)) {
    Integers v = node.integers(0);
    if (v.elements.size() != 1) node.fail("only a vector of one integer can be squeezed");
    v.scalar = true;
    return node.result(std::move(v));
  }
  const NetworkValue x = node.value(0);
  std::vector<bool> drop(x.shape().size(), false);
  for (std::size_t i = 0; i < drop.size(); ++i) drop[i] = !axes && x.shape()[i] == Dim(1);
  if (axes)
    for (const auto a : *axes) drop[static_cast<std::size_t>(node.axis(a, drop.size()))] = true;
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < drop.size(); ++i) {
    const Dim& d = x.shape()[i];
    if (drop[i] && !(d == Dim(1))) node.fail("axis {} has extent {}; expected 1", i, to_string(d));
    if (!drop[i]) shape.push_back(d.known() ? d.value() : shape.size() == i ? 0 : -1);
  }
  finish_reshape(node, x, std::move(shape), std::nullopt);
}

constexpr OperatorRow shape_table[] = {{"Cast", 9, import_cast},           {"Concat", 4, import_concat},
                                       {"Dropout", 7, import_dropout},     {"Flatten", 1, import_flatten},
                                       {"Identity", 1, pass_on},           {"Pad", 11, import_pad},
                                       {"Reshape", 5, import_reshape},     {"Squeeze", 1, import_squeeze},
                                       {"Transpose", 1, import_transpose}, {"Unsqueeze", 1, import_unsqueeze}};

}  // namespace

std::span<const OperatorRow> shape_rows() { return shape_table; }

}  // namespace coda::network::onnx_import
