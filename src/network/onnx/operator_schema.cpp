/// Reads the embedded schemas.txt.

#include "network/onnx/operator_schema.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include "network/onnx/schema_text.hpp"
#include "network/onnx/table_words.hpp"

namespace unisono::network::onnx_import {

namespace {

// AttributeProto.AttributeType
struct AttributeKind {
  std::string_view code, name;
  int type;
};
constexpr AttributeKind attribute_kinds[] = {
    {"f", "FLOAT", 1},       {"i", "INT", 2},          {"s", "STRING", 3},         {"t", "TENSOR", 4},
    {"g", "GRAPH", 5},       {"f*", "FLOATS", 6},      {"i*", "INTS", 7},          {"s*", "STRINGS", 8},
    {"t*", "TENSORS", 9},    {"g*", "GRAPHS", 10},     {"S", "SPARSE_TENSOR", 11}, {"S*", "SPARSE_TENSORS", 12},
    {"T", "TYPE_PROTO", 13}, {"T*", "TYPE_PROTOS", 14}};

using Words = std::span<const std::string_view>;

std::uint64_t set_of_types(std::string_view text) {
  std::uint64_t set = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), set, 16);
  if (error != std::errc{} || end != text.data() + text.size()) table_is_damaged(text);
  return set;
}

ParameterSchema parameter(std::string_view word, Words constraints) {
  ParameterSchema p;
  std::tie(p.name, p.type) = halves(word, ":");
  if (const std::size_t mark = p.name.find_first_of("?*~"); mark != std::string_view::npos) {
    const std::string_view count = p.name.substr(mark);
    p.name = p.name.substr(0, mark);
    p.count = count[0] == '?' ? ParameterSchema::Count::optional : ParameterSchema::Count::repeated;
    p.one_type = count[0] != '~';
    if (count[0] != '?') p.least = table_number<int>(count.substr(1));
  }
  if (p.type.starts_with('#')) {
    p.types = set_of_types(p.type.substr(1));
    p.type = {};
    return p;
  }
  for (const std::string_view c : constraints)
    if (const auto [name, set] = halves(c, "="); name == p.type) p.types = set_of_types(set);
  return p;
}

AttributeSchema attribute(std::string_view word) {
  auto [name, code] = halves(word, ":");
  AttributeSchema a{.name = name, .required = code.ends_with('!')};
  if (a.required) code.remove_suffix(1);
  a.type = attribute_type(code);
  if (a.type == 0) table_is_damaged(word);
  return a;
}

OperatorSchema operator_schema(Words words) {
  OperatorSchema s;
  s.name = words[0];
  s.since = table_number<int>(words[1]);
  const auto end_of = [&](Words::iterator from, std::string_view mark) {
    const auto end = std::find(from, words.end(), mark);
    if (end == words.end()) table_is_damaged(s.name);
    return end;
  };
  const auto inputs = words.begin() + 2;
  const auto outputs = end_of(inputs, ">");
  const auto attributes = end_of(outputs, "/"), constraints = end_of(attributes + 1, "/");
  const Words types(constraints + 1, words.end());
  for (auto w = inputs; w != outputs; ++w) s.inputs.push_back(parameter(*w, types));
  for (auto w = outputs + 1; w != attributes; ++w) s.outputs.push_back(parameter(*w, types));
  for (auto w = attributes + 1; w != constraints; ++w) s.attributes.push_back(attribute(*w));
  return s;
}

struct Table {
  std::map<std::string_view, std::vector<OperatorSchema>> operators;  // versions in their order
  int newest = 0;
};

Table read_table() {
  Table table;
  for (const std::string_view line : split(schema_text(), '\n')) {
    const auto words = split(line, ' ');
    if (words.size() < 2 || words[0] == "#") continue;
    if (words[0] == "opset") {
      table.newest = table_number<int>(words[1]);
    } else {
      table.operators[words[0]].push_back(operator_schema(words));
    }
  }
  return table;
}

const Table& table() {
  static const Table read = read_table();
  return read;
}

}  // namespace

const OperatorSchema* find_schema(std::string_view op_type, std::int64_t opset) {
  const auto it = table().operators.find(op_type);
  if (it == table().operators.end()) return nullptr;
  const OperatorSchema* found = nullptr;
  for (const OperatorSchema& s : it->second)
    if (s.since <= opset) found = &s;
  return found;
}

int attribute_type(std::string_view code) {
  for (const AttributeKind& kind : attribute_kinds)
    if (kind.code == code) return kind.type;
  return 0;
}

int newest_opset() { return table().newest; }

std::string_view attribute_type_name(int type) {
  for (const AttributeKind& kind : attribute_kinds)
    if (kind.type == type) return kind.name;
  return "of an unknown type";
}

}  // namespace unisono::network::onnx_import
