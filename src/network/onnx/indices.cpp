/// Operators whose indices are tensors: gathers, scatters, OneHot, ReverseSequence, GridSample.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

void import_gather_elements(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const int axis = node.axis(node.integer("axis", 0), x.shape().size());
  node.result(node.apply(operators::GatherElements{.axis = axis}, {x, node.value(1)}));
}

void import_gather_nd(const NodeReader& node) {
  const std::int64_t batch = node.integer("batch_dims", 0);
  if (batch < 0 || batch > 8) node.fail("batch_dims is {}; expected 0 to 8", batch);
  node.result(node.apply(operators::GatherND{.batch = static_cast<int>(batch)}, node.values(2)));
}

ScatterReduction reduction_of(const NodeReader& node) {
  const std::string name = node.text("reduction", "none");
  if (name == "none") return ScatterReduction::none;
  if (name == "add") return ScatterReduction::add;
  if (name == "mul") return ScatterReduction::mul;
  if (name == "max") return ScatterReduction::max;
  if (name == "min") return ScatterReduction::min;
  node.fail("reduction is '{}'; expected none, add, mul, max or min", name);
}

void import_scatter_elements(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const int axis = node.axis(node.integer("axis", 0), x.shape().size());
  node.result(node.apply(operators::ScatterElements{.axis = axis, .reduction = reduction_of(node)}, node.values(3)));
}

void import_scatter_nd(const NodeReader& node) {
  node.result(node.apply(operators::ScatterND{.reduction = reduction_of(node)}, node.values(3)));
}

// values[0] everywhere but where the new axis is at the index; an index outside of [-depth, depth) is nowhere
void import_one_hot(const NodeReader& node) {
  const double depth = node.needed_scalar(1, "depth");
  if (!(depth >= 1 && depth <= 0x1p20)) node.fail("depth is {}; expected 1 to 2^20", depth);
  const auto n = static_cast<std::int64_t>(depth);
  const NetworkValue given = node.cast(node.value(0), DType::i64), values = node.value(2);
  const std::size_t rank = given.shape().size() + 1;
  if (rank > 8) node.fail("the result has rank {}; the limit is 8", rank);
  if (values.shape() != Shape{2}) node.fail("values has shape {}; expected (2)", to_string(values.shape()));
  const auto axis = static_cast<std::size_t>(node.axis(node.integer("axis", -1), rank));
  const NetworkValue below = node.map(MapOp::less, {given, node.number_like(given, 0)});
  const NetworkValue from_end = node.map(MapOp::add, {given, node.number_like(given, depth)});
  Shape shape = given.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), Dim(1));
  const NetworkValue places = reshape_to(node, node.map(MapOp::select, {below, from_end, given}), shape);
  Shape positions(rank - axis, Dim(1));
  positions[0] = Dim(n);
  const NetworkValue hot = node.map(MapOp::equal, {places, counted(node, n, positions)});
  const auto value_at = [&](std::int64_t i) {
    return reshape_to(node, node.apply(operators::Slice{{i}, {i + 1}, {1}, {0}}, {values}), {});
  };
  node.result(node.map(MapOp::select, {hot, value_at(1), value_at(0)}));
}

// Along the time, the first elements of each sequence in reverse
void import_reverse_sequence(const NodeReader& node) {
  const NetworkValue x = node.value(0), lengths = node.cast(node.value(1), DType::i64);
  const std::size_t rank = x.shape().size();
  if (rank < 2) node.fail("the input has shape {}; expected a time and a batch", to_string(x.shape()));
  const std::int64_t time = node.integer("time_axis", 0), batch = node.integer("batch_axis", 1);
  if (time < 0 || time > 1 || batch < 0 || batch > 1 || time == batch)
    node.fail("time_axis is {} and batch_axis {}; expected 0 and 1, or 1 and 0", time, batch);
  Shape by_time(rank, Dim(1)), by_batch(rank, Dim(1));
  by_time[static_cast<std::size_t>(time)] = x.shape()[static_cast<std::size_t>(time)];
  by_batch[static_cast<std::size_t>(batch)] = x.shape()[static_cast<std::size_t>(batch)];
  const NetworkValue at = reshape_to(node, node.apply(operators::Range{.axis = static_cast<int>(time)}, {x}), by_time);
  const NetworkValue length = reshape_to(node, lengths, by_batch);
  const NetworkValue mirrored = node.map(MapOp::sub, {node.map(MapOp::sub, {length, node.number_like(length, 1)}), at});
  const NetworkValue from = node.map(MapOp::select, {node.map(MapOp::less, {at, length}), mirrored, at});
  node.result(node.apply(operators::GatherElements{.axis = static_cast<int>(time)},
                         {x, node.apply(operators::Expand{}, {from, x})}));
}

void import_grid_sample(const NodeReader& node) {
  operators::GridSample g{.align_corners = node.integer("align_corners", 0) != 0};
  const std::string mode = node.text("mode", "linear"), padding = node.text("padding_mode", "zeros");
  if (mode == "nearest") {
    g.mode = GridMode::nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    g.mode = GridMode::cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    node.fail("mode is '{}'; expected linear, nearest or cubic", mode);
  }
  if (padding == "border") {
    g.padding = GridPadding::border;
  } else if (padding == "reflection") {
    g.padding = GridPadding::reflection;
  } else if (padding != "zeros") {
    node.fail("padding_mode is '{}'; expected zeros, border or reflection", padding);
  }
  node.result(node.apply(g, node.values(2)));
}

constexpr OperatorRow index_table[] = {{"GatherElements", 11, import_gather_elements},
                                       {"GatherND", 11, import_gather_nd},
                                       {"GridSample", 16, import_grid_sample},
                                       {"OneHot", 9, import_one_hot},
                                       {"ReverseSequence", 10, import_reverse_sequence},
                                       {"ScatterElements", 11, import_scatter_elements},
                                       {"ScatterND", 11, import_scatter_nd}};

}  // namespace

std::span<const OperatorRow> index_rows() { return index_table; }

}  // namespace unisono::network::onnx_import
