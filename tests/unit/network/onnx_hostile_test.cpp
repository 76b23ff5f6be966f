/// Models whose shapes, attributes or constants ask for what no tensor has: refused, or run within the memory and time
/// of their tensors.

#include <gmock/gmock.h>

#include <limits>

#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::accepted;
using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;

constexpr std::int64_t far_below = std::numeric_limits<std::int64_t>::min(),
                       far_above = std::numeric_limits<std::int64_t>::max();

Model attention(std::vector<std::int64_t> v) {
  Model m("Attention", 23, {"q", "k", "v"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("q", {1, 2, 3, 4});
  m.add_input("k", {1, 2, 3, 4});
  m.add_input("v", std::move(v));
  return m;
}

TEST(HostileOnnx, AttentionWhoseValuesHaveAnotherRank) {
  EXPECT_EQ(refusal(attention({1, 2, 3, 4})), accepted);
  EXPECT_EQ(refusal(attention({3, 4})),
            "m.onnx: Attention 'n' (opset 23): V has shape (3,4); expected 4 extents as Q and K have");
  EXPECT_THAT(refusal(attention({})), HasSubstr("V has shape ()"));
}

TEST(HostileOnnx, AttentionWhoseLengthsAreNoVector) {
  Model m = attention({1, 2, 3, 4});
  m.proto.mutable_opset_import(0)->set_version(24);
  for (const char* name : {"", "", "", "lengths"}) m.node->add_input(name);
  m.add_input("lengths", {}, 7);
  EXPECT_EQ(refusal(m), "m.onnx: Attention 'n' (opset 24): nonpad_kv_seqlen has shape (); expected a vector");
}

TEST(HostileOnnx, ExtentsAndRanksOfInputsAndConstants) {
  Model m("Relu");
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, (std::int64_t{1} << 31) + 1});
  EXPECT_EQ(refusal(m),
            "m.onnx: input 'x': extent 2147483649 of shape (1,2147483649) is out of range; expected 0 to 2^31");
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", std::vector<std::int64_t>(9, 1));
  EXPECT_EQ(refusal(m), "m.onnx: input 'x': has 9 axes; the limit is 8");
  Model c("Relu", 21, {"c"});
  c.add_constant("c", {0, (std::int64_t{1} << 31) + 1});
  EXPECT_EQ(refusal(c, {.constant_bytes = std::uint64_t{1} << 40}),
            "m.onnx: tensor 'c': extent 2147483649 of shape (0,2147483649) is out of range; expected 0 to 2^31");
}

// Infinite times 0 elements
TEST(HostileOnnx, ConstantOfShapeOfManyExtents) {
  Model m("ConstantOfShape", 21, {"s"});
  std::vector<std::int64_t> shape(20, far_above);
  shape.push_back(0);
  m.add_integers("s", shape);
  EXPECT_EQ(refusal(m), "m.onnx: ConstantOfShape 'n' (opset 21): the shape has 21 extents; expected at most 8");
  Model empty("ConstantOfShape", 21, {"s"});
  empty.add_integers("s", {0, far_above});
  EXPECT_THAT(refusal(empty), HasSubstr("ConstantOfShape 'n' (opset 21): extent 9223372036854775807 of shape"));
}

TEST(HostileOnnx, GroupsOfVolumes) {
  for (const std::int64_t groups : {far_below, std::int64_t{-1}, std::int64_t{0}, far_above}) {
    Model m("Conv", 21, {"x", "w"});
    m.proto.mutable_graph()->clear_input();
    m.add_input("x", {1, 2, 3, 3, 3});
    m.add_constant("w", {2, 2, 1, 1, 1}, {1, 1, 1, 1});
    m.set("group", groups);
    EXPECT_EQ(refusal(m),
              "m.onnx: Conv 'n' (opset 21): conv3d 'n': groups is " + std::to_string(groups) + "; expected 1 to 2^31");
  }
}

TEST(HostileOnnx, AxesThatAreNamedTwice) {
  Model m("MeanVarianceNormalization");
  m.set("axes", std::vector<std::int64_t>{1, -1});
  EXPECT_EQ(refusal(m), "m.onnx: MeanVarianceNormalization 'n' (opset 21): reduce_mean 'n': axis 1 is named twice");
}

TEST(HostileOnnx, TypesThatDoNotFitAnInt) {
  Model m("Cast");
  m.set("to", (std::int64_t{1} << 32) + 1);
  EXPECT_THAT(refusal(m), Says("m.onnx: Cast 'n' (opset 21): to is 4294967297"));
}

Model resized(std::vector<float> roi, bool antialias) {
  Model m("Resize", 21, {"x", "roi", "scales"});
  m.add_constant("roi", {4}, std::move(roi));
  m.add_constant("scales", {2}, {2, 2});
  auto* mode = m.attribute("coordinate_transformation_mode", 3);
  mode->set_s("tf_crop_and_resize");
  m.attribute("mode", 3)->set_s("linear");
  if (antialias) m.set("antialias", std::int64_t{1});
  return m;
}

// Beyond 2^53 the number behind x is x: a loop over the elements around it would not end
TEST(HostileOnnx, RegionsOfInterest) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(resized({0, 0, 1, 1}, false)), accepted);
  EXPECT_THAT(refusal(resized({nan, 0, 1, 1}, false)), HasSubstr("region of interest has nan"));
  EXPECT_THAT(refusal(resized({0x1p54f, 0, 0x1p54f, 1}, false)), HasSubstr("expected -2^20 to 2^20"));
  EXPECT_THAT(refusal(resized({0, 0, 1, 1}, true)), Says("antialias … region of interest"));
}

TEST(HostileOnnx, ScalesOfAnotherNumberOfGroups) {
  Model m("InstanceNormalization", 17, {"r", "s", "s"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, 4, 2, 2});
  m.add_integers("shape", {0, 4, -1});
  m.add_constant("s", {2}, {1, 2});
  auto& graph = *m.proto.mutable_graph();
  const onnx::NodeProto last = graph.node(0);
  graph.clear_node();
  auto* reshape = graph.add_node();
  reshape->set_op_type("Reshape");
  for (const char* input : {"x", "shape"}) reshape->add_input(input);
  reshape->add_output("r");
  *graph.add_node() = last;
  EXPECT_THAT(
      refusal(m),
      Says("m.onnx: InstanceNormalization 'n' (opset 17): scale and bias have 2 elements; expected … 4 channels"));
}

// The name of a call stands ahead of every name in its function
TEST(HostileOnnx, LongNamesOfCalls) {
  Model m("Call");
  m.proto.add_opset_import()->set_domain("f");
  m.node->set_domain("f");
  m.node->set_name(std::string(2000, 'n'));
  auto* f = m.proto.add_functions();
  f->set_name("Call");
  f->set_domain("f");
  f->add_input("a");
  f->add_output("b");
  f->add_opset_import()->set_version(21);
  auto* node = f->add_node();
  node->set_op_type("Relu");
  node->add_input("a");
  node->add_output("b");
  EXPECT_THAT(refusal(m), Says("its name … 2000 bytes; the limit is 1024"));
  m.node->set_name("n");
  EXPECT_EQ(refusal(m), accepted);
}

test::HostTensor ones(std::vector<std::int64_t> shape) {
  const auto n = static_cast<std::size_t>(element_count(shape));
  return {std::move(shape), std::vector<float>(n, 1)};
}

// 2^60 taps, all but one of which lie in the padding
TEST(HostileOnnx, WindowsFarLargerThanTheImage) {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    Model m(op);
    m.proto.mutable_graph()->clear_input();
    m.add_input("x", {1, 1, 1, 1, 1});
    constexpr std::int64_t wide = 1 << 20;
    m.set("kernel_shape", std::vector<std::int64_t>(3, wide));
    m.set("pads", std::vector<std::int64_t>(6, wide - 1));
    m.set("strides", std::vector<std::int64_t>(3, wide));
    const auto y = test::run(compile(test::parse(m.bytes())), {{"x", ones({1, 1, 1, 1, 1})}}).at("y");
    EXPECT_EQ(y.data, std::vector<float>(1, 1)) << op;
  }
}

// One axis longer and the other shorter by 2^17: what lies between must not have 2^34 elements
TEST(HostileOnnx, ResizeThatSwapsLongAxes) {
  constexpr std::int64_t n = 1 << 17;
  Model m("Resize", 21, {"x", "", "", "sizes"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, n});
  m.add_integers("sizes", {n, 1});
  m.attribute("mode", 3)->set_s("linear");
  const auto y = test::run(compile(test::parse(m.bytes())), {{"x", ones({1, n})}}).at("y");
  EXPECT_EQ(y.data, std::vector<float>(n, 1));
}

}  // namespace
}  // namespace unisono
