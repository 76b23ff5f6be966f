#pragma once
/// Models of one node, written from the operator's schema.

#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "network/onnx/operator_schema.hpp"
#include "onnx.pb.h"
#include "unisono/tensor.hpp"

namespace unisono::test {

namespace table = network::onnx_import;
using Extents = std::vector<std::int64_t>;

inline constexpr std::int64_t symbol = -1;  // as an extent
inline constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                              highest = std::numeric_limits<std::int64_t>::max(), wide = std::int64_t{1} << 31;
inline constexpr int f32 = 1, i64 = 7;  // TensorProto's

struct Operand {
  int type = f32;
  Extents shape;
  bool given = true, constant = false;
  double value = 1;         // of all elements of a constant of floats
  std::int64_t number = 1;  // and of integers
};

// A model of one node
struct Sample {
  std::string op;
  std::int64_t opset;
  std::vector<Operand> inputs;
  std::vector<onnx::AttributeProto> attributes;
  int outputs = 1;

  std::string bytes() const;
  onnx::AttributeProto& attribute(std::string_view name) {
    for (auto& a : attributes)
      if (a.name() == name) return a;
    attributes.emplace_back().set_name(std::string(name));
    return attributes.back();
  }
};

inline void add_constant(onnx::GraphProto& graph, const std::string& name, const Operand& x) {
  auto* t = graph.add_initializer();
  t->set_name(name);
  t->set_data_type(x.type);
  for (const auto d : x.shape) t->add_dims(d);
  for (std::int64_t i = element_count(x.shape); i > 0; --i) {
    if (x.type == f32)
      t->add_float_data(static_cast<float>(x.value));
    else if (x.type == 11)
      t->add_double_data(x.value);
    else if (x.type == i64)
      t->add_int64_data(x.number);
    else if (x.type == 12 || x.type == 13)
      t->add_uint64_data(static_cast<std::uint64_t>(x.number));
    else
      t->add_int32_data(static_cast<std::int32_t>(x.number));
  }
}

inline void add_input(onnx::GraphProto& graph, const std::string& name, int type, const Extents& shape) {
  auto* input = graph.add_input();
  input->set_name(name);
  auto* t = input->mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  t->mutable_shape();
  for (const auto d : shape) {
    auto* extent = t->mutable_shape()->add_dim();
    if (d == symbol)
      extent->set_dim_param("n");
    else
      extent->set_dim_value(d);
  }
}

inline std::string Sample::bytes() const {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  auto& graph = *model.mutable_graph();
  auto* node = graph.add_node();
  node->set_op_type(op);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Operand& x = inputs[i];
    const std::string name = "x" + std::to_string(i);
    node->add_input(x.given ? name : "");
    if (!x.given) continue;
    if (x.constant)
      add_constant(graph, name, x);
    else
      add_input(graph, name, x.type, x.shape);
  }
  while (node->input_size() > 0 && node->input(node->input_size() - 1).empty()) node->mutable_input()->RemoveLast();
  for (const auto& a : attributes) *node->add_attribute() = a;
  for (int i = 0; i < outputs; ++i) {
    node->add_output("y" + std::to_string(i));
    graph.add_output()->set_name(node->output(i));
  }
  return model.SerializeAsString();
}

inline int preferred_type(std::uint64_t types, bool integers) {
  for (const int t : integers ? std::array{i64, f32, 9, 6, 11} : std::array{f32, i64, 9, 6, 11})
    if ((types >> t & 1) != 0) return t;
  return f32;
}

// Inputs of extents of 2 in this rank; integers are constants of one element
inline Sample plain(const table::OperatorSchema& schema, std::int64_t opset, std::size_t rank, bool integers = false) {
  Sample s{.op = std::string(schema.name), .opset = opset, .inputs = {}, .attributes = {}};
  std::map<std::string_view, int> bound;
  for (const auto& p : schema.inputs) {
    const int type =
        bound.try_emplace(p.type.empty() ? p.name : p.type, preferred_type(p.types, integers)).first->second;
    for (int n = p.count == table::ParameterSchema::Count::repeated ? 2 : 1; n > 0; --n) {
      const bool list = type == i64 && !integers;
      s.inputs.push_back({.type = type, .shape = list ? Extents{1} : Extents(rank, 2), .constant = list});
    }
  }
  static const std::set<std::string_view> ones{"blocksize", "group",       "kv_num_heads", "num_groups",
                                               "num_heads", "q_num_heads", "size",         "to"};
  for (const auto& a : schema.attributes) {
    if (!a.required && !ones.contains(a.name) && a.name != "kernel_shape") continue;
    auto& given = s.attribute(a.name);
    given.set_type(a.type);
    if (a.type == 1) given.set_f(1);
    if (a.type == 2) given.set_i(1);
    if (a.type == 3) given.set_s(a.name == "direction" ? "LEFT" : "...a,...a->...");
    if (a.type == 7)
      for (std::size_t i = 2; i < rank; ++i) given.add_ints(1);
  }
  return s;
}

}  // namespace unisono::test
