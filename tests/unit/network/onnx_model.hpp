#pragma once
/// A model of one node that tests change before it is read.

#include <string>
#include <vector>

#include "cases.hpp"
#include "onnx.pb.h"
#include "unisono/onnx.hpp"

namespace unisono::test {

// One node "n": y = op(x…) over x (2,3)
struct OnnxModel {
  onnx::ModelProto proto;
  onnx::NodeProto* node;

  explicit OnnxModel(const std::string& op, std::int64_t opset = 21, std::vector<std::string> inputs = {"x"}) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    auto& graph = *proto.mutable_graph();
    add_input("x", {2, 3});
    node = graph.add_node();
    node->set_op_type(op);
    node->set_name("n");
    for (const auto& i : inputs) node->add_input(i);
    node->add_output("y");
    graph.add_output()->set_name("y");
  }
  void add_input(const std::string& name, std::vector<std::int64_t> shape, int type = 1) {
    auto* input = proto.mutable_graph()->add_input();
    input->set_name(name);
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();  // a scalar's has no extents
    for (const auto d : shape) tensor->mutable_shape()->add_dim()->set_dim_value(d);
  }
  onnx::TensorProto* add_constant(const std::string& name, std::vector<std::int64_t> shape,
                                  std::vector<float> elements = {}) {
    auto* t = proto.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(1);
    for (const auto d : shape) t->add_dims(d);
    for (const float x : elements) t->add_float_data(x);
    return t;
  }
  void add_integers(const std::string& name, std::vector<std::int64_t> elements) {
    auto* t = add_constant(name, {std::ssize(elements)});
    t->set_data_type(7);
    for (const auto x : elements) t->add_int64_data(x);
  }

  onnx::AttributeProto* attribute(const std::string& name, int type) const {
    auto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }
  void set(const std::string& name, std::int64_t value) const { attribute(name, 2)->set_i(value); }
  void set(const std::string& name, float value) const { attribute(name, 1)->set_f(value); }
  void set(const std::string& name, const std::vector<std::int64_t>& values) const {
    auto* a = attribute(name, 7);
    for (const auto v : values) a->add_ints(v);
  }
  std::string bytes() const { return proto.SerializeAsString(); }
};

inline Network parse(const std::string& bytes, const OnnxLimits& limits = {}) {
  return parse_onnx(std::as_bytes(std::span(bytes)), "m.onnx", limits);
}

/// What the importer says of the model.
inline std::string refusal(const OnnxModel& m, const OnnxLimits& limits = {}) {
  return user_error([&] { parse(m.bytes(), limits); });
}

inline constexpr const char* accepted = "(no UserError)";

}  // namespace unisono::test
