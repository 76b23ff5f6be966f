/// Pooling.

#include <algorithm>

#include "network/onnx/windows.hpp"

namespace unisono::network::onnx_import {

namespace {

operators::Pool2d image_pool(const Window& f, bool average, bool ceil, bool count_pad) {
  return {.average = average,
          .kernel = f.pair(f.kernel),
          .stride = f.pair(f.stride),
          .pad = f.margins(),
          .dilation = f.pair(f.dilation),
          .ceil_mode = ceil,
          .count_pad = count_pad};
}

operators::PoolNd any_pool(const Window& f, bool average, bool ceil, bool count_pad) {
  return {.average = average,
          .kernel = f.kernel,
          .stride = f.stride,
          .dilation = f.dilation,
          .before = f.before,
          .after = f.after,
          .ceil_mode = ceil,
          .count_pad = count_pad};
}

void import_pool(const NodeReader& node, bool average) {
  const NetworkValue given = node.value(0);
  const bool bytes = given.dtype() == DType::u8 || given.dtype() == DType::i8;
  if (given.dtype() != DType::f32 && (average || !bytes))
    node.fail("elements of {} are not supported", to_string(given.dtype()));
  const NetworkValue x = node.cast(given, DType::f32);  // exact
  const Window f = read_window(node, x.shape(), std::nullopt);
  const bool ceil = node.integer("ceil_mode", 0) != 0;
  const bool count_pad = average && node.integer("count_include_pad", 0) != 0;
  // what only ceil_mode adds is counted by some runtimes and not by others; without dilations there is one custom
  if (count_pad && ceil && f.dilation != std::vector<std::int64_t>(f.dilation.size(), 1))
    node.fail("ceil_mode with count_include_pad and dilations has no agreed meaning");
  const operators::PoolNd pool = any_pool(f, average, ceil, count_pad);
  const NetworkValue y =
      x.shape().size() == 4 ? node.apply(image_pool(f, average, ceil, count_pad), {x}) : node.apply(pool, {x});
  node.result(node.cast(y, given.dtype()));
  if (!node.wants(1)) return;
  operators::PoolNd places = pool;
  places.indices = true;
  places.column_major = node.integer("storage_order", 0) != 0;
  node.result(node.apply(places, {x}), 1);
}

void import_max_pool(const NodeReader& node) { import_pool(node, false); }
void import_average_pool(const NodeReader& node) { import_pool(node, true); }

template <ReduceOp op>
void import_global_pool(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.shape().size() < 3) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  if (op == ReduceOp::mean && x.shape().size() == 4)
    return node.result(node.apply(operators::GlobalAveragePool{}, {x}));
  std::vector<int> axes;
  for (int i = 2; i < static_cast<int>(x.shape().size()); ++i) axes.push_back(i);
  node.result(node.apply(operators::Reduce{op, axes, true}, {x}));
}

// |x|^p, and the p-th root of a sum of that
NetworkValue powered(const NodeReader& node, NetworkValue x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return node.elementwise(Op::square, {x});
  if (exponent == 0.5) return node.elementwise(Op::sqrt, {x});
  return node.elementwise(Op::pow, {x, node.number_like(x, exponent)});
}

std::int64_t power_of(const NodeReader& node) {
  const std::int64_t p = node.integer("p", 2);
  if (p < 1 || p > 64) node.fail("p is {}; expected 1 to 64", p);
  return p;
}

// The padding with which whole windows cover what ceil_mode adds: zeros, of which no sum changes. The last window
// starts inside the image or its left padding.
void pad_to_ceil(const NodeReader& node, const Shape& x, Window& f) {
  for (std::size_t i = 0; i < f.kernel.size(); ++i) {
    const std::int64_t span = f.dilation[i] * (f.kernel[i] - 1) + 1, stride = f.stride[i],
                       most = f.after[i] + stride - 1;
    const Dim extent = x[i + 2];
    if (span < 1 || stride < 1) node.fail("window {} and stride {} must be at least 1", span, stride);
    if (most < span) {  // no window starts behind the image, whatever its extent
      f.after[i] = most;
      continue;
    }
    if (!extent.known())
      node.fail(
          "ceil_mode with a stride of {} and {} pixels of padding after, a window of {} and an open extent {} may "
          "add a window in the padding alone; give the image fixed extents",
          stride, f.after[i], span, to_string(extent));
    const std::int64_t room = extent.value() + f.before[i] + f.after[i] - span;
    if (room < 0) continue;  // too small for one window, which inference says
    std::int64_t windows = (room + stride - 1) / stride + 1;
    if ((windows - 1) * stride >= extent.value() + f.before[i]) --windows;
    f.after[i] = std::max(f.after[i], (windows - 1) * stride + span - extent.value() - f.before[i]);
  }
}

// (Σ |x|^p)^(1/p) of each window, whose sum is its mean times its taps
void import_lp_pool(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto p = static_cast<double>(power_of(node));
  Window f = read_window(node, x.shape(), std::nullopt);
  if (node.integer("ceil_mode", 0) != 0) pad_to_ceil(node, x.shape(), f);
  double taps = 1;
  for (const auto k : f.kernel) taps *= static_cast<double>(k);
  NetworkValue y = powered(node, node.elementwise(Op::abs, {x}), p);
  y = x.shape().size() == 4 ? node.apply(image_pool(f, true, false, true), {y})
                            : node.apply(any_pool(f, true, false, true), {y});
  node.result(powered(node, node.elementwise(Op::mul, {y, node.number_like(x, taps)}), 1 / p));
}

void import_global_lp_pool(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  if (x.shape().size() < 3) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  const auto p = static_cast<double>(power_of(node));
  std::vector<int> axes;
  for (int i = 2; i < static_cast<int>(x.shape().size()); ++i) axes.push_back(i);
  const NetworkValue powers = powered(node, node.elementwise(Op::abs, {x}), p);
  node.result(powered(node, node.apply(operators::Reduce{ReduceOp::sum, axes, true}, {powers}), 1 / p));
}

constexpr OperatorRow pool_table[] = {{"AveragePool", 1, import_average_pool},
                                      {"GlobalAveragePool", 1, import_global_pool<ReduceOp::mean>},
                                      {"GlobalLpPool", 2, import_global_lp_pool},
                                      {"GlobalMaxPool", 1, import_global_pool<ReduceOp::max>},
                                      {"LpPool", 11, import_lp_pool},
                                      {"MaxPool", 1, import_max_pool}};

}  // namespace

std::span<const OperatorRow> pool_rows() { return pool_table; }

}  // namespace unisono::network::onnx_import
