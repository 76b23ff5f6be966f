// Networks that compute gradients.
#include <algorithm>

#include "gpu/networks.hpp"

namespace unisono::gpu {

const std::vector<FilterGradientCase>& filter_gradient_cases() {
  static const auto made = [](std::int64_t groups, Pair stride, Margins pad, Pair dilation, Pair filter) {
    operators::FilterGradient f;
    f.groups = groups, f.stride = stride, f.pad = pad, f.dilation = dilation, f.filter = filter;
    return f;
  };
  static const std::vector<FilterGradientCase> all{
      {"plain", {3, 40, 13, 9}, 72, made(1, 1, 1, 1, 3)},
      {"wide", {2, 64, 7, 10}, 130, made(1, 1, 1, 1, 3)},
      {"stem", {2, 3, 17, 22}, 16, made(1, 2, 3, 1, 7)},
      {"groups", {3, 32, 9, 8}, 48, made(4, {2, 1}, {0, 1, 2, 1}, 1, 3)},
      {"odd groups", {2, 15, 6, 11}, 6, made(3, 1, 1, {1, 2}, {2, 3})},
      {"depthwise", {2, 8, 9, 7}, 8, made(8, 1, 2, 1, 5)},
      {"head", {5, 24, 8, 3}, 1, made(1, 1, 0, 1, 1)},
      {"parts", {3, 16, 37, 41}, 24, made(1, 1, 1, 1, 3)},
      {"parts of groups", {4, 12, 45, 43}, 6, made(2, 1, 0, 2, {1, 3})},
      {"one pixel", {1, 9, 5, 4}, 10, made(1, 3, 0, {2, 1}, {3, 4})},
      {"one row", {7, 16, 1, 41}, 20, made(1, {1, 2}, {0, 4, 0, 3}, {1, 3}, {1, 3})},
      {"beyond", {2, 8, 2, 3}, 8, made(1, 1, 4, 1, 3)}};  // taps that meet nothing but zeros
  return all;
}

namespace {

std::int64_t positions(std::int64_t extent, std::int64_t pads, std::int64_t taps, std::int64_t dilation,
                       std::int64_t stride) {
  return (extent + pads - dilation * (taps - 1) - 1) / stride + 1;
}

}  // namespace

std::vector<std::int64_t> FilterGradientCase::gradient_shape() const {
  const operators::FilterGradient& f = attributes;
  return {x[0], filters, positions(x[2], f.pad.top + f.pad.bottom, f.filter.h, f.dilation.h, f.stride.h),
          positions(x[3], f.pad.left + f.pad.right, f.filter.w, f.dilation.w, f.stride.w)};
}

Network filter_gradients(bool read) {
  NetworkBuilder net{"filter gradients"};
  for (const FilterGradientCase& c : filter_gradient_cases()) {
    const std::vector<std::int64_t> g = c.gradient_shape();
    const NetworkValue x = net.input(c.name + " x", Shape(c.x.begin(), c.x.end()));
    const NetworkValue gradient = net.input(c.name + " g", Shape(g.begin(), g.end()));
    const NetworkValue filter = net.apply(c.attributes, {x, gradient});
    net.output(read ? relu(filter) : filter, c.name);
  }
  return net.build();
}

std::map<std::string, std::vector<std::int64_t>> filter_gradient_shapes() {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const FilterGradientCase& c : filter_gradient_cases())
    shapes[c.name + " x"] = c.x, shapes[c.name + " g"] = c.gradient_shape();
  return shapes;
}

Network gradients_of_images() {
  NetworkBuilder net{"gradients of images"};
  const NetworkValue g = net.input("g", {"batch", 16, "height", "width"});
  const auto filter = [&](const char* name, Shape shape) { return net.input(name, std::move(shape)); };
  net.output(silu(conv_transpose2d(g, filter("plain", {16, 24, 3, 3}), {.pad = 1})), "plain y");
  net.output(conv_transpose2d(g, filter("odd", {16, 11, 3, 5}), {.pad = {1, 2, 0, 2}}), "odd y");
  net.output(conv_transpose2d(g, filter("strided", {16, 8, 3, 3}), {.stride = 2, .pad = 1, .output_pad = 1}),
             "strided y");
  net.output(conv_transpose2d(g, filter("dilated", {16, 8, 3, 3}), {.pad = 2, .dilation = 2}), "dilated y");
  const NetworkValue computed = filter("computed", {16, 32, 1, 1});
  net.output(conv_transpose2d(g, computed * computed, {}) + 1.0, "computed y");
  return net.build();
}

}  // namespace unisono::gpu
