/// Convolutions and products as ONNX defines them.

#include <algorithm>
#include <cmath>

#include "reference/onnx/definitions.hpp"
#include "reference/onnx/windows.hpp"

namespace unisono::float64 {
namespace {

// With the axes that a convolution of three spatial axes has: those in front have an extent of 1
Tensor64 with_three_axes(const Tensor64& x) {
  Extents64 shape = x.shape;
  while (shape.size() < 5) shape.insert(shape.begin() + 2, 1);
  return in_shape(x, shape);
}

operators::Conv3d convolution_of(Windows w, std::int64_t groups) {
  operators::Conv3d conv;
  const auto padded = [](Extents64 list, std::int64_t one) {
    while (list.size() < 3) list.insert(list.begin(), one);
    return list;
  };
  conv.stride = padded(w.stride, 1), conv.dilation = padded(w.dilation, 1);
  conv.before = padded(w.before, 0), conv.after = padded(w.after, 0);
  conv.output_pad = {0, 0, 0};
  conv.groups = groups;
  return conv;
}

Tensor64 without_leading(Tensor64 y, std::size_t rank) {
  while (y.shape.size() > rank) y.shape.erase(y.shape.begin() + 2);
  return y;
}

// Two axes by the reference of convolutions, which is faster; others by that of volumes
Tensor64 convolved(const operators::Conv3d& conv, const ReferenceInputs& in, std::size_t rank) {
  const DType t = in[0]->dtype;
  if (rank == 5 || conv.transposed) {
    std::vector<Tensor64> wide{with_three_axes(*in[0]), with_three_axes(*in[1])};
    ReferenceInputs inputs{&wide[0], &wide[1]};
    if (in.size() > 2) inputs.push_back(in[2]);
    return without_leading(evaluated(conv, inputs, t), rank);
  }
  operators::Conv2d flat;
  const auto pair = [](const Extents64& list) { return Pair{list[1], list[2]}; };
  flat.stride = pair(conv.stride), flat.dilation = pair(conv.dilation);
  flat.pad = {conv.before[1], conv.before[2], conv.after[1], conv.after[2]};
  flat.groups = conv.groups;
  const auto image = [](const Tensor64& x) {
    Extents64 shape = x.shape;
    while (shape.size() < 4) shape.insert(shape.begin() + 2, 1);
    return in_shape(x, shape);
  };
  const Tensor64 x = image(*in[0]), w = image(*in[1]);
  ReferenceInputs inputs{&x, &w};
  if (in.size() > 2) inputs.push_back(in[2]);
  return without_leading(evaluated(flat, inputs, t), rank);
}

ReferenceInputs with_bias(Call& call) {
  ReferenceInputs in{&call.in(0), &call.in(1)};
  if (call.has(2)) in.push_back(&call.in(2));
  return in;
}

void define_conv(Call& call) {
  const Tensor64 &x = call.in(0), &w = call.in(1);
  if (x.shape.size() > 5) throw_unsupported_axes(call);
  const Extents64 kernel(w.shape.begin() + 2, w.shape.end());
  const Windows windows = windows_of(call, {x.shape.begin() + 2, x.shape.end()}, kernel);
  call.result(convolved(convolution_of(windows, call.integer("group", 1)), with_bias(call), x.shape.size()));
}

// Each input element adds its filter to the output, which starts `before` elements within that sum
void define_conv_transpose(Call& call) {
  const Tensor64 &x = call.in(0), &w = call.in(1);
  if (x.shape.size() > 5) throw_unsupported_axes(call);
  const std::size_t axes = x.shape.size() - 2;
  const Extents64 kernel(w.shape.begin() + 2, w.shape.end());
  const Extents64 stride = call.list("strides").value_or(Extents64(axes, 1));
  const Extents64 dilation = call.list("dilations").value_or(Extents64(axes, 1));
  Extents64 extra = call.list("output_padding").value_or(Extents64(axes, 0));
  const Extents64 pads = call.list("pads").value_or(Extents64(2 * axes, 0));
  const auto wanted = call.list("output_shape");
  const std::string automatic = call.text("auto_pad", "NOTSET");
  Windows windows{kernel, stride, dilation, Extents64(axes, 0), Extents64(axes, 0)};
  for (std::size_t d = 0; d < axes; ++d) {
    windows.before[d] = pads[d], windows.after[d] = pads[d + axes];
    const std::int64_t full = stride[d] * (x.shape[d + 2] - 1) + extra[d] + (kernel[d] - 1) * dilation[d] + 1;
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (automatic == "VALID") windows.before[d] = windows.after[d] = 0;
    if (!wanted && !same) continue;
    const std::int64_t extent = wanted ? (*wanted)[wanted->size() - axes + d] : x.shape[d + 2] * stride[d];
    const std::int64_t total = full - extent;
    if (total < 0) {  // larger than all that the filters reach: zeros at the end
      windows.before[d] = windows.after[d] = 0;
      extra[d] -= total;
      continue;
    }
    // ONNX gives the odd one to the end with SAME_UPPER, else to the beginning
    const std::int64_t smaller = total / 2;
    windows.before[d] = automatic == "SAME_UPPER" ? smaller : total - smaller;
    windows.after[d] = total - windows.before[d];
  }
  operators::Conv3d conv = convolution_of(windows, call.integer("group", 1));
  conv.transposed = true;
  while (extra.size() < 3) extra.insert(extra.begin(), 0);
  conv.output_pad = extra;
  call.result(convolved(conv, with_bias(call), x.shape.size()));
}

// alpha·a′·b′ + beta·c
void define_gemm(Call& call) {
  const auto given = [&](std::size_t i, const char* transposed) {
    return call.integer(transposed, 0) != 0 ? permuted_axes(call.in(i), {1, 0}) : call.in(i);
  };
  const Tensor64 a = given(0, "transA"), b = given(1, "transB");
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  const DType t = a.dtype;
  const double u = roundoff(t);
  Tensor64 y = evaluated(operators::MatMul{}, {&a, &b}, t);
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    y.value[i] *= alpha;
    y.bound[i] = y.bound[i] * std::abs(alpha) + (alpha == 1 ? 0 : u * std::abs(y.value[i]));
  }
  if (call.has(2)) {
    const std::vector<double> c = expanded(call.in(2), y.shape);
    for (std::size_t i = 0; i < y.value.size(); ++i) {
      y.value[i] += beta * c[i];
      y.bound[i] += u * (std::abs(y.value[i]) + (beta == 1 ? 0 : std::abs(beta * c[i])));
    }
  }
  call.result(std::move(y));
}

// As numpy.matmul: a vector is a row on the left and a column on the right, and the result lacks that axis
void define_mat_mul(Call& call) {
  Tensor64 a = call.in(0), b = call.in(1);
  const bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  if (row) a.shape = {1, a.shape[0]};
  if (column) b.shape.push_back(1);
  Tensor64 y = evaluated(operators::MatMul{}, {&a, &b}, a.dtype);
  if (row) y.shape.erase(y.shape.end() - 2);
  if (column) y.shape.pop_back();
  call.result(std::move(y));
}

// Columns of blocks, added up where they lie in the image
void define_col2im(Call& call) {
  const Tensor64& x = call.in(0);
  const Extents64 image = call.numbers(1), block = call.numbers(2);
  const std::size_t axes = image.size();
  const Extents64 stride = call.list("strides").value_or(Extents64(axes, 1));
  const Extents64 dilation = call.list("dilations").value_or(Extents64(axes, 1));
  const Extents64 pads = call.list("pads").value_or(Extents64(2 * axes, 0));
  const std::int64_t taps = product(block, 0, axes), channels = x.shape[1] / taps;
  Extents64 shape{x.shape[0], channels}, columns;
  shape.insert(shape.end(), image.begin(), image.end());
  for (std::size_t d = 0; d < axes; ++d)
    columns.push_back((image[d] + pads[d] + pads[d + axes] - dilation[d] * (block[d] - 1) - 1) / stride[d] + 1);
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  for_indices({x.shape[0], channels}, [&](const Extents64& nc) {
    for_indices(block, [&](const Extents64& tap) {
      for_indices(columns, [&](const Extents64& column) {
        Extents64 at = nc;
        for (std::size_t d = 0; d < axes; ++d) {
          at.push_back(column[d] * stride[d] + tap[d] * dilation[d] - pads[d]);
          if (at.back() < 0 || at.back() >= image[d]) return;
        }
        const std::int64_t row = nc[1] * taps + static_cast<std::int64_t>(place(block, tap));
        const double term = x.value[place(x.shape, {nc[0], row, static_cast<std::int64_t>(place(columns, column))})];
        y.value[place(shape, at)] += term;
        y.bound[place(shape, at)] += roundoff(x.dtype) * std::abs(term);
      });
    });
  });
  call.result(std::move(y));
}

// The gradient of a Conv's filter: of Unisono's own domain, and of one or two axes
void define_filter_gradient(Call& call) {
  const Tensor64 &x = call.in(0), &g = call.in(1);
  const Windows w = windows_of(call, {x.shape.begin() + 2, x.shape.end()}, *call.list("kernel_shape"));
  const operators::Conv3d conv = convolution_of(w, call.integer("group", 1));
  const auto pair = [](const Extents64& list) { return Pair{list[1], list[2]}; };
  operators::FilterGradient filter;
  filter.stride = pair(conv.stride), filter.dilation = pair(conv.dilation), filter.groups = conv.groups;
  filter.pad = {conv.before[1], conv.before[2], conv.after[1], conv.after[2]};
  filter.filter = {w.kernel.size() == 1 ? 1 : w.kernel[0], w.kernel.back()};
  const auto image = [](const Tensor64& t) {
    Extents64 shape = t.shape;
    while (shape.size() < 4) shape.insert(shape.begin() + 2, 1);
    return in_shape(t, shape);
  };
  const Tensor64 wide_x = image(x), wide_g = image(g);
  call.result(without_leading(evaluated(filter, {&wide_x, &wide_g}, x.dtype), x.shape.size()));
}

constexpr OnnxDefinition contraction_table[] = {{"Col2Im", define_col2im},
                                                {"Conv", define_conv},
                                                {"ConvTranspose", define_conv_transpose},
                                                {"Einsum", define_einsum},
                                                {"FilterGradient", define_filter_gradient},
                                                {"Gemm", define_gemm},
                                                {"MatMul", define_mat_mul}};

}  // namespace

std::span<const OnnxDefinition> contraction_definitions() { return contraction_table; }

}  // namespace unisono::float64
