/// CenterCropPad and Col2Im.

#include <algorithm>

#include "network/onnx/windows.hpp"

namespace unisono::network::onnx_import {

namespace {

// Crops or pads with zeros to the wanted extents; the larger half of an odd difference is at the end
void import_center_crop_pad(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto wanted = node.numbers(1);
  std::vector<int> axes;
  if (const auto given = node.list("axes")) {
    for (const auto a : *given) axes.push_back(node.axis(a, x.shape().size()));
  } else {
    for (std::size_t i = 0; i < x.shape().size(); ++i) axes.push_back(static_cast<int>(i));
  }
  if (axes.size() != wanted.size()) node.fail("shape has {} extents for {} axes", wanted.size(), axes.size());
  operators::Slice crop;
  operators::Pad pad;
  pad.before.assign(x.shape().size(), 0);
  pad.after.assign(x.shape().size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const Dim have = x.shape()[axis];
    if (!have.known()) node.fail("axis {} has extent {}; expected a number", axis, to_string(have));
    if (wanted[i] < 0 || wanted[i] > (std::int64_t{1} << 31)) node.fail("shape has {}, out of range", wanted[i]);
    const std::int64_t more = wanted[i] - have.value();
    if (more < 0) {
      crop.axes.push_back(axes[i]);
      crop.starts.push_back(-more / 2);
      crop.ends.push_back(-more / 2 + wanted[i]);
      crop.steps.push_back(1);
    } else {
      pad.before[axis] = more / 2;
      pad.after[axis] = more - more / 2;
    }
  }
  node.result(node.apply(pad, {node.apply(crop, {x})}));
}

// The windows along each axis of an image, the pixels that they leave at its end, and the taps of one
struct ImageWindows {
  std::vector<std::int64_t> counts, rest;
  std::int64_t taps = 1;
};

ImageWindows windows_of(const NodeReader& node, const std::vector<std::int64_t>& image, const Window& f) {
  ImageWindows all;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const std::int64_t block = f.kernel[i], stride = f.stride[i], dilation = f.dilation[i];
    for (const std::int64_t v : {image[i], block, stride, dilation})
      if (v < 1 || v > 4096) node.fail("the image, its windows or their places have {}; expected 1 to 4096", v);
    const std::int64_t room = image[i] + f.before[i] + f.after[i] - dilation * (block - 1) - 1;
    if (room < 0) node.fail("a window of {} does not fit an image of {}", block, image[i]);
    all.counts.push_back(room / stride + 1);
    all.rest.push_back(room % stride);
    all.taps *= block;
    if (all.taps > 1024) node.fail("a window has {} taps; the limit is 1024", all.taps);
  }
  return all;
}

// Columns of an image's windows, added where they lie: a transposed convolution whose filter has a one for each tap
void import_col2im(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto image = node.numbers(1), block = node.numbers(2);
  const std::size_t n = image.size();
  if (n < 2 || n > 3 || block.size() != n)
    node.fail("the image has {} axes, and a window {}; expected 2 or 3", n, block.size());
  if (x.shape().size() != 3 || !x.shape()[1].known())
    node.fail("the input has shape {}; expected (N,channels·taps,windows)", to_string(x.shape()));
  const auto stride = read_list(node, "strides", n, 1), dilation = read_list(node, "dilations", n, 1);
  const auto pads = read_list(node, "pads", 2 * n, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(n);
  const Window f{block, stride, dilation, {pads.begin(), middle}, {middle, pads.end()}};
  const auto [windows, rest, taps] = windows_of(node, image, f);
  const std::int64_t channels = x.shape()[1].value();
  if (channels % taps != 0) node.fail("{} channels are not a multiple of {} taps", channels, taps);
  std::vector<float> ones(static_cast<std::size_t>(taps * taps), 0.0f);
  for (std::int64_t t = 0; t < taps; ++t) ones[static_cast<std::size_t>(t * taps + t)] = 1;
  const auto shaped = [](std::int64_t first, std::int64_t second, const std::vector<std::int64_t>& extents) {
    std::vector<std::int64_t> shape{first, second};
    shape.insert(shape.end(), extents.begin(), extents.end());
    return shape;
  };
  const auto filter = shaped(taps, 1, block);
  const NetworkValue w = node.make_constant("taps", Shape(filter.begin(), filter.end()), ones);
  const NetworkValue columns = node.apply(operators::Reshape{shaped(-1, taps, windows), true}, {x});
  OperatorKind kind = operators::Conv3d{stride, dilation, f.before, f.after, rest, 1, true};
  if (n == 2)
    kind = operators::ConvTranspose2d{
        {.stride = f.pair(stride), .pad = f.margins(), .output_pad = f.pair(rest), .dilation = f.pair(dilation)}};
  const NetworkValue y = node.apply(std::move(kind), {columns, w});
  node.result(node.apply(operators::Reshape{shaped(-1, channels / taps, image), true}, {y}));
}

constexpr OperatorRow crop_table[] = {{"CenterCropPad", 18, import_center_crop_pad}, {"Col2Im", 18, import_col2im}};

}  // namespace

std::span<const OperatorRow> crop_rows() { return crop_table; }

}  // namespace unisono::network::onnx_import
