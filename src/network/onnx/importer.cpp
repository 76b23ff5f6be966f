/// Walks over the graph of an ONNX file.

#include "network/onnx/importer.hpp"

#include <fmt/ranges.h>

namespace coda::network::onnx_import {

namespace {
constexpr std::int64_t first_opset = 11, last_opset = 22;
constexpr int type_float = 1;
constexpr std::size_t longest_name = 4096;
constexpr int most_interfaces = 4096;  // inputs, or outputs

// Bytes of the UTF-8 sequence that `text` starts with; 0 if it is none, or a control character
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 0;
  if (first < 0x80) return 1;
  const std::size_t n = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (n == 0 || first > 0xf4 || n > text.size()) return 0;
  char32_t code = first & (0xffu >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0u) != 0x80u) return 0;
    code = (code << 6) | (next & 0x3fu);
  }
  const bool overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
  return overlong || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff ? 0 : n;
}

bool is_text(std::string_view text) {
  if (text.size() > longest_name) return false;
  while (!text.empty()) {
    const std::size_t n = sequence_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}
}  // namespace

Importer::Importer(const schema::ModelProto& model, const std::string& file, const OnnxLimits& limits)
    : graph_(model.graph()),
      file_(file),
      limits_(limits),
      builder_(model.graph().name().empty() ? file : model.graph().name()) {
  check_names();
  check_opsets(model);
  if (!model.has_graph()) fail("has no graph; is it an ONNX model?");
  if (graph_.node_size() > limits.nodes)
    fail(fmt::format("has {} nodes; the limit is {}", graph_.node_size(), limits.nodes));
  if (graph_.input_size() - graph_.initializer_size() > most_interfaces || graph_.output_size() > most_interfaces)
    fail(fmt::format("has {} inputs and {} outputs; the limit is {}", graph_.input_size(), graph_.output_size(),
                     most_interfaces));
}

// Names go into errors, reports and JSON
void Importer::check_names() const {
  const auto check = [&](const std::string& name, std::string_view what) {
    if (!is_text(name))
      fail(fmt::format("the name of {} is no text (UTF-8, at most {} bytes); the file is damaged", what, longest_name));
  };
  check(graph_.name(), "the graph");
  for (const auto& t : graph_.initializer()) check(t.name(), "an initializer");
  for (const auto* list : {&graph_.input(), &graph_.output()})
    for (const auto& v : *list) {
      check(v.name(), "an input or output");
      for (const auto& d : v.type().tensor_type().shape().dim()) check(d.dim_param(), "an extent");
    }
  for (const auto& n : graph_.node()) {
    check(n.name(), "a node");
    check(n.op_type(), "an operator");
    check(n.domain(), "a domain");
    for (const auto& i : n.input()) check(i, "a tensor");
    for (const auto& o : n.output()) check(o, "a tensor");
    for (const auto& a : n.attribute()) check(a.name(), "an attribute");
  }
}

void Importer::check_opsets(const schema::ModelProto& model) {
  for (const auto& set : model.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx") opset_ = set.version();
  if (opset_ == 0) fail("names no opset of the ONNX operators; is it an ONNX model?");
  if (opset_ < first_opset || opset_ > last_opset)
    fail(fmt::format("uses opset {}; expected {} to {} (export again, or convert it with onnx.version_converter)",
                     opset_, first_opset, last_opset));
}

Network Importer::run() {
  read_initializers();
  read_inputs();
  read_nodes();
  read_outputs();
  try {
    return builder_.build();
  } catch (const UserError& error) {
    fail(error.what());
  }
}

void Importer::define(const std::string& name, Imported value) {
  if (!values_.emplace(name, std::move(value)).second) fail(fmt::format("'{}' is defined twice", name));
}

void Importer::read_initializers() {
  for (const auto& t : graph_.initializer()) {
    if (t.name().empty()) fail("an initializer has no name");
    if (!initializers_.emplace(t.name(), &t).second) fail(fmt::format("initializer '{}' is defined twice", t.name()));
  }
}

Imported Importer::import_tensor(const schema::TensorProto& t, const std::string& name) {
  const std::string what = fmt::format("{}: tensor '{}'", file_, name);
  const std::uint64_t count = checked_count(t, limits_.constant_elements, what);
  elements_ += count;
  if (elements_ > limits_.constant_elements)
    throw UserError(
        fmt::format("{}: the constants have more elements than the limit of {}", what, limits_.constant_elements));
  if (is_integer_tensor(t)) {
    const auto numbers = integer_elements(t, what);
    if (t.dims_size() > 1)
      throw UserError(fmt::format("{}: is an integer tensor of rank {}; expected at most 1", what, t.dims_size()));
    return Integers{.elements = {numbers.begin(), numbers.end()}, .scalar = t.dims_size() == 0};
  }
  std::vector<float> elements = float_elements(t, what);
  // an empty tensor stands for an input that is left out (Resize has them)
  if (count == 0) return Integers{};
  auto shared = std::make_shared<const std::vector<float>>(elements);
  const NetworkValue v = builder_.constant(name, Shape(t.dims().begin(), t.dims().end()), std::move(elements));
  constants_[v.id()] = std::move(shared);
  tensor_names_.insert(v.id());
  return v;
}

const Imported& Importer::find(const std::string& name, const std::string& reader) {
  if (const auto it = values_.find(name); it != values_.end()) return it->second;
  const auto it = initializers_.find(name);
  if (it == initializers_.end())
    fail(fmt::format("node '{}' reads '{}', which no input, initializer or earlier node makes", reader, name));
  return values_.emplace(name, import_tensor(*it->second, name)).first->second;
}

void Importer::read_inputs() {
  for (const auto& input : graph_.input()) {
    if (initializers_.contains(input.name())) continue;  // a default value of older files
    if (!input.has_type() || !input.type().has_tensor_type())
      fail(fmt::format("input '{}' is no tensor", input.name()));
    const auto& type = input.type().tensor_type();
    if (type.elem_type() != type_float)
      fail(fmt::format("input '{}' has elements of {}; expected float32", input.name(),
                       data_type_name(type.elem_type())));
    Shape shape;
    for (const auto& d : type.shape().dim()) {
      const bool number = d.value_case() == schema::TensorShapeProto::Dimension::kDimValue && d.dim_value() > 0;
      const std::string symbol =
          d.dim_param().empty() ? fmt::format("{}_{}", input.name(), shape.size()) : d.dim_param();
      shape.push_back(number ? Dim(d.dim_value()) : Dim(symbol));
    }
    const NetworkValue v = builder_.input(input.name(), std::move(shape));
    tensor_names_.insert(v.id());
    define(input.name(), v);
  }
}

void Importer::read_nodes() {
  for (const auto& proto : graph_.node()) {
    const NodeReader node(*this, proto);
    if (!proto.domain().empty() && proto.domain() != "ai.onnx")
      node.fail("domain '{}' is not supported; only the standard operators are", proto.domain());
    const OperatorRow* row = find_row(proto.op_type());
    if (row == nullptr)
      node.fail("this operator is not supported; supported are {}", fmt::join(supported_operators(), ", "));
    if (opset_ < row->since) node.fail("this operator exists from opset {} on", row->since);
    for (int i = 1; i < proto.output_size(); ++i)
      if (!proto.output(i).empty() && initializers_.contains(proto.output(i)))
        node.fail("output '{}' is defined twice", proto.output(i));
    if (proto.output_size() > 0 && initializers_.contains(proto.output(0)))
      node.fail("output '{}' is defined twice", proto.output(0));
    row->import(node);
  }
}

void Importer::read_outputs() {
  if (graph_.output_size() == 0) fail("the graph has no output");
  for (const auto& output : graph_.output()) {
    const Imported& found = find(output.name(), "(graph output)");
    const auto* v = std::get_if<NetworkValue>(&found);
    if (v == nullptr) fail(fmt::format("output '{}' is an integer tensor; expected float32", output.name()));
    try {
      builder_.output(*v, output.name());
    } catch (const UserError& error) {
      fail(error.what());
    }
  }
}

}  // namespace coda::network::onnx_import
