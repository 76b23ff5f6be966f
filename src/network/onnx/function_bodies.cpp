/// Reads the embedded function_bodies.txt.

#include "network/onnx/function_bodies.hpp"

#include <map>
#include <span>

#include "network/onnx/operator_schema.hpp"
#include "network/onnx/schema_text.hpp"
#include "network/onnx/table_words.hpp"

namespace unisono::network::onnx_import {

namespace {

using onnx::AttributeProto;
using onnx::FunctionProto;

// TensorProto's types of constants in bodies
constexpr int float32 = 1, int64 = 7;

using Words = std::span<const std::string_view>;

// The words before a mark, which are taken away with it
Words take_until(Words& words, std::string_view mark) {
  const auto end = std::find(words.begin(), words.end(), mark);
  if (end == words.end()) table_is_damaged(mark);
  const auto n = static_cast<std::size_t>(end - words.begin());
  const Words taken = words.first(n);
  words = words.subspan(n + 1);
  return taken;
}

void read_tensor(std::string_view text, onnx::TensorProto& t) {
  const auto [type, rest] = halves(text, "[");
  const auto [extents, elements] = halves(rest, "]");
  t.set_data_type(table_number<int>(type));
  for (const auto d : split(extents, ',')) t.add_dims(table_number<std::int64_t>(d));
  for (const auto x : split(elements, ',')) {
    if (t.data_type() == float32)
      t.add_float_data(table_number<float>(x));
    else if (t.data_type() == int64)
      t.add_int64_data(table_number<std::int64_t>(x));
    else
      table_is_damaged(text);
  }
}

void read_value(std::string_view text, AttributeProto& a) {
  switch (a.type()) {
    case 1: return a.set_f(table_number<float>(text));
    case 2: return a.set_i(table_number<std::int64_t>(text));
    case 3: return a.set_s(std::string(text));
    case 4: return read_tensor(text, *a.mutable_t());
    case 6:
      for (const auto x : split(text, ',')) a.add_floats(table_number<float>(x));
      return;
    case 7:
      for (const auto x : split(text, ',')) a.add_ints(table_number<std::int64_t>(x));
      return;
    default: table_is_damaged(text);
  }
}

AttributeProto read_attribute(std::string_view word) {
  AttributeProto a;
  const auto [name, rest] = halves(word, ":");
  const auto [code, value] = halves(rest, "=@");
  a.set_name(std::string(name));
  a.set_type(attribute_type(code));
  if (rest[code.size()] == '@')
    a.set_ref_attr_name(std::string(value));
  else
    read_value(value, a);
  return a;
}

FunctionProto read_function(std::string_view name, std::string_view opset, Words words) {
  FunctionProto f;
  f.set_domain("ai.onnx");
  f.set_name(std::string(name));
  f.add_opset_import()->set_version(table_number<std::int64_t>(opset));
  for (const auto w : take_until(words, ">")) f.add_input(std::string(w));
  for (const auto w : take_until(words, "/")) f.add_output(std::string(w));
  for (const auto w : words) {
    if (w.find(':') == std::string_view::npos)
      f.add_attribute(std::string(w));
    else
      *f.add_attribute_proto() = read_attribute(w);
  }
  return f;
}

void read_node(Words words, onnx::NodeProto& node) {
  node.set_op_type(std::string(words[0]));
  words = words.subspan(1);
  for (const auto w : take_until(words, ">")) node.add_input(w == "-" ? std::string() : std::string(w));
  for (const auto w : take_until(words, "/")) node.add_output(std::string(w));
  for (const auto w : words) *node.add_attribute() = read_attribute(w);
}

struct Body {
  int since;
  std::int64_t opset;
  FunctionProto function;
};
using Bodies = std::map<std::string_view, std::vector<Body>>;  // those of a version by their opset

const Bodies& bodies() {
  static const Bodies all = [] {
    Bodies read;
    FunctionProto* function = nullptr;
    for (const std::string_view line : split(function_body_text(), '\n')) {
      const auto words = split(line, ' ');
      if (line.front() == '#') continue;
      if (line.front() == ' ') {
        if (function == nullptr) table_is_damaged(line);
        read_node(words, *function->add_node());
        continue;
      }
      if (words.size() < 3) table_is_damaged(line);
      auto& versions = read[words[0]];
      versions.push_back({table_number<int>(words[1]), table_number<std::int64_t>(words[2]),
                          read_function(words[0], words[2], Words(words).subspan(3))});
      function = &versions.back().function;
    }
    return read;
  }();
  return all;
}

}  // namespace

const FunctionProto* find_body(const OperatorSchema& schema, std::int64_t opset) {
  const auto it = bodies().find(schema.name);
  if (it == bodies().end()) return nullptr;
  const FunctionProto* found = nullptr;
  for (const Body& b : it->second)
    if (b.since == schema.since && (found == nullptr || b.opset <= opset)) found = &b.function;
  return found;
}

std::vector<std::string_view> operators_with_bodies() {
  std::vector<std::string_view> names;
  for (const auto& [name, versions] : bodies()) names.push_back(name);
  return names;
}

}  // namespace unisono::network::onnx_import
