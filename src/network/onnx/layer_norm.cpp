/// LayerNormalization, Softmax and LogSoftmax over any axis.

#include <algorithm>
#include <numeric>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// (x − mean)/sqrt(variance + ε)·scale + bias over all axes from `axis` on, or x/sqrt(mean of x² + ε)·scale. Scale and
// bias broadcast.
template <Op op>
void import_layer_norm(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const std::size_t rank = x.shape().size();
  const int axis = node.axis(node.integer("axis", -1), rank);
  const double eps = node.real("epsilon", 1e-5f);
  if (const auto type = node.integer("stash_type", 1); type != 1) node.fail("stash_type is {}; expected 1", type);
  if (x.dtype() != DType::f32) node.fail("elements of {} are not supported", to_string(x.dtype()));
  if (node.wants(1) || node.wants(2)) {
    std::vector<int> axes;
    for (int i = axis; i < static_cast<int>(rank); ++i) axes.push_back(i);
    const NetworkValue mean = node.apply(operators::Reduce{ReduceOp::mean, axes, true}, {x});
    const NetworkValue square = node.elementwise(Op::square, {node.elementwise(Op::sub, {x, mean})});
    const NetworkValue variance = node.apply(operators::Reduce{ReduceOp::mean, axes, true}, {square});
    node.result(mean, 1);
    node.result(node.elementwise(Op::rsqrt, {node.elementwise(Op::add, {variance, node.number_like(x, eps)})}), 2);
  }
  operators::Normalisation norm{.op = op, .eps = eps};
  const bool of_rows = axis + 1 == static_cast<int>(rank), last = of_rows && rank != 4;
  const auto is_vector = [&](const Shape& s) {
    return s.size() == 1 && (s[0] != Dim(1) || x.shape().back() == Dim(1));
  };
  const bool vectors = is_vector(node.value(1).shape()) && (!node.has(2) || is_vector(node.value(2).shape()));
  NetworkValue y = last ? x : node.apply(operators::Flatten{.axis = axis}, {x});  // the columns of rank 4 are channels
  if (of_rows && vectors) {
    norm.has_scale = true;
    norm.has_shift = node.has(2);
    std::vector<NetworkValue> inputs{y, node.value(1)};
    if (norm.has_shift) inputs.push_back(node.value(2));
    y = node.apply(norm, inputs);
    return node.result(last ? y : reshape_like(node, y, x));
  }
  y = node.apply(norm, {y});
  if (!last) y = reshape_like(node, y, x);
  y = node.elementwise(Op::mul, {y, node.value(1)});
  if (node.has(2)) y = node.elementwise(Op::add, {y, node.value(2)});
  if (y.shape() != x.shape()) node.fail("scale and bias make {} of {}", to_string(y.shape()), to_string(x.shape()));
  node.result(y);
}

// f over the last axis (the channels of rank 4), with any other axis brought there
template <class F>
NetworkValue along(const NodeReader& node, NetworkValue x, int axis, F f) {
  const auto rank = static_cast<int>(x.shape().size());
  const int where = rank == 4 ? 1 : rank - 1;
  if (axis == where) return f(x);
  std::vector<int> order(x.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(axis)], order[static_cast<std::size_t>(where)]);
  return transposed(node, f(transposed(node, x, order)), order);
}

// Before opset 13 all axes from `axis` on were one. The last axis of rank 4 (attention's scores) is taken as a
// matrix's.
template <class F>
void import_softmax_like(const NodeReader& node, F f) {
  const NetworkValue x = node.value(0);
  const bool old = node.opset() < 13;
  if (x.shape().empty()) node.fail("the input is a scalar");
  const int axis = node.axis(node.integer("axis", old ? 1 : -1), x.shape().size());
  const bool last = axis + 1 == static_cast<int>(x.shape().size());
  if (last ? x.shape().size() != 4 : !old) return node.result(along(node, x, axis, f));
  node.result(reshape_like(node, f(node.apply(operators::Flatten{.axis = axis}, {x})), x));
}

void import_softmax(const NodeReader& node) {
  import_softmax_like(node, [&](NetworkValue x) { return node.apply(operators::Softmax{}, {x}); });
}

// d − log Σ exp(d), where d = x − max x: neither difference cancels, whatever the size of x
void import_log_softmax(const NodeReader& node) {
  import_softmax_like(node, [&](NetworkValue x) {
    const int axis = x.shape().size() == 4 ? 1 : static_cast<int>(x.shape().size()) - 1;
    const NetworkValue largest = node.apply(operators::Reduce{ReduceOp::max, {axis}, true}, {x});
    const NetworkValue d = node.elementwise(Op::sub, {x, largest});
    const NetworkValue sum = node.apply(operators::Reduce{ReduceOp::log_sum_exp, {axis}, true}, {d});
    return node.elementwise(Op::sub, {d, sum});
  });
}

constexpr OperatorRow layer_norm_table[] = {{"LayerNormalization", 17, import_layer_norm<Op::layer_norm>},
                                            {"LogSoftmax", 1, import_log_softmax},
                                            {"RMSNormalization", 23, import_layer_norm<Op::rms_norm>},
                                            {"Softmax", 1, import_softmax}};

}  // namespace

std::span<const OperatorRow> layer_norm_rows() { return layer_norm_table; }

}  // namespace unisono::network::onnx_import
