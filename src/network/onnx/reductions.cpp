/// ReduceMean and its kin, ArgMax, ArgMin; Mean of tensors.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// What a reduction over no axes leaves: every element by itself, with what the operator does before and after the sum
NetworkValue each_by_itself(const NodeReader& node, ReduceOp op, NetworkValue x) {
  const bool f32 = x.dtype() == DType::f32;
  switch (op) {
    case ReduceOp::l1:
    case ReduceOp::l2: return f32 ? node.elementwise(Op::abs, {x}) : node.map(MapOp::abs, {x});
    case ReduceOp::sum_square: return f32 ? node.elementwise(Op::square, {x}) : node.map(MapOp::mul, {x, x});
    case ReduceOp::log_sum: return f32 ? node.elementwise(Op::log, {x}) : node.map(MapOp::log, {x});
    case ReduceOp::log_sum_exp:  // log(exp(x))
    case ReduceOp::sum:
    case ReduceOp::mean:
    case ReduceOp::max:
    case ReduceOp::min:
    case ReduceOp::prod: return x;
  }
  return x;
}

// How many elements one result is of, as the type of x: a constant, or the product of extents that the run knows
NetworkValue reduced_elements(const NodeReader& node, NetworkValue x, const std::vector<int>& axes) {
  std::int64_t known = 1;
  std::vector<NetworkValue> open;
  for (const int a : axes) {
    const Dim d = x.shape()[static_cast<std::size_t>(a)];
    if (d.known() && __builtin_mul_overflow(known, d.value(), &known)) node.fail("reduces more than 2^63 elements");
    if (!d.known()) open.push_back(node.apply(operators::ShapeOf{a, a + 1}, {x}));
  }
  NetworkValue count = node.number_like(x, static_cast<double>(known));
  for (const NetworkValue& extent : open)
    count = node.map(MapOp::mul, {count, node.cast(node.apply(operators::Reshape{}, {extent}), x.dtype())});
  return count;
}

// Integers: means are rounded towards zero, as NumPy's are that are stored as integers; sums of i32 are taken in i64,
// and roots and logarithms in f64
NetworkValue reduced_integers(const NodeReader& node, ReduceOp op, NetworkValue x, const std::vector<int>& axes,
                              bool keep) {
  const DType type = x.dtype();
  const auto reduced = [&](ReduceOp inner, NetworkValue v) {
    return node.apply(operators::Reduce{inner, axes, keep}, {v});
  };
  switch (op) {
    case ReduceOp::mean: {
      const NetworkValue wide = type == DType::u64 ? x : node.cast(x, DType::i64);
      const NetworkValue sum = reduced(ReduceOp::sum, wide);
      return node.cast(node.map(MapOp::div, {sum, reduced_elements(node, wide, axes)}), type);
    }
    case ReduceOp::l1: return reduced(ReduceOp::sum, node.map(MapOp::abs, {x}));
    case ReduceOp::l2:
    case ReduceOp::log_sum:
    case ReduceOp::log_sum_exp: return node.cast(reduced(op, node.cast(x, DType::f64)), type);
    default: return reduced(op, x);
  }
}

// Without axes all are reduced, or none if noop_with_empty_axes says so. For most operators the axes became an input in
// opset 18, for ReduceSum in 13.
template <ReduceOp op>
void import_reduce(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const bool keep = node.integer("keepdims", 1) != 0;
  auto axes = read_axes(node, 1, x.shape().size());
  if (!axes || axes->empty()) {
    if (node.integer("noop_with_empty_axes", 0) != 0) return node.result(each_by_itself(node, op, x));
    axes.emplace();
    for (std::size_t i = 0; i < x.shape().size(); ++i) axes->push_back(static_cast<int>(i));
  }
  const bool integers = !is_float(x.dtype()) && x.dtype() != DType::boolean;
  if (axes->empty()) {  // a scalar: over the axis of one element
    const NetworkValue row = node.apply(operators::Reshape{{1}}, {x});
    return node.result(integers ? reduced_integers(node, op, row, {0}, false)
                                : node.apply(operators::Reduce{op, {0}, false}, {row}));
  }
  std::sort(axes->begin(), axes->end());
  if (op == ReduceOp::mean && x.dtype() == DType::f32 && x.shape().size() == 4 && *axes == std::vector{2, 3} && keep)
    return node.result(node.apply(operators::GlobalAveragePool{}, {x}));
  node.result(integers ? reduced_integers(node, op, x, *axes, keep)
                       : node.apply(operators::Reduce{op, *axes, keep}, {x}));
}

// The sum of one tensor or more, which broadcast, divided by how many they are
void import_mean(const NodeReader& node) {
  NetworkValue sum = node.value(0);
  const bool f32 = sum.dtype() == DType::f32;
  for (int i = 1; i < node.inputs(); ++i)
    sum = f32 ? node.elementwise(Op::add, {sum, node.value(i)}) : node.map(MapOp::add, {sum, node.value(i)});
  if (node.inputs() == 1) return node.result(node.apply(operators::Identity{}, {sum}));
  const NetworkValue count = node.number_like(sum, node.inputs());
  node.result(f32 ? node.elementwise(Op::div, {sum, count}) : node.map(MapOp::div, {sum, count}));
}

template <bool smallest>
void import_arg(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  node.result(node.apply(operators::ArgReduce{.axis = node.axis(node.integer("axis", 0), x.shape().size()),
                                              .smallest = smallest,
                                              .keep = node.integer("keepdims", 1) != 0,
                                              .last = node.integer("select_last_index", 0) != 0},
                         {x}));
}

constexpr OperatorRow reduction_table[] = {{"ArgMax", 1, import_arg<false>},
                                           {"ArgMin", 1, import_arg<true>},
                                           {"Mean", 8, import_mean},
                                           {"ReduceL1", 1, import_reduce<ReduceOp::l1>},
                                           {"ReduceL2", 1, import_reduce<ReduceOp::l2>},
                                           {"ReduceLogSum", 1, import_reduce<ReduceOp::log_sum>},
                                           {"ReduceLogSumExp", 1, import_reduce<ReduceOp::log_sum_exp>},
                                           {"ReduceMax", 1, import_reduce<ReduceOp::max>},
                                           {"ReduceMean", 1, import_reduce<ReduceOp::mean>},
                                           {"ReduceMin", 1, import_reduce<ReduceOp::min>},
                                           {"ReduceProd", 1, import_reduce<ReduceOp::prod>},
                                           {"ReduceSum", 1, import_reduce<ReduceOp::sum>},
                                           {"ReduceSumSquare", 1, import_reduce<ReduceOp::sum_square>}};

}  // namespace

std::optional<std::vector<int>> read_axes(const NodeReader& node, int input, std::size_t rank) {
  std::optional<std::vector<std::int64_t>> given = node.list("axes");
  if (node.has(input)) given = node.numbers(input);
  if (!given) return std::nullopt;
  std::vector<int> axes;
  for (const auto a : *given) axes.push_back(node.axis(a, rank));
  for (const int a : axes)
    if (std::count(axes.begin(), axes.end(), a) > 1) node.fail("axis {} is named twice", a);
  return axes;
}

std::span<const OperatorRow> reduction_rows() { return reduction_table; }

}  // namespace unisono::network::onnx_import
