/// Walks over the graph of an ONNX file.

#include "network/onnx/importer.hpp"

#include <fmt/ranges.h>

namespace coda::network::onnx_import {

namespace {
constexpr std::int64_t first_opset = 11, last_opset = 22;
constexpr int type_float = 1;
}  // namespace

Importer::Importer(const schema::ModelProto& model, const std::string& file, const OnnxLimits& limits)
    : graph_(model.graph()),
      file_(file),
      limits_(limits),
      builder_(model.graph().name().empty() ? file : model.graph().name()) {
  check_opsets(model);
  if (!model.has_graph()) fail("has no graph; is it an ONNX model?");
  if (graph_.node_size() > limits.nodes)
    fail(fmt::format("has {} nodes; the limit is {}", graph_.node_size(), limits.nodes));
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
