/// Conv, ConvTranspose, Gemm, MatMul.

#include <algorithm>

#include "network/onnx/windows.hpp"

namespace coda::network::onnx_import {

Pair read_pair(const NodeReader& node, std::string_view name, Pair otherwise) {
  const auto list = node.list(name);
  if (!list) return otherwise;
  if (list->size() != 2) node.fail("{} has {} numbers; expected 2 (images only)", name, list->size());
  return {(*list)[0], (*list)[1]};
}

namespace {

// Padding so that the output has ceil(extent/stride) pixels; of an odd number of pixels the larger half goes after
// (SAME_UPPER) or before (SAME_LOWER)
std::array<std::int64_t, 2> same_padding(const NodeReader& node, const Dim& extent, std::int64_t span,
                                         std::int64_t stride, bool upper) {
  if (stride < 1 || span < 1) node.fail("stride {} and window {} must be at least 1", stride, span);
  if (!extent.known() && stride != 1)
    node.fail("auto_pad with stride {} needs images of a fixed size; this one has {}", stride, to_string(extent));
  const std::int64_t x = extent.known() ? extent.value() : 1;  // with stride 1 the padding is the same for all sizes
  const std::int64_t total = std::max<std::int64_t>(((x + stride - 1) / stride - 1) * stride + span - x, 0);
  return upper ? std::array{total / 2, total - total / 2} : std::array{total - total / 2, total / 2};
}

std::int64_t span_of(std::int64_t kernel, std::int64_t dilation) { return (kernel - 1) * dilation + 1; }

Pair filter_size(const NodeReader& node, NetworkValue w) {
  const Shape& s = w.shape();
  if (s.size() != 4)
    node.fail("the filter has shape {}; expected 4 extents (convolutions of images only)", to_string(s));
  if (!s[2].known() || !s[3].known()) node.fail("the filter has shape {}; expected numbers", to_string(s));
  return {s[2].value(), s[3].value()};
}

void import_conv(const NodeReader& node) {
  const NetworkValue x = node.value(0), w = node.value(1);
  const Window f = read_window(node, x.shape(), filter_size(node, w));
  std::vector<NetworkValue> inputs{x, w};
  if (node.has(2)) inputs.push_back(node.value(2));
  node.result(node.apply(
      operators::Conv2d{.stride = f.stride, .pad = f.pad, .dilation = f.dilation, .groups = node.integer("group", 1)},
      inputs));
}

void import_conv_transpose(const NodeReader& node) {
  const NetworkValue x = node.value(0), w = node.value(1);
  if (node.attribute("output_shape")) node.fail("output_shape is not supported; use pads and output_padding");
  if (const auto a = node.text("auto_pad", "NOTSET"); a != "NOTSET" && a != "VALID")
    node.fail("auto_pad {} is not supported; use pads", a);
  const Window f = read_window(node, x.shape(), filter_size(node, w));
  std::vector<NetworkValue> inputs{x, w};
  if (node.has(2)) inputs.push_back(node.value(2));
  node.result(node.apply(operators::ConvTranspose2d{.stride = f.stride,
                                                    .pad = f.pad,
                                                    .output_pad = read_pair(node, "output_padding", 0),
                                                    .dilation = f.dilation,
                                                    .groups = node.integer("group", 1)},
                         inputs));
}

// alpha·A·B + beta·C
void import_gemm(const NodeReader& node) {
  const double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  const NetworkValue a = node.value(0), b = node.value(1);
  const operators::Gemm gemm{.transpose_a = node.integer("transA", 0) != 0,
                             .transpose_b = node.integer("transB", 0) != 0};
  const bool adds = node.has(2) && beta != 0;
  if (alpha == 1 && beta == 1 && adds && node.value(2).shape().size() == 1 && node.value(2).shape()[0].known() &&
      node.value(2).shape()[0].value() != 1)
    return node.result(node.apply(gemm, {a, b, node.value(2)}));
  NetworkValue y = node.apply(gemm, {a, b});
  const auto scaled = [&](NetworkValue v, double factor) {
    if (factor == 1) return v;
    return node.apply(operators::Elementwise{.op = Op::mul},
                      {v, node.make_constant("factor", {}, {static_cast<float>(factor)})});
  };
  y = scaled(y, alpha);
  if (adds) y = node.apply(operators::Elementwise{.op = Op::add}, {y, scaled(node.value(2), beta)});
  node.result(y);
}

void import_matmul(const NodeReader& node) {
  const NetworkValue a = node.value(0), b = node.value(1);
  if (b.shape().size() != 2 || a.shape().size() < 2)
    node.fail("shapes {} and {}: only a matrix on the right is supported", to_string(a.shape()), to_string(b.shape()));
  if (a.shape().size() <= 3) return node.result(node.apply(operators::Gemm{}, {a, b}));
  // more axes: all rows as one matrix
  if (!a.shape().back().known())
    node.fail("the left operand has shape {}; its last extent must be a number", to_string(a.shape()));
  const NetworkValue rows = node.apply(operators::Reshape{{-1, a.shape().back().value()}}, {a});
  std::vector<std::int64_t> shape;
  for (const Dim& d : a.shape()) shape.push_back(d.known() ? d.value() : -1);
  if (!b.shape()[1].known()) node.fail("the right operand has shape {}; expected numbers", to_string(b.shape()));
  shape.back() = b.shape()[1].value();
  node.result(node.apply(operators::Reshape{shape}, {node.apply(operators::Gemm{}, {rows, b})}));
}

constexpr OperatorRow contraction_table[] = {{"Conv", 1, import_conv},
                                             {"ConvTranspose", 1, import_conv_transpose},
                                             {"Gemm", 1, import_gemm},
                                             {"MatMul", 1, import_matmul}};

}  // namespace

Window read_window(const NodeReader& node, const Shape& x, std::optional<Pair> kernel) {
  if (x.size() != 4) node.fail("the input has shape {}; expected 4 extents (images only)", to_string(x));
  Window f;
  if (!kernel && !node.list("kernel_shape")) node.fail("kernel_shape is missing");
  f.kernel = kernel.value_or(read_pair(node, "kernel_shape", 1));
  f.stride = read_pair(node, "strides", 1);
  f.dilation = read_pair(node, "dilations", 1);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const bool upper = automatic == "SAME_UPPER";
    const auto h = same_padding(node, x[2], span_of(f.kernel.h, f.dilation.h), f.stride.h, upper);
    const auto w = same_padding(node, x[3], span_of(f.kernel.w, f.dilation.w), f.stride.w, upper);
    f.pad = Margins(h[0], w[0], h[1], w[1]);
  } else if (automatic == "NOTSET") {
    if (const auto pads = node.list("pads")) {
      if (pads->size() != 4) node.fail("pads has {} numbers; expected 4", pads->size());
      f.pad = Margins((*pads)[0], (*pads)[1], (*pads)[2], (*pads)[3]);
    }
  } else if (automatic != "VALID") {
    node.fail("auto_pad is '{}'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", automatic);
  }
  return f;
}

std::span<const OperatorRow> contraction_rows() { return contraction_table; }

}  // namespace coda::network::onnx_import
