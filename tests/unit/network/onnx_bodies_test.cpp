/// Functions of a model, and If.

#include <gmock/gmock.h>

#include <span>

#include "network/onnx/importer.hpp"
#include "onnx_model.hpp"
#include "reference/onnx/evaluate.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::accepted;
using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;

onnx::NodeProto* add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes, const std::string& op,
                          const std::vector<std::string>& inputs, const std::string& output) {
  auto* node = nodes->Add();
  node->set_op_type(op);
  for (const auto& i : inputs) node->add_input(i);
  node->add_output(output);
  return node;
}

// The function t.op of inputs a and b (which may be left out) and the attribute alpha: y = LeakyRelu(a, alpha)
onnx::FunctionProto* add_function(Model& m, const std::string& name = "Op") {
  auto* f = m.proto.add_functions();
  f->set_domain("t");
  f->set_name(name);
  f->add_input("a");
  f->add_input("b");
  f->add_output("y");
  f->add_attribute("alpha");
  f->add_opset_import()->set_version(17);
  auto* node = add_node(f->mutable_node(), "LeakyRelu", {"a"}, "y");
  auto* alpha = node->add_attribute();
  alpha->set_name("alpha");
  alpha->set_type(1);
  alpha->set_ref_attr_name("alpha");
  return f;
}

Model call() {
  Model m("Op");
  m.node->set_domain("t");
  m.proto.add_opset_import()->set_domain("t");
  m.proto.mutable_opset_import(1)->set_version(1);
  return m;
}

std::vector<float> run(const Model& m) {
  return test::run(compile(test::parse(m.bytes())), {{"x", {{2, 3}, {-4, -2, 0, 2, 4, 6}}}}).at("y").data;
}

TEST(OnnxFunctions, TakeTheAttributesOfTheirCall) {
  Model m = call();
  add_function(m);
  m.set("alpha", 0.5f);
  EXPECT_EQ(run(m), (std::vector<float>{-2, -1, 0, 2, 4, 6}));
}

// The operator's own default stands where neither call nor function gives a value; the function's comes before that
TEST(OnnxFunctions, Defaults) {
  Model m = call();
  auto* f = add_function(m);
  EXPECT_EQ(run(m), (std::vector<float>{-4 * 0.01f, -2 * 0.01f, 0, 2, 4, 6}));
  f->clear_attribute();
  auto* alpha = f->add_attribute_proto();
  alpha->set_name("alpha");
  alpha->set_type(1);
  alpha->set_f(0.25f);
  EXPECT_EQ(run(m), (std::vector<float>{-1, -0.5f, 0, 2, 4, 6}));
}

// Calls share no names, with one another or with the graph
TEST(OnnxFunctions, NamesAreTheirOwn) {
  Model m = call();
  m.set("alpha", 0.5f);
  m.node->set_output(0, "a");  // as an input of the function is called
  add_function(m);
  auto* again = m.proto.mutable_graph()->add_node();
  *again = *m.node;
  again->set_name("again");
  again->set_input(0, "a");
  again->set_output(0, "y");
  EXPECT_EQ(run(m), (std::vector<float>{-1, -0.5f, 0, 2, 4, 6}));
}

TEST(OnnxFunctions, CallOthersAndLeaveInputsOut) {
  Model m = call();
  m.set("alpha", 0.5f);
  auto* outer = add_function(m);
  outer->clear_node();
  auto* inner = add_node(outer->mutable_node(), "Inner", {"a", "b"}, "y");  // b is absent here
  inner->set_domain("t");
  auto* alpha = inner->add_attribute();
  alpha->set_name("slope");
  alpha->set_type(1);
  alpha->set_ref_attr_name("alpha");
  auto* f = add_function(m, "Inner");
  f->set_attribute(0, "slope");
  f->mutable_node(0)->mutable_attribute(0)->set_ref_attr_name("slope");
  f->mutable_node(0)->set_output(0, "l");
  add_node(f->mutable_node(), "Clip", {"l", "b"}, "y");
  EXPECT_EQ(run(m), (std::vector<float>{-2, -1, 0, 2, 4, 6}));
}

TEST(OnnxFunctions, WhatIsRefused) {
  Model twice = call();
  add_function(twice);
  add_function(twice);
  EXPECT_EQ(refusal(twice), "m.onnx: function 't.Op' is defined twice");
  Model standard("Relu");
  add_function(standard, "Relu")->set_domain("");
  EXPECT_THAT(refusal(standard), Says("m.onnx: function 'Relu' … ONNX's own operators; give it another domain"));
  Model attribute = call();
  add_function(attribute);
  attribute.set("beta", 1.0f);
  EXPECT_EQ(refusal(attribute), "m.onnx: Op 'n' (opset 21): function 't.Op' has no attribute 'beta'");
  Model inputs = call();
  add_function(inputs);
  inputs.node->add_input("x");
  inputs.node->add_input("x");
  EXPECT_EQ(refusal(inputs), "m.onnx: Op 'n' (opset 21): has 3 inputs; function 't.Op' takes 2");
  Model graph("LeakyRelu");
  graph.attribute("alpha", 1)->set_ref_attr_name("alpha");
  EXPECT_THAT(refusal(graph),
              Says("m.onnx: LeakyRelu 'n' (opset 21): attribute 'alpha' refers to 'alpha' of a function"));
  Model body = call();  // schemas hold within a body, too
  add_function(body)->mutable_node(0)->add_input("a");
  EXPECT_EQ(refusal(body), "m.onnx: LeakyRelu 'n/y' (opset 17): has 2 inputs; expected 1 (X)");
  Model opset = call();
  add_function(opset)->mutable_opset_import(0)->set_version(99);
  EXPECT_THAT(refusal(opset), HasSubstr("function 't.Op': uses opset 99"));
}

TEST(OnnxFunctions, RecursionEnds) {
  Model itself = call();
  auto* f = add_function(itself);
  f->clear_node();
  add_node(f->mutable_node(), "Op", {"a"}, "y")->set_domain("t");
  EXPECT_THAT(refusal(itself), HasSubstr("function 't.Op' is nested more than 64 deep; does it call itself?"));
  // each of 20 functions calls the next one twice
  Model many = call();
  for (int i = 0; i < 20; ++i) {
    auto* g = add_function(many, i == 0 ? "Op" : "Op" + std::to_string(i));
    g->clear_node();
    for (const auto& [from, to] : {std::pair{"a", "m"}, {"m", "y"}})
      add_node(g->mutable_node(), "Op" + std::to_string(i + 1), {from}, to)->set_domain("t");
  }
  add_function(many, "Op20");
  EXPECT_THAT(refusal(many, {.nodes = 1000}), HasSubstr("has more than 1000 nodes, the limit"));
}

// y = If(c) { x + w } else { w2 - x }, with w of the graph and w2 of the branch
Model branches(bool condition) {
  Model m("If", 17, {"c"});
  auto* c = m.add_constant("c", {});
  c->set_data_type(9);
  c->add_int32_data(condition ? 1 : 0);
  m.add_constant("w", {3}, {1, 1, 1});
  auto* then_branch = m.attribute("then_branch", 5)->mutable_g();
  add_node(then_branch->mutable_node(), "Add", {"x", "w"}, "r");
  then_branch->add_output()->set_name("r");
  auto* else_branch = m.attribute("else_branch", 5)->mutable_g();
  auto* w2 = else_branch->add_initializer();
  w2->set_name("w2");
  w2->set_data_type(1);
  w2->add_dims(1);
  w2->add_float_data(10);
  add_node(else_branch->mutable_node(), "Sub", {"w2", "x"}, "r");
  else_branch->add_output()->set_name("r");
  return m;
}

TEST(OnnxIf, TakesTheBranchOfAConstantCondition) {
  EXPECT_EQ(run(branches(true)), (std::vector<float>{-3, -1, 1, 3, 5, 7}));
  EXPECT_EQ(run(branches(false)), (std::vector<float>{14, 12, 10, 8, 6, 4}));
}

// As PyTorch writes squeeze: the condition is Equal(Gather(Shape(x), 1), 3)
TEST(OnnxIf, TakesConditionsThatFollowFromShapes) {
  Model m = branches(true);
  m.proto.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
  m.add_integers("one", {1});
  m.add_integers("three", {3});
  onnx::GraphProto& graph = *m.proto.mutable_graph();
  const onnx::NodeProto last = graph.node(0);
  graph.clear_node();
  add_node(graph.mutable_node(), "Shape", {"x"}, "shape");
  add_node(graph.mutable_node(), "Gather", {"shape", "one"}, "extent");
  add_node(graph.mutable_node(), "Equal", {"extent", "three"}, "c");
  *graph.add_node() = last;
  EXPECT_EQ(run(m), (std::vector<float>{-3, -1, 1, 3, 5, 7}));
  graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_param("n");
  EXPECT_THAT(refusal(m), Says("If 'n' (opset 17): its condition 'c' depends on … run with"));
}

// The names of a branch end with it; what it read of the graph stays
TEST(OnnxIf, Names) {
  Model m = branches(true);
  m.node->set_output(0, "first");
  *m.proto.mutable_graph()->add_node() = *m.node;
  auto* second = m.proto.mutable_graph()->mutable_node(1);
  second->set_name("second");
  second->set_output(0, "z");
  add_node(m.proto.mutable_graph()->mutable_node(), "Mul", {"first", "w"}, "y");
  EXPECT_EQ(run(m), (std::vector<float>{-3, -1, 1, 3, 5, 7}));
  add_node(m.proto.mutable_graph()->mutable_node(), "Relu", {"r"}, "q");
  EXPECT_THAT(refusal(m), Says("reads 'r', which is not … earlier node"));
}

TEST(OnnxIf, WhatIsRefused) {
  Model outputs = branches(true);
  outputs.node->add_output("z");
  EXPECT_EQ(refusal(outputs), "m.onnx: If 'n' (opset 17): its then_branch has 1 outputs, and the node 2");
  Model inputs = branches(true);
  inputs.node->mutable_attribute(0)->mutable_g()->add_input()->set_name("i");
  EXPECT_EQ(refusal(inputs), "m.onnx: If 'n' (opset 17): its then_branch has 1 inputs; expected none");
  Model name = branches(true);
  name.node->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_name("\x1b[31m");
  EXPECT_THAT(refusal(name), HasSubstr("is not text"));
}

// y = Loop(steps, more, x): a step adds 10 to the power of its number, and `steps` rows of its number are stacked in z.
// The body reads w of the graph and ten of its own, and goes on while its next number is below `below`.
Model loop(std::int64_t steps, std::int64_t below, bool asks = true) {
  Model m("Loop", 17, {"steps", asks ? "more" : "", "x"});
  m.proto.mutable_graph()->add_output()->set_name("z");
  m.node->add_output("z");
  const auto whole = [](onnx::TensorProto* t, const std::string& name, std::int64_t number, int type) {
    t->set_name(name);
    t->set_data_type(type);
    if (type == 7) t->add_int64_data(number);
    if (type == 9) t->add_int32_data(static_cast<std::int32_t>(number));
    if (type == 1) t->add_float_data(static_cast<float>(number));
  };
  whole(m.proto.mutable_graph()->add_initializer(), "steps", steps, 7);
  whole(m.proto.mutable_graph()->add_initializer(), "more", 1, 9);
  whole(m.proto.mutable_graph()->add_initializer(), "w", 1, 1);
  auto* body = m.attribute("body", 5)->mutable_g();
  for (const char* name : {"step", "before", "sum"}) body->add_input()->set_name(name);
  whole(body->add_initializer(), "ten", 10, 1);
  whole(body->add_initializer(), "one", 1, 7);
  whole(body->add_initializer(), "below", below, 7);
  auto* nodes = body->mutable_node();
  auto* number = add_node(nodes, "Cast", {"step"}, "number")->add_attribute();
  number->set_name("to"), number->set_type(2), number->set_i(1);
  add_node(nodes, "Pow", {"ten", "number"}, "power");
  add_node(nodes, "Mul", {"power", "w"}, "more_of_it");
  add_node(nodes, "Add", {"sum", "more_of_it"}, "next_sum");
  add_node(nodes, "Add", {"step", "one"}, "next");
  add_node(nodes, "Less", {"next", "below"}, "goes_on");
  for (const char* name : {"goes_on", "next_sum", "number"}) body->add_output()->set_name(name);
  return m;
}

// What the executor gives; the definition in float64 must agree
std::pair<std::vector<float>, std::vector<float>> run_loop(const Model& m) {
  const test::HostTensor x{{2, 3}, {-4, -2, 0, 2, 4, 6}};
  const std::string bytes = m.bytes();
  const auto y = test::run(compile(test::parse(bytes)), {{"x", x}});
  const float64::Tensor64 x64{x.shape, {x.data.begin(), x.data.end()}, std::vector<double>(x.data.size(), 0.0)};
  const auto defined = float64::OnnxModel::parse(std::as_bytes(std::span(bytes))).evaluate({{"x", x64}});
  for (const auto& [name, tensor] : y) {
    EXPECT_EQ(tensor.shape, defined.at(name).shape);
    EXPECT_EQ(std::vector<double>(tensor.data.begin(), tensor.data.end()), defined.at(name).value);
  }
  return {y.at("y").data, y.at("z").data};
}

using Floats = std::vector<float>;

TEST(OnnxLoop, IsUnrolledWhereItsStepsAreKnown) {
  EXPECT_EQ(run_loop(loop(3, 100)), (std::pair{Floats{107, 109, 111, 113, 115, 117}, Floats{0, 1, 2}}));
  EXPECT_EQ(run_loop(loop(3, 2)), (std::pair{Floats{7, 9, 11, 13, 15, 17}, Floats{0, 1}}));
  EXPECT_EQ(run_loop(loop(3, 2, false)).second, (Floats{0, 1, 2}));
  Model m = loop(3, 2);
  m.node->set_input(0, "");
  EXPECT_EQ(run_loop(m).second, (Floats{0, 1}));
}

TEST(OnnxLoop, WithoutAStep) {
  Model m = loop(0, 100);
  EXPECT_THAT(refusal(m), HasSubstr("Loop 'n' (opset 17): has no step, so output 'z' has no shape"));
  m.node->set_output(1, "");
  m.proto.mutable_graph()->mutable_output()->RemoveLast();
  EXPECT_EQ(run(m), (Floats{-4, -2, 0, 2, 4, 6}));
}

// As PyTorch's exporter writes tensor_split by indices (torchvision's MViT): slices that are inserted in a sequence
TEST(OnnxLoop, HandsSequencesOn) {
  Model m("Loop", 17, {"steps", "more", "none"});
  auto& graph = *m.proto.mutable_graph();
  const auto constant = [&](const char* name, int type, std::vector<std::int64_t> elements, bool scalar) {
    m.add_integers(name, std::move(elements));
    auto* t = graph.mutable_initializer(graph.initializer_size() - 1);
    t->set_data_type(type);
    if (scalar) t->clear_dims();
    if (type == 9) t->clear_int64_data(), t->add_int32_data(1);
  };
  constant("steps", 7, {2}, true);
  constant("more", 9, {1}, true);
  constant("places", 7, {0, 1, 3}, false);
  constant("one", 7, {1}, false);
  m.node->set_output(0, "all");
  auto* body = m.attribute("body", 5)->mutable_g();
  for (const char* name : {"step", "before", "parts"}) body->add_input()->set_name(name);
  auto* nodes = body->mutable_node();
  add_node(nodes, "Unsqueeze", {"step", "axis"}, "at");
  add_node(nodes, "Gather", {"places", "at"}, "begin");
  add_node(nodes, "Add", {"at", "one"}, "next");
  add_node(nodes, "Gather", {"places", "next"}, "end");
  add_node(nodes, "Slice", {"x", "begin", "end", "one"}, "part");
  add_node(nodes, "SequenceInsert", {"parts", "part"}, "more_parts");
  constant("axis", 7, {0}, false);
  for (const char* name : {"before", "more_parts"}) body->add_output()->set_name(name);
  onnx::NodeProto loop_node = *m.node;
  graph.clear_node();
  add_node(graph.mutable_node(), "SequenceEmpty", {}, "none");
  *graph.add_node() = loop_node;
  constant("last", 7, {-1}, true);
  add_node(graph.mutable_node(), "SequenceAt", {"all", "last"}, "y");
  EXPECT_EQ(run(m), (Floats{-2, 0, 4, 6}));
}

TEST(OnnxLoop, WhatIsRefused) {
  Model open = loop(3, 100);
  open.node->set_input(0, "count");
  open.add_input("count", {}, 7);
  EXPECT_THAT(refusal(open), Says("number of steps 'count' … run computes"));
  Model asks = loop(3, 100);
  asks.node->set_input(1, "maybe");
  asks.add_input("maybe", {}, 9);
  EXPECT_THAT(refusal(asks), Says("depends on … run with"));
  Model endless = loop(3, 100, false);
  endless.node->set_input(0, "");
  EXPECT_THAT(refusal(endless), Says("neither … steps nor a condition"));
  Model fewer = loop(3, 100);
  fewer.node->add_input("x");
  EXPECT_THAT(refusal(fewer), HasSubstr("its body has 3 inputs; expected 4"));
  EXPECT_THAT(refusal(loop(std::int64_t{1} << 40, std::int64_t{1} << 40)), HasSubstr("has more than 4096 steps"));
  EXPECT_THAT(refusal(loop(1000, 1000), {.nodes = 1000}), HasSubstr("has more than 1000 nodes, the limit"));
  Model idle = loop(1000, 1000);
  auto* body = idle.node->mutable_attribute(0)->mutable_g();
  body->clear_node(), body->clear_output();
  for (const char* name : {"before", "sum", "step"}) body->add_output()->set_name(name);
  EXPECT_THAT(refusal(idle, {.nodes = 100}), HasSubstr("has more than 100 nodes, the limit"));
  EXPECT_THAT(refusal(idle, {.constant_elements = 500}), HasSubstr("500"));
}

}  // namespace
}  // namespace unisono
