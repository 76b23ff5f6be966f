#include "network/onnx/windows.hpp"

#include <algorithm>

namespace unisono::network::onnx_import {

namespace {

// Padding so that the output has ceil(extent/stride) elements; of an odd number the larger half goes after (SAME_UPPER)
// or before (SAME_LOWER)
std::array<std::int64_t, 2> same_padding(const NodeReader& node, const Dim& extent, std::int64_t span,
                                         std::int64_t stride, bool upper) {
  if (extent.known() && extent.value() > (std::int64_t{1} << 31))
    node.fail("an extent is {}; expected at most 2^31", extent.value());
  if (stride < 1 || span < 1) node.fail("stride {} and window {} must be at least 1", stride, span);
  if (!extent.known() && stride != 1)
    node.fail("auto_pad with stride {} needs images of a fixed size; this one has {}", stride, to_string(extent));
  const std::int64_t x = extent.known() ? extent.value() : 1;  // with stride 1 the padding is the same for all sizes
  const std::int64_t total = std::max<std::int64_t>(((x + stride - 1) / stride - 1) * stride + span - x, 0);
  return upper ? std::array{total / 2, total - total / 2} : std::array{total - total / 2, total / 2};
}

}  // namespace

Window with_row(Window f) {
  for (auto* list : {&f.kernel, &f.stride, &f.dilation}) list->insert(list->begin(), 1);
  for (auto* list : {&f.before, &f.after}) list->insert(list->begin(), 0);
  return f;
}

std::vector<std::int64_t> read_list(const NodeReader& node, std::string_view name, std::size_t n,
                                    std::int64_t otherwise) {
  const auto list = node.list(name);
  if (!list || list->empty()) return std::vector<std::int64_t>(n, otherwise);
  if (list->size() != n) node.fail("{} has {} numbers; expected {}", name, list->size(), n);
  for (const auto v : *list)
    if (v < -(std::int64_t{1} << 31) || v > (std::int64_t{1} << 31)) node.fail("{} has {}, out of range", name, v);
  return *list;
}

Window read_window(const NodeReader& node, const Shape& x, const std::optional<std::vector<std::int64_t>>& kernel,
                   bool transposed) {
  if (x.size() < 3 || x.size() > 5) node.fail("the input has shape {}; expected 3 to 5 extents (N,C,…)", to_string(x));
  const std::size_t n = x.size() - 2;
  if (!kernel && !node.list("kernel_shape")) node.fail("kernel_shape is missing");
  Window f;
  f.kernel = kernel ? *kernel : read_list(node, "kernel_shape", n, 1);
  if (kernel && node.list("kernel_shape") && read_list(node, "kernel_shape", n, 1) != *kernel)
    node.fail("kernel_shape is not that of the filter");
  f.stride = read_list(node, "strides", n, 1);
  f.dilation = read_list(node, "dilations", n, 1);
  f.before.assign(n, 0);
  f.after.assign(n, 0);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t i = 0; !transposed && i < n; ++i) {
      if (f.kernel[i] < 1 || f.kernel[i] > (1 << 24) || f.dilation[i] < 1 || f.dilation[i] > (1 << 24))
        node.fail("kernel {} and dilation {} must be at least 1", f.kernel[i], f.dilation[i]);
      const auto pad =
          same_padding(node, x[i + 2], (f.kernel[i] - 1) * f.dilation[i] + 1, f.stride[i], automatic == "SAME_UPPER");
      f.before[i] = pad[0];
      f.after[i] = pad[1];
    }
  } else if (automatic == "NOTSET") {
    const auto pads = read_list(node, "pads", 2 * n, 0);
    f.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
    f.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  } else if (automatic != "VALID") {
    node.fail("auto_pad is '{}'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", automatic);
  }
  return f;
}

NetworkValue lifted(const NodeReader& node, NetworkValue x) {
  const Shape& s = x.shape();
  return reshape_to(node, x, {s[0], s[1], 1, s[2]});
}

NetworkValue lowered(const NodeReader& node, NetworkValue x) {
  const Shape& s = x.shape();
  return reshape_to(node, x, {s[0], s[1], s[3]});
}

}  // namespace unisono::network::onnx_import
