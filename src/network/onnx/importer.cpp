/// Walks over the graph of an ONNX file.

#include "network/onnx/importer.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "network/dim.hpp"
#include "support/utf8.hpp"

namespace coda::network::onnx_import {

namespace {
constexpr std::int64_t first_opset = 1, last_opset = 22;  // each operator says from which on it is what is built
constexpr std::int64_t most_integers = 4096;              // in a tensor that is kept as numbers
constexpr std::size_t longest_name = 4096;
constexpr int most_interfaces = 4096;  // inputs, or outputs

// UTF-8 without control characters
bool is_text(std::string_view text) {
  if (text.size() > longest_name) return false;
  while (!text.empty()) {
    const auto c = support::first_character(text);
    if (!c.code || *c.code < 0x20 || *c.code == 0x7f) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

// Constants that were numbers only, or have been computed with, need not stay
Network without_unused(Network n) {
  std::vector<bool> used(n.tensors.size(), false);
  const auto use = [&](const std::vector<TensorId>& ids) {
    for (const TensorId id : ids) used[id] = true;
  };
  use(n.inputs);
  use(n.outputs);
  for (const Operator& op : n.operators) {
    use(op.inputs);
    used[op.output] = true;
  }
  std::vector<TensorId> place(n.tensors.size(), 0);
  std::vector<NetworkTensor> kept;
  for (TensorId id = 0; id < n.tensors.size(); ++id) {
    place[id] = static_cast<TensorId>(kept.size());
    if (used[id]) kept.push_back(std::move(n.tensors[id]));
  }
  n.tensors = std::move(kept);
  const auto move = [&](std::vector<TensorId>& ids) {
    for (TensorId& id : ids) id = place[id];
  };
  move(n.inputs);
  move(n.outputs);
  for (Operator& op : n.operators) {
    move(op.inputs);
    op.output = place[op.output];
  }
  return n;
}
}  // namespace

Importer::Importer(const schema::ModelProto& model, const std::string& file, const std::string& folder,
                   const OnnxOptions& options)
    : graph_(model.graph()),
      file_(file),
      folder_(folder),
      limits_(options.limits),
      given_constants_(options.constants),
      builder_(model.graph().name().empty() ? file : model.graph().name()) {
  check_names();
  check_opsets(model);
  if (!model.has_graph()) fail("has no graph; is it an ONNX model?");
  if (graph_.node_size() > limits_.nodes)
    fail(fmt::format("has {} nodes; the limit is {}", graph_.node_size(), limits_.nodes));
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
    fail(fmt::format("uses opset {}; expected 11 to {} (export again, or convert it with onnx.version_converter)",
                     opset_, last_opset));
}

Network Importer::run() {
  read_initializers();
  read_inputs();
  read_nodes();
  read_outputs();
  try {
    return without_unused(builder_.build());
  } catch (const UserError& error) {
    fail(error.what());
  }
}

void Importer::define(const std::string& name, Imported value, int type) {
  if (type != 0) types_[name] = type;
  // constant shapes and the like are kept as numbers
  if (const auto* v = std::get_if<NetworkValue>(&value); v != nullptr && v->tensor().bytes) {
    const NetworkTensor& t = v->tensor();
    const bool wide = t.dtype == DType::i64;
    const std::size_t n = t.bytes->size() / size_of(t.dtype);
    if ((wide || t.dtype == DType::i32) && t.shape.size() <= 1 && n <= most_integers) {
      Integers numbers{.elements = {}, .scalar = t.shape.empty(), .dtype = t.dtype};
      for (std::size_t i = 0; i < n; ++i) {
        std::int64_t x = 0;
        std::int32_t narrow = 0;
        if (wide) std::memcpy(&x, t.bytes->data() + i * sizeof(x), sizeof(x));
        if (!wide) std::memcpy(&narrow, t.bytes->data() + i * sizeof(narrow), sizeof(narrow));
        numbers.elements.emplace_back(wide ? x : narrow);
      }
      value = std::move(numbers);
    }
  }
  if (!values_.emplace(name, std::move(value)).second) fail(fmt::format("'{}' is defined twice", name));
}

int Importer::type_of(const std::string& name) const {
  if (const auto it = types_.find(name); it != types_.end()) return it->second;
  const auto it = values_.find(name);
  if (it == values_.end()) return 0;
  if (const auto* v = std::get_if<NetworkValue>(&it->second)) return data_type_of(v->dtype());
  return data_type_of(std::get<Integers>(it->second).dtype);
}

void Importer::read_initializers() {
  for (const auto& t : graph_.initializer()) {
    if (t.name().empty()) fail("an initializer has no name");
    if (!initializers_.emplace(t.name(), &t).second) fail(fmt::format("initializer '{}' is defined twice", t.name()));
  }
}

Imported Importer::import_tensor(const schema::TensorProto& t, const std::string& name) {
  const std::string what = fmt::format("{}: tensor '{}'", file_, name);
  elements_ += checked_count(t, limits_.constant_elements, what);
  if (elements_ > limits_.constant_elements)
    throw UserError(
        fmt::format("{}: the constants have more elements than the limit of {}", what, limits_.constant_elements));
  TensorData data = tensor_data(t, folder_, what);
  const NetworkValue v =
      builder_.constant(name, Shape(t.dims().begin(), t.dims().end()), data.dtype, std::move(data.elements));
  tensor_names_.insert(v.id());
  return v;
}

const Imported& Importer::find(const std::string& name, const std::string& reader) {
  if (const auto it = values_.find(name); it != values_.end()) return it->second;
  const auto it = initializers_.find(name);
  if (it == initializers_.end())
    fail(fmt::format("node '{}' reads '{}', which no input, initializer or earlier node makes", reader, name));
  define(name, import_tensor(*it->second, name), is_short_float(it->second->data_type()) ? it->second->data_type() : 0);
  return values_.at(name);
}

void Importer::read_inputs() {
  for (const auto& input : graph_.input()) {
    if (initializers_.contains(input.name())) continue;  // a default value of older files
    if (!input.has_type() || !input.type().has_tensor_type())
      fail(fmt::format("input '{}' is no tensor", input.name()));
    const auto& type = input.type().tensor_type();
    const auto dtype = dtype_of(type.elem_type());
    if (!dtype)
      fail(fmt::format("input '{}' has elements of {}; expected a float, integer or bool type", input.name(),
                       data_type_name(type.elem_type())));
    Shape shape;
    for (const auto& d : type.shape().dim()) {
      const bool number = d.value_case() == schema::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0;
      // exporters write "?" for every extent that they do not know
      const bool named = !d.dim_param().empty() && d.dim_param() != "?";
      const std::string symbol = named ? d.dim_param() : fmt::format("{}_{}", input.name(), shape.size());
      shape.push_back(number ? Dim(d.dim_value()) : Dim(symbol));
    }
    if (const auto given = given_constants_.find(input.name()); given != given_constants_.end()) {
      bind_constant(input.name(), shape, type.elem_type(), given->second);
      continue;
    }
    NetworkValue v = builder_.input(input.name(), std::move(shape), *dtype);
    tensor_names_.insert(v.id());
    const bool is_short = is_short_float(type.elem_type());
    if (is_short) v = builder_.apply(operators::Map{MapOp::cast, DType::f32}, {v}, input.name() + "_f32");
    define(input.name(), v, is_short ? type.elem_type() : 0);
  }
  for (const auto& [name, view] : given_constants_)
    if (!values_.contains(name)) fail(fmt::format("has no input '{}' that could become a constant", name));
}

void Importer::bind_constant(const std::string& name, const Shape& shape, int type, const ConstTensorView& view) {
  const bool fits = view.shape.size() == shape.size() &&
                    std::equal(shape.begin(), shape.end(), view.shape.begin(),
                               [](const Dim& d, std::int64_t extent) { return may_equal(d, Dim(extent)); });
  if (!fits || view.dtype != dtype_of(type) || !view.strides.empty())
    fail(fmt::format("the constant for input '{}' must be a dense tensor of {} and shape {}", name,
                     data_type_name(type), to_string(shape)));
  schema::TensorProto t;
  t.set_data_type(type);
  for (const auto d : view.shape) t.add_dims(d);
  t.set_raw_data(view.data, static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype));
  define(name, import_tensor(t, name), is_short_float(type) ? type : 0);
}

void Importer::read_nodes() {
  for (const auto& proto : graph_.node()) {
    const NodeReader node(*this, proto);
    if (!proto.domain().empty() && proto.domain() != "ai.onnx")
      node.fail("domain '{}' is not supported; only the standard operators are", proto.domain());
    const OperatorRow* row = find_row(proto.op_type());
    if (row == nullptr)
      node.fail("this operator is not supported; supported are {}", fmt::join(supported_operators(), ", "));
    if (opset_ < row->since) node.fail("this operator exists in this form from opset {} on", row->since);
    for (const std::string& output : proto.output())
      if (initializers_.contains(output)) node.fail("output '{}' is defined twice", output);
    row->import(node);
  }
}

void Importer::read_outputs() {
  if (graph_.output_size() == 0) fail("the graph has no output");
  for (const auto& output : graph_.output()) {
    const Imported& found = find(output.name(), "(graph output)");
    const int type = type_of(output.name()), declared = output.type().tensor_type().elem_type();
    if (declared != 0 && declared != type)
      fail(fmt::format("output '{}' is declared {}, and computed as {}", output.name(), data_type_name(declared),
                       data_type_name(type)));
    try {
      NetworkValue v = std::holds_alternative<NetworkValue>(found)
                           ? std::get<NetworkValue>(found)
                           : materialised(std::get<Integers>(found), output.name(), "(graph output)");
      if (is_short_float(type)) v = builder_.apply(operators::Map{MapOp::cast, *dtype_of(type)}, {v}, output.name());
      builder_.output(v, output.name());
    } catch (const UserError& error) {
      fail(error.what());
    }
  }
}

}  // namespace coda::network::onnx_import
