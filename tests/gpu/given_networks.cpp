#include "gpu/network_weights.hpp"
#include "gpu/networks.hpp"

namespace unisono::gpu {

Network given_filters() {
  NetworkBuilder net("given_filters");
  const NetworkValue x = net.input("x", {"batch", 12, "height", "width"}), scale = net.input("scale", {1}) * 0.1;
  const NetworkValue wide = net.input("wide", {"batch", 32, "height", "width"}),
                     rows = net.input("rows", {"batch", 24});
  const auto given = [&](const char* name, Shape shape) { return net.input(name, std::move(shape)) * scale; };
  const NetworkValue bias = net.input("bias", {16});
  net.output(relu(conv2d(x, net.input("as it lies", {16, 12, 3, 3}), bias, {.pad = 1})), "a");
  net.output(conv2d(x, given("few", {5, 12, 3, 3}), {.stride = 2, .pad = 1}), "b");
  net.output(silu(conv2d(x, sigmoid(given("not 0 between", {16, 12, 1, 1})), bias)), "c");
  net.output(relu(conv2d(wide, given("groups", {32, 8, 3, 3}), {.pad = 1, .groups = 4})), "d");
  net.output(relu(conv2d(wide, given("depthwise", {32, 1, 5, 5}), {.pad = 2, .groups = 32})), "e");
  net.output(conv_transpose2d(x, given("transposed", {12, 7, 3, 3}), {.stride = 2, .pad = 1}), "f");
  net.output(conv2d(upsample(wide), given("upsampled", {16, 32, 3, 3}), bias, {.pad = 1}), "g");
  net.output(conv2d(net.input("colours", {"batch", 3, "lines", "pixels"}), given("stem", {16, 3, 7, 5}), bias,
                    {.stride = 2, .pad = 3}),
             "h");
  net.output(relu(gemm(rows, given("columns", {24, 16}))), "i");
  net.output(relu(gemm(rows, given("odd columns", {24, 13}))), "j");
  net.output(gemm(net.input("odd rows", {"batch", 13}), net.input("odd matrix", {13, 16})), "k");
  net.output(group_norm(conv2d(x, given("normalised", {24, 12, 3, 3}), {.pad = 1}), {.groups = 4}), "l");
  return net.build();
}

}  // namespace unisono::gpu
