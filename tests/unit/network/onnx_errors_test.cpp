/// Files that the importer must refuse, and what it says.

#include <gtest/gtest.h>

#include <fstream>

#include "onnx_model.hpp"
#include "support/says.hpp"
#include "support/sources.hpp"

namespace unisono {
namespace {

using test::user_error;

using test::parse;
using test::refusal;
using Model = test::OnnxModel;

TEST(OnnxErrors, ModelOfTheseTestsIsFine) { EXPECT_EQ(refusal(Model("Relu")), "(no UserError)"); }

TEST(OnnxErrors, UnknownOperatorNamesNodeAndOpset) {
  const std::string text = refusal(Model("StringNormalizer", 17));
  EXPECT_THAT(text.substr(0, text.find(" Abs")),
              Says("m.onnx: StringNormalizer 'n' (opset 17): … not supported; supported are"));
  Model other("Relu");
  other.node->set_domain("com.example");
  EXPECT_THAT(refusal(other), Says("m.onnx: Relu 'n' (opset 21): domain 'com.example' is not supported"));
  EXPECT_THAT(refusal(Model("Mish", 17)),
              Says("m.onnx: Mish 'n' (opset 17): … from opset 18 on; export … onnx.version_converter"));
}

TEST(OnnxErrors, WhatAGemmAddsBroadcastsToTheProduct) {
  const auto with = [](std::vector<std::int64_t> shape, float beta) {
    Model m("Gemm", 21, {"x", "b", "c"});
    m.add_constant("b", {3, 4}, std::vector<float>(12, 1));
    m.add_input("c", std::move(shape));
    m.set("beta", beta);
    return refusal(m);
  };
  EXPECT_NE(with({3}, 1), "(no UserError)");
  for (const float beta : {0.0f, 0.5f}) {
    for (const std::vector<std::int64_t>& fits : {std::vector<std::int64_t>{}, {1}, {4}, {1, 4}, {2, 1}, {2, 4}})
      EXPECT_EQ(with(fits, beta), "(no UserError)");
    EXPECT_THAT(with({3}, beta), Says("m.onnx: Gemm 'n' (opset 21): C (3) does not broadcast … (2,4)"));
    EXPECT_THAT(with({2, 3}, beta), Says("m.onnx: Gemm 'n' (opset 21): C (2,3) does not broadcast … (2,4)"));
    EXPECT_THAT(with({1, 2, 4}, beta), Says("m.onnx: Gemm 'n' (opset 21): C (1,2,4) does not broadcast … (2,4)"));
  }
}

TEST(OnnxErrors, AllRefusedOperatorsAreNamedAtOnce) {
  Model m("Relu", 17);
  const auto add = [&](const std::string& op, const std::string& domain = "") {
    auto* node = m.proto.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_domain(domain);
    node->add_input("y");
    node->add_output(op + std::to_string(m.proto.graph().node_size()));
  };
  for (const char* op : {"Scan", "Scan", "Tanh", "NonZero", "NonZero", "Mish"}) add(op);
  add("Rotate", "com.example");
  const std::string text = refusal(m);
  EXPECT_THAT(text, Says("; … refused: … Mish (1 node), NonZero (2 nodes), com.example.Rotate (1 node)"));
  EXPECT_THAT(text, testing::EndsWith("com.example.Rotate (1 node)"));
  EXPECT_EQ(text.rfind("m.onnx: Scan ", 0), 0u) << text;
}

TEST(OnnxErrors, InputsWithoutAShape) {
  Model m("Relu");
  m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(refusal(m).substr(0, 34), "m.onnx: input 'x' has no shape, so");
}

TEST(OnnxErrors, Opsets) {
  EXPECT_EQ(refusal(Model("Relu", 10)), "(no UserError)");  // means the same there
  EXPECT_THAT(refusal(Model("Clip", 10)),
              Says("m.onnx: Clip 'n' (opset 10): … from opset 11 on; export … onnx.version_converter"));
  EXPECT_EQ(refusal(Model("Relu", -1)),
            "m.onnx: uses opset -1; expected 11 to 28 (export again, or convert it with onnx.version_converter)");
  EXPECT_EQ(refusal(Model("Relu", 28)), "(no UserError)");
  EXPECT_EQ(refusal(Model("Relu", 29)),
            "m.onnx: uses opset 29; expected 11 to 28 (export again, or convert it with onnx.version_converter)");
  Model none("Relu");
  none.proto.clear_opset_import();
  EXPECT_THAT(refusal(none), Says("m.onnx: names no opset … ONNX model?"));
}

TEST(OnnxErrors, DamagedBytes) {
  EXPECT_EQ(user_error([] { parse(""); }), "m.onnx: damaged, or not an ONNX model (its 0 bytes cannot be parsed)");
  EXPECT_EQ(user_error([] { parse("hello, world"); }),
            "m.onnx: damaged, or not an ONNX model (its 12 bytes cannot be parsed)");
  EXPECT_EQ(user_error([] { load_onnx("/nowhere/m.onnx"); }),
            "cannot open '/nowhere/m.onnx': No such file or directory");
  EXPECT_EQ(user_error([] { load_onnx("/"); }), "cannot open '/': Is a directory; expected a regular file");
}

// Every prefix and every changed byte of a real model: refused or read, never anything else
TEST(OnnxErrors, TruncatedAndCorruptedFiles) {
  std::ifstream file(test::source_path("tests/data/onnx/squeeze_excite.onnx"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 500u);
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      parse(bytes, {.constant_elements = 1 << 16});
    } catch (const UserError&) {
      ++refused;
    }
  };
  for (std::size_t i = 0; i < whole.size(); ++i) attempt(whole.substr(0, i));
  EXPECT_GT(refused, static_cast<int>(whole.size() * 9 / 10));
  test::Random r(11);
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = whole;
    for (int k = r.between(1, 4); k > 0; --k)
      bytes[static_cast<std::size_t>(r.below(static_cast<int>(whole.size())))] = static_cast<char>(r.below(256));
    attempt(bytes);
  }
}

TEST(OnnxErrors, Names) {
  EXPECT_THAT(refusal(Model("Relu", 21, {"z"})), Says("m.onnx: node 'n' reads 'z', which is not … earlier node"));
  EXPECT_THAT(refusal(Model("Relu", 21, {"y"})),  // a cycle
              Says("m.onnx: node 'n' reads 'y', which is not … earlier node"));
  Model twice("Relu");
  twice.node->set_output(0, "x");
  EXPECT_EQ(refusal(twice), "m.onnx: 'x' is defined twice");
  Model constants("Relu");
  constants.add_constant("c", {1}, {1});
  constants.add_constant("c", {1}, {1});
  EXPECT_EQ(refusal(constants), "m.onnx: initializer 'c' is defined twice");
  Model output("Relu");
  output.proto.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(refusal(output), Says("m.onnx: node '(graph output)' reads 'z', which is not … earlier node"));
  Model no_output("Relu");
  no_output.proto.mutable_graph()->clear_output();
  EXPECT_THAT(refusal(no_output), Says("m.onnx: … no output"));
}

TEST(OnnxErrors, Tensors) {
  Model shorter("Add", 21, {"x", "c"});
  shorter.add_constant("c", {3}, {1, 2});
  EXPECT_EQ(refusal(shorter), "m.onnx: tensor 'c': has 2 elements of data; its shape takes 3");
  Model huge("Add", 21, {"x", "c"});
  huge.add_constant("c", {1 << 30, 1 << 30, 1 << 30});
  EXPECT_THAT(refusal(huge, {.constant_bytes = 4 << 20}), Says("m.onnx: tensor 'c': … limit of 1048576"));
  Model negative("Add", 21, {"x", "c"});
  negative.add_constant("c", {-3});
  EXPECT_EQ(refusal(negative), "m.onnx: tensor 'c': has an extent of -3");
  Model external("Add", 21, {"x", "c"});
  external.add_constant("c", {3})->set_data_location(1);
  EXPECT_THAT(refusal(external), Says("m.onnx: tensor 'c': … another file; load … folder, or save … one file"));
  Model text("Add", 21, {"x", "c"});
  text.add_constant("c", {3})->set_data_type(8);
  EXPECT_EQ(refusal(text),
            "m.onnx: Add 'n' (opset 21): input 'c' (B) has elements of string; expected one of float32, uint8, int8, "
            "uint16, int16, int32, int64, float16, float64, uint32, uint64, bfloat16");
  Model many("Add", 21, {"x", "c"});
  many.add_constant("c", {3}, {1, 2, 3});
  EXPECT_THAT(refusal(many, {.constant_elements = 2}), Says("m.onnx: tensor 'c': … limit of 2 …"));
  Model strings("Relu");
  strings.add_input("s", {2}, 8);
  EXPECT_EQ(refusal(strings), "m.onnx: input 's' has elements of string; expected a float, integer or bool type");
  Model integers("Erf", 21, {"i"});
  integers.add_input("i", {2}, 7);
  EXPECT_EQ(refusal(integers),
            "m.onnx: Erf 'n' (opset 21): input 'i' (input) has elements of int64; expected one of float32, float16, "
            "float64, bfloat16");
  Model declared("Shape");
  declared.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  EXPECT_EQ(refusal(declared), "m.onnx: output 'y' is declared float32, and computed as int64");
}

TEST(OnnxErrors, Limits) {
  EXPECT_EQ(refusal(Model("Relu"), {.nodes = 0}), "m.onnx: has 1 nodes; the limit is 0");
  const std::string bytes = Model("Relu").bytes();
  EXPECT_EQ(user_error([&] { parse(bytes, {.file_bytes = 8}); }),
            "m.onnx: has " + std::to_string(bytes.size()) + " bytes; the limit is 8");
}

TEST(OnnxErrors, ShapesInsideTheModel) {
  Model add("Add", 21, {"x", "c"});
  add.add_constant("c", {4}, {1, 2, 3, 4});
  EXPECT_EQ(refusal(add),
            "m.onnx: Add 'n' (opset 21): add 'n': shapes (2,3) and (4) do not broadcast: extents 3 and 4 differ and "
            "neither is 1");
  Model pool("MaxPool");
  pool.set("kernel_shape", std::vector<std::int64_t>{2});
  EXPECT_EQ(refusal(pool),
            "m.onnx: MaxPool 'n' (opset 21): the input has shape (2,3); expected 3 to 5 extents (N,C,…)");
  Model concat("Concat", 21, {"x", "x"});
  concat.set("axis", std::int64_t{5});
  EXPECT_EQ(refusal(concat), "m.onnx: Concat 'n' (opset 21): axis is 5; expected -2 to 1");
  Model reshape("Reshape", 21, {"x", "i"});
  reshape.add_input("i", {2}, 7);
  EXPECT_THAT(refusal(reshape), Says("m.onnx: Reshape 'n' (opset 21): input 'i' must be integers"));
  Model training("BatchNormalization", 21, {"x", "x", "x", "x", "x"});
  training.set("training_mode", std::int64_t{1});
  EXPECT_THAT(refusal(training),
              Says("m.onnx: BatchNormalization 'n' (opset 21): input 1 has shape (2,3); expected … 3 channels"));
}

// What must be a number when the file is read
TEST(OnnxErrors, OperandsThatAreNotKnownYet) {
  for (const std::string op : {"Tile", "Slice", "Expand", "Pad"}) {
    Model m(op, 21, {"x", "i"});
    if (op == "Slice") m.node->add_input("i");
    m.add_input("i", {2}, 7);
    EXPECT_THAT(refusal(m), Says("m.onnx: " + op + " 'n' (opset 21): input 'i' must be integers"));
  }
}

TEST(OnnxErrors, Attributes) {
  Model cast("Cast");
  cast.set("to", std::int64_t{8});
  EXPECT_EQ(refusal(cast), "m.onnx: Cast 'n' (opset 21): a cast to string is not supported");
  Model reduce("ReduceSum", 13, {"x", "a"});
  auto* axes = reduce.add_constant("a", {2});
  axes->set_data_type(7);
  axes->add_int64_data(1);
  axes->add_int64_data(-1);
  EXPECT_EQ(refusal(reduce), "m.onnx: ReduceSum 'n' (opset 13): axis 1 is named twice");
  Model split("Split", 13);
  split.set("axis", std::int64_t{1});
  split.node->add_output("z");
  EXPECT_THAT(refusal(split), Says("m.onnx: Split 'n' (opset 13): 3 elements … 2 equal parts"));
}

}  // namespace
}  // namespace unisono
