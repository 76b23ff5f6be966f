/// Operators that pick, repeat and rearrange elements.

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

void import_gather(const NodeReader& node) {
  if (import_integer_gather(node)) return;
  const NetworkValue x = node.value(0);
  node.result(
      node.apply(operators::Gather{.axis = node.axis(node.integer("axis", 0), x.shape().size())}, {x, node.value(1)}));
}

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_cropped = std::int64_t{1} << 31;

// The end of a slice as a number, counted from the end of the axis: all but the last few elements; nothing where it is
// neither that nor a number
std::optional<std::int64_t> end_as_number(const Dim& end, const Dim& extent) {
  constexpr std::int64_t most_left_out = 16;
  if (end.known()) return end.value();
  if (end == extent) return to_the_end;
  for (std::int64_t left_out = 1; left_out <= most_left_out; ++left_out)
    if (affine(end, 1, left_out) == extent) return -left_out;
  return std::nullopt;
}

// The elements from `start` to an end that follows from extents, such as positions up to the length of a text. Where
// the axis is shorter than that, the run ends with an error; it is not cut off there.
NetworkValue taken_to(const NodeReader& node, NetworkValue x, int axis, std::int64_t start, const Dim& end,
                      std::int64_t step) {
  if (start < 0 || step != 1)
    node.fail("its end {} follows from extents, its start is {} and its step {}; expected 0 or more, and 1",
              to_string(end), start, step);
  NetworkValue at = counted(node, end, {end});
  if (start > 0) at = node.apply(operators::Slice{{start}, {to_the_end}, {1}, {0}}, {at});
  return node.apply(operators::Gather{.axis = axis}, {x, at});
}

void import_slice(const NodeReader& node) {
  if (import_integer_slice(node)) return;
  NetworkValue x = node.value(0);
  const auto starts = node.numbers(1);
  const std::vector<Dim> ends = node.integers(2).elements;
  std::vector<std::int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3)) axes = node.numbers(3);
  const auto steps = node.has(4) ? node.numbers(4) : std::vector<std::int64_t>(starts.size(), 1);
  operators::Slice s{.starts = starts, .ends = {}, .steps = steps, .axes = {}};
  for (const auto a : axes) s.axes.push_back(node.axis(a, x.shape().size()));
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool is_axis = i < s.axes.size() && i < starts.size() && i < steps.size();
    const Dim extent = is_axis ? x.shape()[static_cast<std::size_t>(s.axes[i])] : Dim(0);
    const auto number = end_as_number(ends[i], extent);
    if (!number && is_axis) x = taken_to(node, x, s.axes[i], std::exchange(s.starts[i], 0), ends[i], steps[i]);
    s.ends.push_back(number.value_or(to_the_end));
  }
  node.result(node.apply(std::move(s), {x}));
}

std::int64_t sum_of(const std::vector<std::int64_t>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}
bool are_alike(const std::vector<std::int64_t>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](std::int64_t p) { return p == parts[0]; });
}

// x, whose open axis has this extent: a run in which it has another ends with an error
NetworkValue with_extent(const NodeReader& node, NetworkValue x, int axis, std::int64_t extent) {
  operators::Reshape r{std::vector<std::int64_t>(x.shape().size(), 0)};
  r.shape[static_cast<std::size_t>(axis)] = extent;
  return node.apply(std::move(r), {x});
}

// Parts of one length, the last of which reaches beyond the axis, end with it: PyTorch's exporter writes so what it
// splits into pieces of a length without knowing the extent
void end_with_axis(std::vector<std::int64_t>& parts, std::int64_t extent) {
  const std::int64_t more = sum_of(parts) - extent;
  if (are_alike(parts) && more > 0 && more < parts[0]) parts.back() -= more;
}

// Lengths of the parts that are given; nothing if they are to be equal
std::optional<std::vector<std::int64_t>> given_parts(const NodeReader& node, const Dim& extent) {
  auto parts = node.has(1) ? std::optional(node.numbers(1)) : node.list("split");
  if (!parts) return std::nullopt;
  if (std::ssize(*parts) != node.outputs()) node.fail("has {} outputs and {} parts", node.outputs(), parts->size());
  for (const std::int64_t length : *parts)
    if (length < 0 || length > std::numeric_limits<std::int32_t>::max()) node.fail("a part has {} elements", length);
  if (extent.known()) end_with_axis(*parts, extent.value());
  return parts;
}

// As equal as they can be with the last one shorter
std::vector<std::int64_t> equal_parts(const NodeReader& node, const Dim& extent, std::int64_t n) {
  const bool uneven = node.opset() >= 18;
  if (!uneven && extent.value() % n != 0) node.fail("{} elements do not fall into {} equal parts", extent.value(), n);
  const std::int64_t part = (extent.value() + n - 1) / n;
  std::vector<std::int64_t> parts(static_cast<std::size_t>(n), part);
  parts.back() = extent.value() - part * (n - 1);
  if (parts.back() < 0)
    node.fail("{} elements do not fall into {} parts of {}, of which the last alone may be shorter", extent.value(), n,
              part);
  return parts;
}

// Parts of an open axis of which all but the last have one length: a given one, or 1 for what the extent makes it
void split_unevenly(const NodeReader& node, NetworkValue x, int axis, std::int64_t length = 1) {
  const std::int64_t n = node.outputs();
  for (std::int64_t i = 0; i < n; ++i)
    node.result(node.apply(operators::Slice{{i}, {i + 1}, {length}, {axis}, n}, {x}), static_cast<int>(i));
}

// Equal parts of an open axis: it becomes one of n parts and one of their elements. A run whose extent is not a
// multiple of n ends with an error.
void split_open_axis(const NodeReader& node, NetworkValue x, int axis) {
  const auto a = static_cast<std::ptrdiff_t>(axis);
  const std::int64_t n = node.outputs();
  const Dim extent = x.shape()[static_cast<std::size_t>(axis)];
  const auto whole = whole_quotient(extent, Dim(n));
  if (!whole && node.opset() >= 18) return split_unevenly(node, x, axis);
  Shape one = x.shape();
  one[static_cast<std::size_t>(axis)] = whole.value_or(divided(extent, n));
  Shape apart = one;
  apart.insert(apart.begin() + a, Dim(n));
  const NetworkValue parts = reshape_to(node, x, apart);
  for (std::int64_t i = 0; i < n; ++i)
    node.result(reshape_to(node, node.apply(operators::Slice{{i}, {i + 1}, {1}, {axis}}, {parts}), one),
                static_cast<int>(i));
}

void import_split(const NodeReader& node) {
  NetworkValue x = node.value(0);
  const int axis = node.axis(node.integer("axis", 0), x.shape().size());
  Dim extent = x.shape()[static_cast<std::size_t>(axis)];
  if (node.outputs() > 4096) node.fail("has {} outputs; the limit is 4096", node.outputs());
  auto parts = given_parts(node, extent);
  if (parts && !extent.known() && are_alike(*parts) && parts->at(0) > 1)
    return split_unevenly(node, x, axis, parts->at(0));
  if (parts && !extent.known()) {
    extent = sum_of(*parts);
    x = with_extent(node, x, axis, extent.value());
  }
  if (!parts) {
    const std::int64_t n = node.integer("num_outputs", node.outputs());
    if (n < 1 || n != node.outputs()) node.fail("num_outputs is {}, and there are {} outputs", n, node.outputs());
    if (!extent.known()) return split_open_axis(node, x, axis);
    parts = equal_parts(node, extent, n);
  }
  std::int64_t begin = 0;
  for (int i = 0; i < node.outputs(); ++i) {
    const std::int64_t length = (*parts)[static_cast<std::size_t>(i)];
    node.result(node.apply(operators::Slice{{begin}, {begin + length}, {1}, {axis}}, {x}), i);
    begin += length;
  }
  if (extent.known() && begin != extent.value())
    node.fail("the parts have {} elements in all, and the axis {}", begin, extent.value());
}

// A tensor of this rank with the extent at the axis, and 1 at all others: the first elements of one that has the extent
NetworkValue extent_along(const NodeReader& node, const Dim& extent, std::size_t axis, std::size_t rank) {
  const auto& tensors = node.builder().so_far().tensors;
  for (TensorId id = 0; id < tensors.size(); ++id) {
    const Shape& shape = tensors[id].shape;
    const auto at = static_cast<std::size_t>(std::find(shape.begin(), shape.end(), extent) - shape.begin());
    if (at == shape.size()) continue;
    operators::Slice first;
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != at) first.axes.push_back(static_cast<int>(i));
    first.starts.assign(first.axes.size(), 0);
    first.ends.assign(first.axes.size(), 1);
    first.steps.assign(first.axes.size(), 1);
    const NetworkValue like = node.apply(std::move(first), {NetworkValue(node.builder(), id)});
    Shape wanted(rank, Dim(1));
    wanted[axis] = extent;
    return reshape_to(node, like, wanted);
  }
  node.fail("the extent {} is not known, and no tensor has it", to_string(extent));
}

// Repeated along an axis as often as an extent says: an axis of its own is expanded to it, and both become one
NetworkValue repeated(const NodeReader& node, NetworkValue x, std::size_t axis, const Dim& times) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  Shape apart = x.shape(), whole = x.shape();
  apart.insert(apart.begin() + at, Dim(1));
  whole[axis] = product(std::array{times, whole[axis]});
  const NetworkValue like = extent_along(node, times, axis, apart.size());
  return reshape_to(node, node.apply(operators::Expand{}, {reshape_to(node, x, apart), like}), whole);
}

void import_tile(const NodeReader& node) {
  NetworkValue x = node.value(0);
  const std::vector<Dim> repeats = node.integers(1).elements;
  operators::Tile tile;
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) {
    if (!repeats[axis].known() && axis < x.shape().size()) x = repeated(node, x, axis, repeats[axis]);
    tile.repeats.push_back(repeats[axis].known() ? repeats[axis].value() : 1);
  }
  node.result(node.apply(std::move(tile), {x}));
}

// x with axes of 1 before its own
NetworkValue lifted(const NodeReader& node, NetworkValue x, std::size_t rank) {
  if (x.shape().size() >= rank) return x;
  Shape shape(rank - x.shape().size(), Dim(1));
  shape.insert(shape.end(), x.shape().begin(), x.shape().end());
  return reshape_to(node, x, shape);
}

// Tiled to numbers where x has one element; for a symbol stands a tensor that has that extent
void import_expand(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const Integers target = node.integers(1);
  if (target.elements.size() > 8) node.fail("the shape has {} extents; expected at most 8", target.elements.size());
  const Shape wanted(target.elements);
  const auto& tensors = node.builder().so_far().tensors;
  const bool symbols = std::any_of(wanted.begin(), wanted.end(), [](const Dim& d) { return !d.known(); });
  for (TensorId id = 0; symbols && id < tensors.size(); ++id)
    if (tensors[id].shape == wanted)
      return node.result(node.apply(operators::Expand{}, {x, NetworkValue(node.builder(), id)}));
  const std::size_t rank = std::max(wanted.size(), x.shape().size());
  NetworkValue y = lifted(node, x, rank);
  operators::Tile tile{std::vector<std::int64_t>(rank, 1)};
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t axis = rank - wanted.size() + i;
    const Dim have = y.shape()[axis], &n = wanted[i];
    if (n.known() && n.value() < 0) node.fail("the shape has an extent of {}", n.value());
    if (have == n || n == Dim(1)) continue;
    if (have.known() && n.known() && !(have == Dim(1)))
      node.fail("{} does not broadcast to {}", to_string(x.shape()), to_string(wanted));
    if (!(have == Dim(1)))
      node.fail("extent {} does not broadcast to {} for every input", to_string(have), to_string(n));
    if (n.known()) tile.repeats[axis] = n.value();
    if (!n.known()) open.push_back(axis);
  }
  y = node.apply(std::move(tile), {y});
  for (const std::size_t axis : open)
    y = node.apply(operators::Expand{}, {y, extent_along(node, wanted[axis + wanted.size() - rank], axis, rank)});
  node.result(y);
}

template <bool inverse>
void import_depth_to_space(const NodeReader& node) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") node.fail("mode is '{}'; expected DCR or CRD", mode);
  node.result(node.apply(
      operators::DepthToSpace{
          .block = node.integer("blocksize", 0), .column_row_depth = mode == "CRD", .inverse = inverse},
      {node.value(0)}));
}

// Negative margins crop ahead of the others, which repeat what is left
NetworkValue cropped(const NodeReader& node, NetworkValue x, operators::Pad& p) {
  operators::Slice crop;
  for (std::size_t i = 0; i < p.before.size(); ++i) {
    if (p.before[i] >= 0 && p.after[i] >= 0) continue;
    if (p.before[i] < -most_cropped || p.after[i] < -most_cropped)
      node.fail("margins {} and {} of axis {} are out of range", p.before[i], p.after[i], i);
    crop.axes.push_back(static_cast<int>(i));
    crop.starts.push_back(-std::min<std::int64_t>(p.before[i], 0));
    crop.ends.push_back(p.after[i] < 0 ? p.after[i] : to_the_end);
    crop.steps.push_back(1);
    p.before[i] = std::max<std::int64_t>(p.before[i], 0);
    p.after[i] = std::max<std::int64_t>(p.after[i], 0);
  }
  return crop.axes.empty() ? x : node.apply(std::move(crop), {x});
}

void import_pad(const NodeReader& node) {
  NetworkValue x = node.value(0);
  const std::string mode = node.text("mode", "constant");
  operators::Pad p;
  if (mode == "edge") {
    p.mode = PadMode::edge;
  } else if (mode == "reflect") {
    p.mode = PadMode::reflect;
  } else if (mode == "wrap") {
    p.mode = PadMode::wrap;
  } else if (mode != "constant") {
    node.fail("mode '{}' is not supported; constant, edge, reflect and wrap are", mode);
  }
  const auto pads = node.numbers(1);
  const std::size_t rank = x.shape().size();
  std::vector<std::int64_t> axes;
  if (node.has(3)) {
    axes = node.numbers(3);
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (pads.size() != 2 * axes.size()) node.fail("pads has {} numbers; expected {}", pads.size(), 2 * axes.size());
  p.before.assign(rank, 0);
  p.after.assign(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(node.axis(axes[i], rank));
    p.before[axis] = pads[i];
    p.after[axis] = pads[axes.size() + i];
  }
  if (p.mode != PadMode::constant) x = cropped(node, x, p);
  if (node.has(2) && !node.is_empty(2)) p.value = node.needed_scalar(2, "constant_value");
  node.result(node.apply(std::move(p), {x}));
}

constexpr OperatorRow movement_table[] = {{"DepthToSpace", 1, import_depth_to_space<false>},
                                          {"Expand", 8, import_expand},
                                          {"Gather", 1, import_gather},
                                          {"Pad", 11, import_pad},
                                          {"Slice", 10, import_slice},
                                          {"SpaceToDepth", 1, import_depth_to_space<true>},
                                          {"Split", 2, import_split},
                                          {"Tile", 6, import_tile}};

}  // namespace

std::span<const OperatorRow> movement_rows() { return movement_table; }

}  // namespace unisono::network::onnx_import
