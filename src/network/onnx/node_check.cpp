#include "network/onnx/node_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "ir/suggest.hpp"

namespace unisono::network::onnx_import {

namespace {

using Parameters = std::vector<ParameterSchema>;

int fewest(const Parameters& parameters) {
  int n = 0, at_least = 0;
  for (const ParameterSchema& p : parameters) {
    n += p.count == ParameterSchema::Count::repeated ? p.least : 1;
    if (p.count != ParameterSchema::Count::optional) at_least = n;
  }
  return at_least;
}

bool repeats(const Parameters& parameters) {
  return !parameters.empty() && parameters.back().count == ParameterSchema::Count::repeated;
}

// "2 to 3 (X, W, B)"
std::string wanted(const Parameters& parameters) {
  const int least = fewest(parameters), most = static_cast<int>(parameters.size());
  std::vector<std::string_view> names;
  for (const ParameterSchema& p : parameters) names.push_back(p.name);
  std::string count = least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
  if (repeats(parameters)) count = fmt::format("at least {}", least);
  return names.empty() ? count : fmt::format("{} ({})", count, fmt::join(names, ", "));
}

// "float32, float64"; bits beyond the known types are left out
std::string type_list(std::uint64_t types) {
  std::vector<std::string> names;
  for (int t = 1; t < 64; ++t)
    if ((types >> t & 1) != 0) names.push_back(data_type_name(t));
  if (names.empty()) return "a sequence";
  return fmt::format("{}{}", names.size() > 1 ? "one of " : "", fmt::join(names, ", "));
}

void check_count(const NodeReader& node, std::string_view what, int given, const Parameters& parameters) {
  const bool too_many = !repeats(parameters) && given > static_cast<int>(parameters.size());
  if (too_many || given < fewest(parameters))
    node.fail("has {} {}{}; expected {}", given, what, given == 1 ? "" : "s", wanted(parameters));
}

// The parameter that input or output i belongs to; the last one repeats
const ParameterSchema& parameter(const Parameters& parameters, int i) {
  return parameters[std::min(static_cast<std::size_t>(i), parameters.size() - 1)];
}

// The value of another kind than the type says: a writer's mistake, which would be read as 0
bool holds_another(const schema::AttributeProto& a) {
  const auto set = [&](int type, bool given) { return given && a.type() != type; };
  return set(1, a.has_f()) || set(2, a.has_i()) || set(3, a.has_s()) || set(4, a.has_t()) || set(5, a.has_g()) ||
         set(6, a.floats_size() > 0) || set(7, a.ints_size() > 0) || set(8, a.strings_size() > 0);
}

void check_attribute(const NodeReader& node, const OperatorSchema& schema, const schema::AttributeProto& given) {
  const auto row = std::find_if(schema.attributes.begin(), schema.attributes.end(),
                                [&](const AttributeSchema& s) { return s.name == given.name(); });
  if (row == schema.attributes.end()) {
    std::vector<std::string_view> names;
    for (const AttributeSchema& s : schema.attributes) names.push_back(s.name);
    const std::string known = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
    node.fail("has no attribute '{}'; it has {}{}", given.name(), known,
              ir::did_you_mean(ir::nearest(given.name(), names)));
  }
  const schema::AttributeProto* a = node.attribute(given.name());  // the caller's, in a function
  if (a == nullptr) return;
  if (a->type() == 0)
    node.fail("attribute '{}' does not say its type; expected {}", row->name, attribute_type_name(row->type));
  if (a->type() != row->type)
    node.fail("attribute '{}' is {}; expected {}", row->name, attribute_type_name(a->type()),
              attribute_type_name(row->type));
  if (holds_another(*a))
    node.fail("attribute '{}' says that it is {}, and has a value of another type", row->name,
              attribute_type_name(a->type()));
}

void check_attributes(const NodeReader& node, const OperatorSchema& schema) {
  const auto& given = node.proto().attribute();
  for (int i = 0; i < given.size(); ++i) {
    check_attribute(node, schema, given[i]);
    for (int k = 0; k < i; ++k)
      if (given[k].name() == given[i].name()) node.fail("attribute '{}' is given twice", given[i].name());
  }
  for (const AttributeSchema& s : schema.attributes)
    if (s.required && node.attribute(s.name) == nullptr)
      node.fail("attribute '{}' is missing ({})", s.name, attribute_type_name(s.type));
}

// What a constraint's name stands for in this node, and which input said so
struct Binding {
  std::string_view constraint;
  int type;
  int input;
};

void check_type(const NodeReader& node, const ParameterSchema& p, int i, std::vector<Binding>& bound) {
  const int type = node.known_type(i);
  if (type == 0) return;
  const auto named = [&](int input) { return fmt::format("'{}'", node.proto().input(input)); };
  if (type > 63 || (p.types >> type & 1) == 0)
    node.fail("input {} ({}) has elements of {}; expected {}", named(i), p.name, data_type_name(type),
              type_list(p.types));
  if (p.type.empty() || (p.count == ParameterSchema::Count::repeated && !p.one_type)) return;
  const auto it = std::find_if(bound.begin(), bound.end(), [&](const Binding& b) { return b.constraint == p.type; });
  if (it == bound.end()) {
    bound.push_back({p.type, type, i});
  } else if (it->type != type) {
    node.fail("input {} ({}) has elements of {}; expected {} like input {}", named(i), p.name, data_type_name(type),
              data_type_name(it->type), named(it->input));
  }
}

}  // namespace

std::vector<int> check_node(const NodeReader& node, const OperatorSchema& schema) {
  check_attributes(node, schema);
  check_count(node, "input", node.inputs(), schema.inputs);
  check_count(node, "output", node.outputs(), schema.outputs);
  std::vector<Binding> bound;
  for (int i = 0; i < node.inputs(); ++i) {
    const ParameterSchema& p = parameter(schema.inputs, i);
    if (node.has(i)) {
      check_type(node, p, i, bound);
    } else if (p.count != ParameterSchema::Count::optional) {
      node.fail("input {} ({}) is missing", i, p.name);
    }
  }
  std::vector<int> types;
  for (int i = 0; i < node.outputs(); ++i) {
    const ParameterSchema& p = parameter(schema.outputs, i);
    const auto it = std::find_if(bound.begin(), bound.end(), [&](const Binding& b) { return b.constraint == p.type; });
    types.push_back(p.type.empty() || it == bound.end() ? 0 : it->type);
  }
  return types;
}

}  // namespace unisono::network::onnx_import
