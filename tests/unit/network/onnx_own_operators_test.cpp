// Operators of the domain `unisono`.

#include <gtest/gtest.h>

#include "onnx_model.hpp"

namespace unisono::test {
namespace {

OnnxModel filter_gradient(std::vector<std::int64_t> image, std::vector<std::int64_t> gradient,
                          std::vector<std::int64_t> filter) {
  OnnxModel m("FilterGradient", 21, {"image", "gradient"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("image", std::move(image));
  m.add_input("gradient", std::move(gradient));
  m.node->set_domain("unisono");
  m.set("kernel_shape", filter);
  return m;
}

TEST(OnnxOwnOperators, FilterGradientIsThatOfTheConvolution) {
  Random random{3};
  OnnxModel m = filter_gradient({2, 4, 7, 5}, {2, 6, 3, 5}, {3, 2});
  m.set("strides", std::vector<std::int64_t>{2, 1});
  m.set("pads", std::vector<std::int64_t>{0, 1, 0, 1});
  m.set("dilations", std::vector<std::int64_t>{1, 2});
  m.set("group", std::int64_t{2});
  const HostTensors inputs{{"image", random_tensor(random, {2, 4, 7, 5})},
                           {"gradient", random_tensor(random, {2, 6, 3, 5})}};
  const Network n = parse(m.bytes());
  const HostTensors made = run(compile(n), inputs);
  EXPECT_EQ(made.at("y").shape, (std::vector<std::int64_t>{6, 2, 3, 2}));
  expect_agreement(n, inputs, made);
  NetworkBuilder net;
  operators::FilterGradient same{{.stride = {2, 1}, .pad = {0, 1, 0, 1}, .dilation = {1, 2}, .groups = 2}};
  same.filter = {3, 2};
  net.output(net.apply(same, {net.input("image", {2, 4, 7, 5}), net.input("gradient", {2, 6, 3, 5})}), "y");
  EXPECT_EQ(made.at("y").data, run(compile(net.build()), inputs).at("y").data);
}

TEST(OnnxOwnOperators, FilterGradientOfARowOfPixels) {
  Random random{4};
  const OnnxModel m = filter_gradient({2, 3, 8}, {2, 4, 6}, {3});
  const HostTensors inputs{{"image", random_tensor(random, {2, 3, 8})}, {"gradient", random_tensor(random, {2, 4, 6})}};
  const HostTensors made = run(compile(parse(m.bytes())), inputs);
  EXPECT_EQ(made.at("y").shape, (std::vector<std::int64_t>{4, 3, 3}));
  expect_agreement(parse(m.bytes()), inputs, made);
}

TEST(OnnxOwnOperators, Refusals) {
  EXPECT_EQ(refusal(filter_gradient({2, 3, 8}, {2, 4, 6}, {3})), accepted);
  EXPECT_EQ(refusal(filter_gradient({2, 3, 8, 8}, {2, 4, 6}, {3, 3})),
            "m.onnx: FilterGradient 'n' (opset 21): inputs have shapes (2,3,8,8) and (2,4,6); expected (N,C,H,W) and "
            "(N,K,P,Q), or (N,C,L) and (N,K,P)");
  OnnxModel m = filter_gradient({2, 3, 8}, {2, 4, 6}, {3});
  m.set("auto_pad", std::int64_t{1});
  EXPECT_EQ(refusal(m),
            "m.onnx: FilterGradient 'n' (opset 21): has no attribute 'auto_pad'; it has dilations group "
            "kernel_shape pads strides");
  m = filter_gradient({2, 3, 8}, {2, 4, 6}, {3});
  m.node->add_input("image");
  EXPECT_EQ(refusal(m),
            "m.onnx: FilterGradient 'n' (opset 21): has 3 inputs and 1 outputs; expected 2 inputs and 1 output");
  m.node->set_op_type("Filter");
  EXPECT_EQ(refusal(m), "m.onnx: Filter 'n' (opset 21): the domain 'unisono' has no such operator");
}

}  // namespace
}  // namespace unisono::test
