/// Normalisations written as arithmetic: LRN, LpNormalization, MeanVarianceNormalization.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// x/(bias + alpha·mean of the squares of `size` neighbouring channels, zeros beyond the first and last)^beta
void import_lrn(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const std::int64_t size = node.integer("size", 0);
  if (size < 1 || size > 4096) node.fail("size is {}; expected 1 to 4096", size);
  if (x.shape().size() < 2) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  // channels as the rows of an image
  const NetworkValue image = node.apply(operators::Reshape{{0, 1, -3, -1}}, {x});
  const operators::Pool2d means{
      .average = true, .kernel = {size, 1}, .pad = Margins{(size - 1) / 2, 0, size / 2, 0}, .count_pad = true};
  const NetworkValue mean = reshape_like(node, node.apply(means, {node.elementwise(Op::square, {image})}), x);
  const auto number = [&](std::string_view name, double otherwise) {
    return node.number_like(x, node.real(name, otherwise));
  };
  const NetworkValue base =
      node.elementwise(Op::add, {node.elementwise(Op::mul, {mean, number("alpha", 1e-4)}), number("bias", 1)});
  node.result(node.elementwise(Op::div, {x, node.elementwise(Op::pow, {base, number("beta", 0.75)})}));
}

// Divided by the norm of each line; a line of zeros stays
void import_lp_normalization(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const std::int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) node.fail("p is {}; expected 1 or 2", p);
  const int axis = node.axis(node.integer("axis", -1), x.shape().size());
  const NetworkValue norm = node.apply(operators::Reduce{p == 1 ? ReduceOp::l1 : ReduceOp::l2, {axis}, true}, {x});
  const NetworkValue is_zero = node.map(MapOp::equal, {norm, node.number_like(x, 0)});
  node.result(node.map(MapOp::div, {x, node.map(MapOp::select, {is_zero, node.number_like(x, 1), norm})}));
}

// (x − mean)/(standard deviation + 1e-9)
void import_mean_variance(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  std::vector<int> axes;
  for (const auto a : node.list("axes").value_or(std::vector<std::int64_t>{0, 2, 3}))
    axes.push_back(node.axis(a, x.shape().size()));
  const operators::Reduce mean{ReduceOp::mean, axes, true};
  const NetworkValue centred = node.map(MapOp::sub, {x, node.apply(mean, {x})});
  const NetworkValue variance = node.apply(mean, {node.map(MapOp::mul, {centred, centred})});
  const NetworkValue deviation = node.map(MapOp::add, {node.map(MapOp::sqrt, {variance}), node.number_like(x, 1e-9)});
  node.result(node.map(MapOp::div, {centred, deviation}));
}

constexpr OperatorRow local_norm_table[] = {{"LRN", 1, import_lrn},
                                            {"LpNormalization", 1, import_lp_normalization},
                                            {"MeanVarianceNormalization", 9, import_mean_variance}};

}  // namespace

std::span<const OperatorRow> local_norm_rows() { return local_norm_table; }

}  // namespace unisono::network::onnx_import
