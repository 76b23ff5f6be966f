/// Conv, ConvTranspose, Gemm, MatMul.

#include <algorithm>

#include "network/dim.hpp"
#include "network/onnx/windows.hpp"

namespace unisono::network::onnx_import {

namespace {

std::vector<std::int64_t> filter_size(const NodeReader& node, const Shape& x, const Shape& w) {
  if (w.size() != x.size()) node.fail("image {} and filter {} differ in rank", to_string(x), to_string(w));
  std::vector<std::int64_t> size;
  for (std::size_t i = 2; i < w.size(); ++i) {
    if (!w[i].known()) node.fail("the filter has shape {}; expected numbers", to_string(w));
    size.push_back(w[i].value());
  }
  return size;
}

NetworkValue convolution(const NodeReader& node, Window f, std::vector<std::int64_t> output_pad, bool transposed) {
  NetworkValue x = node.value(0), w = node.value(1);
  const std::int64_t groups = node.integer("group", 1);
  const bool row = x.shape().size() == 3;
  if (row) {
    f = with_row(f);
    output_pad.insert(output_pad.begin(), 0);
    x = lifted(node, x);
    w = lifted(node, w);
  }
  std::vector<NetworkValue> inputs{x, w};
  if (node.has(2)) inputs.push_back(node.value(2));
  if (x.shape().size() == 5)
    return node.apply(operators::Conv3d{f.stride, f.dilation, f.before, f.after, output_pad, groups, transposed},
                      inputs);
  ConvAttributes attributes{
      .stride = f.pair(f.stride), .pad = f.margins(), .dilation = f.pair(f.dilation), .groups = groups};
  if (transposed) attributes.output_pad = f.pair(output_pad);
  OperatorKind kind = operators::Conv2d{attributes};
  if (transposed) kind = operators::ConvTranspose2d{attributes};
  const NetworkValue y = node.apply(std::move(kind), inputs);
  return row ? lowered(node, y) : y;
}

void import_conv(const NodeReader& node) {
  const Shape x = node.value(0).shape();
  const Window f = read_window(node, x, filter_size(node, x, node.value(1).shape()));
  node.result(convolution(node, f, std::vector<std::int64_t>(x.size() - 2, 0), false));
}

// Pads so that the output has the wanted extents (output_shape), or input·stride (auto_pad SAME)
void import_conv_transpose(const NodeReader& node) {
  const Shape x = node.value(0).shape();
  Window f = read_window(node, x, filter_size(node, x, node.value(1).shape()), true);
  const std::size_t n = x.size() - 2;
  auto output_pad = read_list(node, "output_padding", n, 0);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const auto wanted = node.list("output_shape") ? std::optional(read_list(node, "output_shape", n, 0)) : std::nullopt;
  for (std::size_t i = 0; (wanted || same) && i < n; ++i) {
    if (wanted && !x[i + 2].known()) node.fail("output_shape needs images of a fixed size; got {}", to_string(x));
    if (std::max({f.kernel[i], f.stride[i], f.dilation[i]}) > (1 << 24)) node.fail("the window is out of range");
    const std::int64_t full = f.dilation[i] * (f.kernel[i] - 1) + 1 + output_pad[i];
    std::int64_t total = full - f.stride[i];
    if (wanted) total = affine(x[i + 2], f.stride[i], total).value() - (*wanted)[i];
    if (total < 0 && !wanted) total = 0;
    if (total < 0) {  // more than the convolution makes: the rest is appended
      output_pad[i] -= total;
      total = 0;
    }
    const std::int64_t half = total / 2;
    f.before[i] = automatic == "SAME_UPPER" ? half : total - half;
    f.after[i] = total - f.before[i];
  }
  node.result(convolution(node, f, output_pad, true));
}

// What a Gemm adds broadcasts to the product, even where beta is 0
void check_added(const NodeReader& node, const Shape& c, const Shape& product) {
  bool fits = c.size() <= product.size();
  for (std::size_t i = 0; fits && i < c.size(); ++i) {
    const Dim &have = c[c.size() - 1 - i], &wanted = product[product.size() - 1 - i];
    fits = !have.known() || have.value() == 1 || !wanted.known() || have.value() == wanted.value();
  }
  if (!fits) node.fail("C {} does not broadcast to the product {}", to_string(c), to_string(product));
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
  if (node.has(2)) check_added(node, node.value(2).shape(), y.shape());
  const auto scaled = [&](NetworkValue v, double factor) {
    if (factor == 1) return v;
    return node.apply(operators::Elementwise{.op = Op::mul},
                      {v, node.make_constant("factor", {}, {static_cast<float>(factor)})});
  };
  y = scaled(y, alpha);
  if (adds) y = node.apply(operators::Elementwise{.op = Op::add}, {y, scaled(node.value(2), beta)});
  node.result(y);
}

// A vector is a matrix of one row or column
void import_matmul(const NodeReader& node) {
  NetworkValue a = node.value(0), b = node.value(1);
  const bool row = a.shape().size() == 1, column = b.shape().size() == 1;
  if (a.shape().empty() || b.shape().empty()) node.fail("an operand is a scalar");
  if (row) a = reshape_to(node, a, {1, a.shape()[0]});
  if (column) b = reshape_to(node, b, {b.shape()[0], 1});
  const NetworkValue y = matrix_product(node, a, b);
  Shape shape = y.shape();
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  node.result(row || column ? reshape_to(node, y, shape) : y);
}

constexpr OperatorRow contraction_table[] = {{"Conv", 1, import_conv},
                                             {"ConvTranspose", 1, import_conv_transpose},
                                             {"Gemm", 7, import_gemm},
                                             {"MatMul", 1, import_matmul}};

}  // namespace

// By one matrix: a region of its own, with all rows as one matrix
NetworkValue matrix_product(const NodeReader& node, NetworkValue a, NetworkValue b) {
  const bool floats = a.dtype() == DType::f32 && b.dtype() == DType::f32;
  const bool known = a.shape().back().known() && a.shape().back() != Dim(0);
  const auto has_elements = [](const Shape& s) { return std::find(s.begin(), s.end(), Dim(0)) == s.end(); };
  const bool some = has_elements(a.shape()) && has_elements(b.shape());
  if (floats && some && b.shape().size() == 2 && a.shape().size() <= 3) {
    return node.apply(operators::Gemm{}, {a, b});
  }
  Shape shape = a.shape();
  shape.back() = b.shape().back();
  const Shape of_rows{product(std::span(shape).first(shape.size() - 1)), shape.back()};
  if (floats && some && b.shape().size() == 2 && known && shape.back().known() && can_reshape(node, of_rows, shape)) {
    const NetworkValue rows = node.apply(operators::Reshape{{-1, a.shape().back().value()}}, {a});
    return reshape_to(node, node.apply(operators::Gemm{}, {rows, b}), shape);
  }
  return node.apply(operators::MatMul{}, {a, b});
}

std::span<const OperatorRow> contraction_rows() { return contraction_table; }

}  // namespace unisono::network::onnx_import
