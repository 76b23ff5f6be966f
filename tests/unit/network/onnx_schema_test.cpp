/// Nodes that do not fit their operator's schema.

#include <gmock/gmock.h>

#include "network/onnx/operator_schema.hpp"
#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::accepted;
using test::refusal;
using Model = test::OnnxModel;
using Ints = std::vector<std::int64_t>;

// y = Conv(x, w) over x (1,3,8,8)
Model convolution() {
  Model m("Conv", 17, {"x", "w"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, 3, 8, 8});
  m.add_constant("w", {4, 3, 1, 1}, std::vector<float>(12, 1));
  return m;
}

TEST(OnnxSchema, TheTableKnowsTheOperators) {
  using network::onnx_import::find_schema;
  EXPECT_EQ(network::onnx_import::newest_opset(), 28);
  EXPECT_EQ(find_schema("Conv", 10)->since, 1);
  EXPECT_EQ(find_schema("Conv", 21)->since, 11);
  EXPECT_EQ(find_schema("Mish", 17), nullptr);
  EXPECT_EQ(find_schema("Nonsense", 21), nullptr);
  const auto* cast = find_schema("Cast", 28);
  ASSERT_EQ(cast->attributes.size(), 3u);
  EXPECT_EQ(cast->attributes[2].name, "to");
  EXPECT_TRUE(cast->attributes[2].required);
}

TEST(OnnxSchema, NamesOfAttributes) {
  EXPECT_EQ(refusal(convolution()), accepted);
  const Model typo = convolution();
  typo.set("stride", Ints{2, 2});
  EXPECT_EQ(refusal(typo),
            "m.onnx: Conv 'n' (opset 17): has no attribute 'stride'; it has auto_pad, dilations, group, kernel_shape, "
            "pads, strides; did you mean 'strides'?");
  const Model none("Relu");
  none.set("alpha", 0.5f);
  EXPECT_EQ(refusal(none), "m.onnx: Relu 'n' (opset 21): has no attribute 'alpha'; it has none");
  const Model twice = convolution();
  twice.set("group", std::int64_t{1});
  twice.set("group", std::int64_t{1});
  EXPECT_EQ(refusal(twice), "m.onnx: Conv 'n' (opset 17): attribute 'group' is given twice");
  EXPECT_EQ(refusal(Model("Cast")), "m.onnx: Cast 'n' (opset 21): attribute 'to' is missing (INT)");
}

// An attribute belongs to the opset that has it
TEST(OnnxSchema, OpsetsOfAttributes) {
  for (const auto& [opset, text] :
       {std::pair{18, "m.onnx: Cast 'n' (opset 18): has no attribute 'saturate'; it has to"}, {19, accepted}}) {
    const Model m("Cast", opset);
    m.set("to", std::int64_t{7});
    m.set("saturate", std::int64_t{0});
    EXPECT_EQ(refusal(m), text);
  }
}

TEST(OnnxSchema, TypesOfAttributes) {
  const Model alpha("LeakyRelu");
  alpha.set("alpha", std::int64_t{1});
  EXPECT_EQ(refusal(alpha), "m.onnx: LeakyRelu 'n' (opset 21): attribute 'alpha' is INT; expected FLOAT");
  const Model strides = convolution();
  strides.set("strides", 2.5f);
  EXPECT_EQ(refusal(strides), "m.onnx: Conv 'n' (opset 17): attribute 'strides' is FLOAT; expected INTS");
  const Model untyped("LeakyRelu");
  untyped.attribute("alpha", 0)->set_f(0.5f);
  EXPECT_THAT(refusal(untyped), Says("m.onnx: LeakyRelu 'n' (opset 21): attribute 'alpha' … type; expected FLOAT"));
  const Model other("LeakyRelu");
  other.attribute("alpha", 1)->set_i(1);
  EXPECT_THAT(refusal(other), Says("m.onnx: LeakyRelu 'n' (opset 21): attribute 'alpha' … FLOAT, … another type"));
}

TEST(OnnxSchema, NumbersOfInputsAndOutputs) {
  EXPECT_EQ(refusal(Model("Relu", 21, {"x", "x"})), "m.onnx: Relu 'n' (opset 21): has 2 inputs; expected 1 (X)");
  EXPECT_EQ(refusal(Model("Relu", 21, {})), "m.onnx: Relu 'n' (opset 21): has 0 inputs; expected 1 (X)");
  EXPECT_EQ(refusal(Model("Relu", 21, {""})), "m.onnx: Relu 'n' (opset 21): input 0 (X) is missing");
  EXPECT_EQ(refusal(Model("Clip", 21, {"x", "", "", "x"})),
            "m.onnx: Clip 'n' (opset 21): has 4 inputs; expected 1 to 3 (input, min, max)");
  EXPECT_EQ(refusal(Model("Clip", 21, {"x", "", ""})), accepted);
  EXPECT_EQ(refusal(Model("Sum", 21, {})), "m.onnx: Sum 'n' (opset 21): has 0 inputs; expected at least 1 (data_0)");
  Model outputs("Relu");
  outputs.node->add_output("z");
  EXPECT_EQ(refusal(outputs), "m.onnx: Relu 'n' (opset 21): has 2 outputs; expected 1 (Y)");
}

TEST(OnnxSchema, TypesOfElements) {
  Model pad("Pad", 17, {"i", "p", "v"});
  pad.add_input("i", {2, 3}, 3);
  pad.add_integers("p", {0, 1, 0, 1});
  pad.add_constant("v", {}, {1e30f});
  EXPECT_EQ(
      refusal(pad),
      "m.onnx: Pad 'n' (opset 17): input 'v' (constant_value) has elements of float32; expected int8 like input 'i'");
  Model add("Add", 21, {"x", "i"});
  add.add_input("i", {2, 3}, 7);
  EXPECT_EQ(refusal(add),
            "m.onnx: Add 'n' (opset 21): input 'i' (B) has elements of int64; expected float32 like input 'x'");
  Model conv("Sin", 21, {"i"});
  conv.add_input("i", {2, 3}, 7);
  EXPECT_EQ(
      refusal(conv),
      "m.onnx: Sin 'n' (opset 21): input 'i' (input) has elements of int64; expected one of float32, float16, float64");
  Model both("Where", 21, {"c", "x", "x"});  // each constraint by itself
  both.add_input("c", {2, 3}, 9);
  EXPECT_EQ(refusal(both), accepted);
}

TEST(OnnxSchema, OperatorsThatEnded) {
  Model m("Upsample", 10, {"x", "s"});
  m.add_constant("s", {2}, {1, 2});
  EXPECT_THAT(refusal(m), Says("m.onnx: Upsample 'n' (opset 10): Upsample ends with opset 9; Resize has taken"));
}

// For what they are, in any domain
TEST(OnnxSchema, RefusedByName) {
  for (const char* op : {"Scan", "NonZero", "Compress", "NonMaxSuppression", "QuantizeLinear", "DequantizeLinear",
                         "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
    EXPECT_THAT(refusal(Model(op)),
                testing::AllOf(testing::StartsWith(std::string("m.onnx: ") + op + " 'n' (opset 21): "),
                               testing::HasSubstr(";")))
        << op;
  Model bits("MatMulNBits");
  bits.node->set_domain("com.microsoft");
  EXPECT_THAT(refusal(bits),
              Says("m.onnx: MatMulNBits 'n' (opset 21): quantised … export … float32 or float16 weights"));
}

}  // namespace
}  // namespace unisono
