// Which tensors a model computes in f32 between its casts.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx_model.hpp"

namespace unisono::test {
namespace {

constexpr int f16_type = 10, bf16_type = 16, f32_type = 1;

// x (2,3) of a type, and nodes of one result each, the last of which is the output
struct CastModel {
  onnx::ModelProto proto;

  explicit CastModel(int type) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(21);
    auto* input = proto.mutable_graph()->add_input();
    input->set_name("x");
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (const int extent : {2, 3}) tensor->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    auto& node = *proto.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(output);
    for (const auto& name : inputs) node.add_input(name);
    node.add_output(output);
    return node;
  }
  void cast(const std::string& from, const std::string& to, int type) {
    auto* a = node("Cast", {from}, to).add_attribute();
    a->set_name("to");
    a->set_type(2);  // an integer
    a->set_i(type);
  }
  Network network(const std::vector<std::string>& outputs) {
    for (const auto& name : outputs) proto.mutable_graph()->add_output()->set_name(name);
    return parse(proto.SerializeAsString());
  }
  std::set<std::string> kept(const std::vector<std::string>& outputs) {
    std::set<std::string> names;
    for (const NetworkTensor& t : network(outputs).tensors)
      if (t.keeps_f32) names.insert(t.name);
    return names;
  }
};

TEST(OnnxIslands, AreBetweenACastToF32AndTheCastBack) {
  CastModel m(f16_type);
  m.node("Relu", {"x"}, "short");
  m.cast("short", "wide", f32_type);
  m.node("Mul", {"wide", "wide"}, "squares");
  m.node("Exp", {"squares"}, "exp");
  m.cast("exp", "rounded", f16_type);
  m.node("Neg", {"rounded"}, "y");
  EXPECT_EQ(m.kept({"y"}), (std::set<std::string>{"squares", "exp"}));
}

TEST(OnnxIslands, HaveTheTypesThatTheModelGivesAround) {
  CastModel m(bf16_type);
  m.node("Exp", {"x"}, "short");
  m.cast("short", "wide", f32_type);
  m.node("Exp", {"wide"}, "squares");
  m.cast("squares", "y", f16_type);
  std::map<std::string, DType> types;
  for (const NetworkTensor& t : m.network({"y"}).tensors)
    if (t.short_type != DType::f32) types[t.name] = t.short_type;
  EXPECT_EQ(types.at("short"), DType::bf16);
  EXPECT_FALSE(types.contains("squares"));
}

TEST(OnnxIslands, ReachAnOutputOfF32) {
  CastModel m(bf16_type);
  m.node("Exp", {"x"}, "short");
  m.cast("short", "wide", f32_type);
  m.node("Softmax", {"wide"}, "y");
  EXPECT_TRUE(m.kept({"y", "short"}).contains("y"));
}

TEST(OnnxIslands, AreNoneInAModelOfF32) {
  CastModel m(f32_type);
  m.node("Exp", {"x"}, "a");
  m.cast("a", "same", f32_type);
  m.node("Softmax", {"same"}, "y");
  EXPECT_TRUE(m.kept({"y"}).empty());
}

TEST(OnnxIslands, DoNotReachBackToWhatTheModelRoundsLater) {
  CastModel m(f32_type);
  m.node("Exp", {"x"}, "a");
  m.cast("a", "rounded", f16_type);
  m.node("Exp", {"rounded"}, "b");
  m.cast("b", "wide", f32_type);
  m.node("Exp", {"wide"}, "y");
  EXPECT_EQ(m.kept({"y"}), (std::set<std::string>{"y"}));
}

}  // namespace
}  // namespace unisono::test
