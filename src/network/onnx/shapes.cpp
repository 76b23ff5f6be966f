/// Operators that move elements or do nothing at all.

#include <algorithm>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

void pass_on(const NodeReader& node) {
  if (node.is_integers(0)) return node.result(node.integers(0));
  if (const Sequence* s = node.sequence(0)) return node.result(*s);
  node.result(node.value(0));
}

// The mask, if it is wanted, is true everywhere
void import_dropout(const NodeReader& node) {
  if (node.has(2) && node.needed_scalar(2, "training_mode") != 0) {
    const bool drops = node.has(1) ? node.needed_scalar(1, "ratio") != 0 : true;
    if (drops) node.fail("training_mode is 1; export the model for inference");
  }
  const NetworkValue x = node.value(0);
  if (node.wants(1)) {
    const NetworkValue yes = node.make_constant("mask", {}, DType::boolean, {std::byte{1}});
    node.result(node.apply(operators::Expand{}, {yes, x}), 1);
  }
  node.result(x);
}

void import_concat(const NodeReader& node) {
  if (import_integer_concat(node)) return;
  const std::vector<NetworkValue> inputs = node.values(node.inputs());
  if (inputs.empty()) node.fail("has no inputs");
  if (!node.attribute("axis")) node.fail("axis is missing");
  node.result(
      node.apply(operators::Concat{.axis = node.axis(node.integer("axis", 0), inputs[0].shape().size())}, inputs));
}

// What -1 in `shape` stands for where x is reshaped to it: what is left of the factors of x
std::optional<Dim> what_is_left(const Shape& x, const Shape& shape) {
  Shape taken = shape;
  if (std::erase(taken, Dim(-1)) != 1) return std::nullopt;
  return whole_quotient(product(x), product(taken));
}

// A tensor that has this very shape, which says what it is when the network runs
std::optional<NetworkValue> tensor_of_shape(const NodeReader& node, const Shape& shape) {
  const auto& tensors = node.builder().so_far().tensors;
  for (TensorId id = 0; id < tensors.size(); ++id)
    if (tensors[id].shape == shape) return NetworkValue(node.builder(), id);
  return std::nullopt;
}

// Numbers as they are; a symbol that stands at its place in x is kept, one other symbol is what is left
void import_reshape(const NodeReader& node) {
  if (import_integer_reshape(node)) return;
  const NetworkValue x = node.value(0);
  const Integers target = node.integers(1);
  if (target.elements.size() > 8) node.fail("the new shape has {} extents; expected at most 8", target.elements.size());
  const bool literal = node.integer("allowzero", 0) != 0;
  Shape shape;
  bool open = false;
  for (std::size_t i = 0; i < target.elements.size(); ++i) {
    const Dim& d = target.elements[i];
    if (d == Dim(0) && !literal) {
      if (i >= x.shape().size()) node.fail("place {} keeps an extent that {} does not have", i, to_string(x.shape()));
      shape.push_back(x.shape()[i]);
    } else {
      if (d.known() && d.value() < -1) node.fail("the new shape has an extent of {}", d.value());
      open = open || d == Dim(-1);
      shape.push_back(d);
    }
  }
  if (!open) return node.result(reshape_to(node, x, shape));
  operators::Reshape r{.shape = {}, .literal = true};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto at = std::find(x.shape().begin(), x.shape().end(), shape[i]);
    if (!shape[i].known() && at == x.shape().end()) {
      const auto left = what_is_left(x.shape(), shape);
      if (!left)
        node.fail("the new shape {} of {} has more than one unknown extent", to_string(shape), to_string(x.shape()));
      std::replace(shape.begin(), shape.end(), Dim(-1), *left);
      return node.result(reshape_to(node, x, shape));
    }
    r.shape.push_back(shape[i].known() ? shape[i].value() : -2 - (at - x.shape().begin()));
  }
  const NetworkValue y = node.apply(std::move(r), {x});
  const auto source = node.reshaped_from(x);
  if (source && y.shape() == source->shape()) return node.result(*source);
  node.remember_reshape(y, source ? *source : x);
  node.result(y);
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
  std::vector<int> perm;
  if (const auto order = node.list("perm")) {
    for (const auto i : *order) perm.push_back(node.axis(i, x.shape().size()));
  } else {
    for (std::size_t i = x.shape().size(); i-- > 0;) perm.push_back(static_cast<int>(i));
  }
  node.result(transposed(node, x, std::move(perm)));
}

void import_unsqueeze(const NodeReader& node) {
  const auto count = node.has(1) ? node.numbers(1) : node.list("axes").value_or(std::vector<std::int64_t>{});
  if (!node.has(1) && !node.list("axes")) node.fail("axes are missing");
  if (count.size() > 8) node.fail("axes has {} numbers; the limit is 8", count.size());
  if (node.is_integers(0) && node.integers(0).scalar && count.size() == 1) {
    Integers v = node.integers(0);
    (void)node.axis(count[0], 1);
    v.scalar = false;
    return node.result(std::move(v));
  }
  const NetworkValue x = node.value(0);
  const std::size_t rank = x.shape().size() + count.size();
  if (rank > 8) node.fail("the result has rank {}; the limit is 8", rank);
  const auto axes = read_axes(node, 1, rank);
  Shape shape;
  std::size_t from = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool fresh = std::find(axes->begin(), axes->end(), static_cast<int>(i)) != axes->end();
    shape.push_back(fresh ? Dim(1) : x.shape()[from++]);
  }
  node.result(reshape_to(node, x, shape));
}

void import_squeeze(const NodeReader& node) {
  if (node.is_integers(0) && node.integers(0).elements.size() == 1 && !node.integers(0).scalar) {
    Integers v = node.integers(0);
    (void)read_axes(node, 1, 1);
    v.scalar = true;
    return node.result(std::move(v));
  }
  const NetworkValue x = node.value(0);
  const auto axes = read_axes(node, 1, x.shape().size());
  Shape shape;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    const Dim& d = x.shape()[i];
    const bool named = axes && std::find(axes->begin(), axes->end(), static_cast<int>(i)) != axes->end();
    if (named && !(d == Dim(1))) node.fail("axis {} has extent {}; expected 1", i, to_string(d));
    if (!axes && !d.known()) node.fail("whether axis {} of {} is squeezed is open; give axes", i, to_string(x.shape()));
    if (!named && (axes || !(d == Dim(1)))) shape.push_back(d);
  }
  node.result(reshape_to(node, x, shape));
}

constexpr OperatorRow shape_table[] = {{"Concat", 4, import_concat},       {"Dropout", 7, import_dropout},
                                       {"Flatten", 1, import_flatten},     {"Identity", 1, pass_on},
                                       {"Reshape", 5, import_reshape},     {"Squeeze", 1, import_squeeze},
                                       {"Transpose", 1, import_transpose}, {"Unsqueeze", 1, import_unsqueeze}};

}  // namespace

NetworkValue transposed(const NodeReader& node, NetworkValue x, std::vector<int> order) {
  return node.apply(operators::Transpose{std::move(order)}, {x});
}

NetworkValue reshape_like(const NodeReader& node, NetworkValue x, NetworkValue like) {
  if (x.shape() == like.shape()) return x;
  const auto known = [](const Dim& d) { return d.known(); };
  if (std::all_of(like.shape().begin(), like.shape().end(), known)) return reshape_to(node, x, like.shape());
  return node.apply(operators::ReshapeLike{}, {x, like});
}

bool can_reshape(const NodeReader& node, const Shape& x, const Shape& shape) {
  const auto is_open = [&](const Dim& d) { return !d.known() && std::find(x.begin(), x.end(), d) == x.end(); };
  return std::count_if(shape.begin(), shape.end(), is_open) <= 1 || tensor_of_shape(node, shape).has_value();
}

NetworkValue reshape_to(const NodeReader& node, NetworkValue x, const Shape& shape) {
  const auto source = node.reshaped_from(x);
  if (x.shape() == shape) return x;
  if (source && source->shape() == shape) return *source;
  const auto finish = [&](NetworkValue y) {
    node.remember_reshape(y, source ? *source : x);
    return y;
  };
  operators::Reshape r;
  int open = 0;
  bool empty = false, kept = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    empty = empty || shape[i] == Dim(0);
    if (shape[i].known()) {
      if (shape[i].value() < 0) node.fail("the new shape {} has a negative extent", to_string(shape));
      r.shape.push_back(shape[i].value());
    } else if (i < x.shape().size() && x.shape()[i] == shape[i]) {
      r.shape.push_back(0);
      kept = true;
    } else if (const auto at = std::find(x.shape().begin(), x.shape().end(), shape[i]); at != x.shape().end()) {
      r.shape.push_back(-2 - (at - x.shape().begin()));
    } else {
      r.shape.push_back(-1);
      ++open;
    }
  }
  if (open > 1 || (empty && kept)) {
    if (const auto like = tensor_of_shape(node, shape)) return finish(node.apply(operators::ReshapeLike{}, {x, *like}));
    node.fail("the new shape {} has more than one unknown extent", to_string(shape));
  }
  r.literal = empty;
  return finish(node.apply(std::move(r), {x}));
}

std::span<const OperatorRow> shape_rows() { return shape_table; }

}  // namespace unisono::network::onnx_import
