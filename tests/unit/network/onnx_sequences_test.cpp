/// Sequences of tensors, inputs with a default, and runs of no elements.

#include <gmock/gmock.h>

#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;
using Values = std::vector<float>;

// Tensors inserted, erased and joined along a new axis
TEST(OnnxSequences, AreTensorsWhereTheirLengthIsKnown) {
  Model m("ConcatFromSequence", 14, {"s2"});
  m.set("axis", std::int64_t{0});
  m.set("new_axis", std::int64_t{1});
  const onnx::NodeProto last = *m.node;
  auto& graph = *m.proto.mutable_graph();
  graph.clear_node();
  const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) {
    auto* node = graph.add_node();
    node->set_op_type(op);
    for (const auto& name : inputs) node->add_input(name);
    node->add_output(output);
  };
  m.add_constant("first", {}, {})->set_data_type(7);
  graph.mutable_initializer(0)->add_int64_data(0);
  add("SequenceEmpty", {}, "s");
  add("Neg", {"x"}, "below");
  add("SequenceInsert", {"s", "x"}, "s0");
  add("SequenceInsert", {"s0", "below", "first"}, "s1");
  add("SequenceInsert", {"s1", "x"}, "longer");
  add("SequenceErase", {"longer"}, "s2");
  *graph.add_node() = last;
  const Network n = test::parse(m.bytes());
  const auto y = test::run(compile(n), {{"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}}).at("y");
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(y.data, (Values{-1, -2, -3, -4, -5, -6, 1, 2, 3, 4, 5, 6}));
  Model at = m;
  at.proto.mutable_graph()->mutable_node(6)->set_op_type("Relu");
  at.proto.mutable_graph()->mutable_node(6)->clear_attribute();
  EXPECT_THAT(refusal(at), HasSubstr("input 's2' is a sequence of 2 tensors; expected a tensor"));
  at.proto.mutable_graph()->mutable_output(0)->set_name("s2");
  at.proto.mutable_graph()->mutable_node()->RemoveLast();
  EXPECT_THAT(refusal(at), Says("output 's2' … sequence of 2 tensors; make each … an output"));
}

TEST(OnnxSequences, PartsOfAnAxis) {
  const auto split = [](const char* extent) {
    Model m("SplitToSequence", 14, {"x"});
    m.node->set_output(0, "s");
    m.set("axis", std::int64_t{1});
    m.set("keepdims", std::int64_t{0});
    if (extent != nullptr)
      m.proto.mutable_graph()
          ->mutable_input(0)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape()
          ->mutable_dim(1)
          ->set_dim_param(extent);
    auto* at = m.proto.mutable_graph()->add_node();
    at->set_op_type("SequenceAt");
    at->add_input("s");
    at->add_input("place");
    at->add_output("y");
    m.add_constant("place", {})->set_data_type(7);
    m.proto.mutable_graph()->mutable_initializer(0)->add_int64_data(-1);
    return m;
  };
  const auto y = test::run(compile(test::parse(split(nullptr).bytes())), {{"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}}).at("y");
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(y.data, (Values{3, 6}));
  EXPECT_THAT(refusal(split("n")), Says("n elements … sequence … not known"));
}

// An initializer that is an input, too, is its default
TEST(OnnxInputs, WithADefaultMayBeGiven) {
  Model m("Mul", 14, {"x", "w"});
  m.add_input("w", {3});
  m.add_constant("w", {3}, {1, 2, 3});
  const auto y = [&](const OnnxOptions& options, const test::HostTensors& inputs) {
    const std::string bytes = m.bytes();
    return test::run(compile(parse_onnx(std::as_bytes(std::span(bytes)), "m.onnx", options)), inputs).at("y").data;
  };
  const test::HostTensor x{{2, 3}, {1, 1, 1, 2, 2, 2}}, w{{3}, {5, 6, 7}};
  EXPECT_EQ(y({}, {{"x", x}}), (Values{1, 2, 3, 2, 4, 6}));
  OnnxOptions given;
  given.given = {"w", "something else"};
  EXPECT_EQ(y(given, {{"x", x}, {"w", w}}), (Values{5, 6, 7, 10, 12, 14}));
  OnnxOptions constant;
  constant.constants["w"] = {w.data.data(), DType::f32, {3}, {}};
  EXPECT_EQ(y(constant, {{"x", x}}), (Values{5, 6, 7, 10, 12, 14}));
}

// ONNX Runtime runs them, and so do we: results without elements, and sums of nothing
TEST(OnnxBatches, OfNothing) {
  Model m("Gemm", 14, {"x", "w"});
  m.proto.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("n");
  m.add_constant("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  m.node->set_output(0, "product");
  auto& graph = *m.proto.mutable_graph();
  const auto add = [&](const char* op, const char* input, const char* output) -> onnx::NodeProto& {
    auto* node = graph.add_node();
    node->set_op_type(op);
    node->add_input(input);
    node->add_output(output);
    return *node;
  };
  add("Relu", "product", "y");
  add("ReduceSum", "y", "sum");
  graph.add_output()->set_name("sum");
  const auto network = compile(test::parse(m.bytes()));
  const auto none = test::run(network, {{"x", {{0, 3}, {}}}});
  EXPECT_EQ(none.at("y").shape, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(none.at("sum").data, (Values{0}));
  const auto one = test::run(network, {{"x", {{1, 3}, {1, 0, 0}}}});
  EXPECT_EQ(one.at("y").data, (Values{1, 2}));
}

}  // namespace
}  // namespace unisono
