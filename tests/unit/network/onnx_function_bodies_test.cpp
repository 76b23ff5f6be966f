/// Operators that ONNX defines as functions of others.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "network/onnx/function_bodies.hpp"
#include "network/onnx/importer.hpp"
#include "network/onnx/operator_schema.hpp"
#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

namespace table = network::onnx_import;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;
using Model = test::OnnxModel;
using Values = std::vector<float>;

const Values given{-4, -1.5f, 0, 0.75f, 2, 6};

Values run(const Model& m) { return test::run(compile(test::parse(m.bytes())), {{"x", {{2, 3}, given}}}).at("y").data; }

double swish(double x, double alpha) { return x / (1 + std::exp(-alpha * x)); }

void expect_near(const Values& y, const Values& expected, const std::string& what) {
  ASSERT_EQ(y.size(), expected.size()) << what;
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 3e-6 * (1 + std::abs(expected[i]))) << what;
}

// Every other operator that has a body has an importer
TEST(OnnxFunctionBodies, AreImportedWhereNothingElseIs) {
  std::vector<std::string_view> inlined;
  const auto supported = table::supported_operators();
  for (const std::string_view op : table::operators_with_bodies()) {
    const bool known = std::find(supported.begin(), supported.end(), op) != supported.end();
    EXPECT_EQ(known, table::refusal_of(op).empty()) << op;
    if (known && table::find_row(op) == nullptr) inlined.push_back(op);
  }
  EXPECT_THAT(inlined, ElementsAre("BlackmanWindow", "HammingWindow", "HannWindow", "SwiGLU", "Swish"));
}

TEST(OnnxFunctionBodies, TakeDefaultsAndAttributes) {
  Model m("Swish", 24);
  Values expected;
  for (const float x : given) expected.push_back(static_cast<float>(swish(x, 1)));
  expect_near(run(m), expected, "alpha 1");
  m.set("alpha", 0.5f);
  for (std::size_t i = 0; i < given.size(); ++i) expected[i] = static_cast<float>(swish(given[i], 0.5));
  expect_near(run(m), expected, "alpha 0.5");
}

// Within a body stands another operator that has one
TEST(OnnxFunctionBodies, Nest) {
  Model m("SwiGLU", 28, {"x", "b"});
  m.add_constant("b", {3}, {1, 2, -3});
  m.set("alpha", 2.0f);
  Values expected;
  for (std::size_t i = 0; i < given.size(); ++i)
    expected.push_back(static_cast<float>(swish(given[i], 2) * std::array{1, 2, -3}[i % 3]));
  expect_near(run(m), expected, "SwiGLU");
}

TEST(OnnxFunctionBodies, OfShortFloats) {
  Model m("Swish", 24);
  auto* input = m.proto.mutable_graph()->mutable_input(0);
  input->mutable_type()->mutable_tensor_type()->set_elem_type(10);
  m.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(10);
  const Network n = test::parse(m.bytes());
  EXPECT_EQ(n.tensors[n.outputs[0]].dtype, DType::f16);
}

TEST(OnnxFunctionBodies, WhatIsRefused) {
  Model attribute("Swish", 24);
  attribute.set("beta", 1.0f);
  EXPECT_EQ(refusal(attribute), "m.onnx: Swish 'n' (opset 24): has no attribute 'beta'; it has alpha");
  EXPECT_EQ(refusal(Model("Swish", 23)), "m.onnx: Swish 'n' (opset 23): opset 23 has no such operator");
  EXPECT_EQ(refusal(Model("SwiGLU", 28)), "m.onnx: SwiGLU 'n' (opset 28): has 1 input; expected 2 (A, B)");
  EXPECT_THAT(refusal(Model("Swish", 24), {.nodes = 3}), HasSubstr("has more than 3 nodes, the limit"));
  Model window("HannWindow", 17, {"k"});
  window.add_input("k", {}, 7);
  EXPECT_THAT(refusal(window), HasSubstr("Range 'n/Range' (opset 17): "));
}

// Those whose bodies differ from node to node, or have loops
TEST(OnnxFunctionBodies, OfContextAreRefusedWithTheReason) {
  for (const auto& [op, reason] : {std::pair{"NegativeLogLikelihoodLoss", "losses are for training"},
                                   {"SoftmaxCrossEntropyLoss", "losses are for training"},
                                   {"CausalConvWithState", "differs from node"},
                                   {"LinearAttention", "a loop (Scan)"}})
    EXPECT_THAT(refusal(Model(op, 28)), Says(reason)) << op;
}

TEST(OnnxFunctionBodies, FitTheModelsOpset) {
  const auto opset_of = [](std::string_view op, std::int64_t opset) {
    const auto* body = table::find_body(*table::find_schema(op, opset), opset);
    return body == nullptr ? 0 : body->opset_import(0).version();
  };
  EXPECT_EQ(opset_of("MeanVarianceNormalization", 17), 13);
  EXPECT_EQ(opset_of("MeanVarianceNormalization", 18), 18);
  EXPECT_EQ(opset_of("MeanVarianceNormalization", 28), 18);
  EXPECT_EQ(opset_of("Elu", 11), 18);  // its only one
  EXPECT_EQ(opset_of("Celu", 27), 0);  // it depended on the element type
  EXPECT_EQ(opset_of("Celu", 28), 28);
  EXPECT_EQ(opset_of("Conv", 28), 0);
}

// What this importer makes of an operator, and ONNX's own definition of it
TEST(OnnxFunctionBodies, AgreeWithOurImporters) {
  int compared = 0;
  for (const std::string_view op : table::operators_with_bodies())
    for (const std::int64_t opset : {13, 18, 28}) {
      const table::OperatorSchema* schema = table::find_schema(op, opset);
      const auto* body = schema == nullptr ? nullptr : table::find_body(*schema, opset);
      const bool of_floats = body != nullptr && body->output_size() == 1 && !op.ends_with("Window") &&
                             !op.ends_with("OrEqual") && table::find_row(op) != nullptr;
      if (!of_floats || opset < table::find_row(op)->since) continue;
      Model m{std::string(op), opset};
      if (op == "PRelu") {
        m.node->add_input("slope");
        m.add_constant("slope", {3}, {0.5, -1, 2});
      }
      if (op == "ReduceLogSum") {  // of positive numbers
        m.node->set_input(0, "above");
        auto* abs = m.proto.mutable_graph()->add_node();
        abs->set_op_type("Abs");
        abs->add_input("x");
        abs->add_output("above");
        m.proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
        m.node = m.proto.mutable_graph()->mutable_node(1);
      }
      if (op == "MeanVarianceNormalization") m.set("axes", std::vector<std::int64_t>{1});
      const Values ours = run(m);
      *m.proto.add_functions() = *body;
      m.proto.mutable_functions(0)->set_domain("t");
      m.node->set_domain("t");
      m.proto.add_opset_import()->set_domain("t");
      m.proto.mutable_opset_import(1)->set_version(1);
      SCOPED_TRACE(std::string(op) + " of opset " + std::to_string(opset));
      expect_near(ours, run(m), "");
      ++compared;
    }
  EXPECT_GE(compared, 40);
}

Model affine_grid(std::vector<std::int64_t> size, std::vector<std::int64_t> theta = {1, 2, 3}, bool corners = false) {
  Model m("AffineGrid", 20, {"theta", "size"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("theta", std::move(theta));
  m.add_integers("size", std::move(size));
  m.set("align_corners", std::int64_t{corners});
  return m;
}

// The map that moves nothing leaves each pixel at its place, x before y
TEST(OnnxAffineGrid, PlacesOfPixels) {
  const auto places = [](bool corners) {
    const Network n = test::parse(affine_grid({1, 3, 2, 4}, {1, 2, 3}, corners).bytes());
    return test::run(compile(n), {{"theta", {{1, 2, 3}, {1, 0, 0, 0, 1, 0}}}}).at("y");
  };
  EXPECT_EQ(places(false).shape, (std::vector<std::int64_t>{1, 2, 4, 2}));
  EXPECT_EQ(places(false).data, (Values{-0.75f, -0.5f, -0.25f, -0.5f, 0.25f, -0.5f, 0.75f, -0.5f,  //
                                        -0.75f, 0.5f, -0.25f, 0.5f, 0.25f, 0.5f, 0.75f, 0.5f}));
  const Values corners = places(true).data;
  EXPECT_EQ((Values{corners.begin(), corners.begin() + 2}), (Values{-1, -1}));
  EXPECT_EQ((Values{corners.end() - 2, corners.end()}), (Values{1, 1}));
}

TEST(OnnxAffineGrid, WhatIsRefused) {
  EXPECT_THAT(refusal(affine_grid({1, 3, 4})), HasSubstr("size has 3 extents; expected 4 (N,C,H,W) or 5"));
  EXPECT_THAT(refusal(affine_grid({1})), HasSubstr("size has 1 extents"));
  EXPECT_THAT(refusal(affine_grid({1, 3, 4, 4, 4})), HasSubstr("theta has shape (1,2,3); expected (N,3,4)"));
  EXPECT_THAT(refusal(affine_grid({2, 3, 4, 4})), HasSubstr("theta has 1 maps, and size 2 images"));
  EXPECT_THAT(refusal(affine_grid({1, 3, 1, 4}, {1, 2, 3}, true)), HasSubstr("divides by 0"));
  EXPECT_THAT(refusal(affine_grid({1, 3, 0, 4})), HasSubstr("at least 1"));
  EXPECT_THAT(refusal(affine_grid({1, 3, std::int64_t{1} << 40, 4})), HasSubstr("at most 2^22 pixels"));
  Model theta = affine_grid({1, 3, 4, 4});
  theta.proto.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
  theta.add_input("size", {4}, 7);
  EXPECT_THAT(refusal(theta), Says("must be integers … from shapes"));
}

}  // namespace
}  // namespace unisono
