/// Walks over the graph of an ONNX file.

#include "network/onnx/importer.hpp"

#include <algorithm>
#include <cstring>

#include "network/dim.hpp"
#include "network/onnx/folding.hpp"
#include "network/onnx/operator_schema.hpp"
#include "network/onnx/opsets.hpp"
#include "network/shape_limits.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr std::int64_t first_opset = 1;       // each operator says from which on it is what is built
constexpr std::int64_t most_integers = 4096;  // in a tensor that is kept as numbers
constexpr int most_interfaces = 4096;         // inputs, or outputs

// An extent without a name gets one that no other extent has
Shape input_shape(const schema::ValueInfoProto& input, const std::set<std::string>& symbols) {
  Shape shape;
  for (const auto& d : input.type().tensor_type().shape().dim()) {
    const bool number = d.value_case() == schema::TensorShapeProto::Dimension::kDimValue && d.dim_value() >= 0;
    // exporters write "?" for every extent that they do not know
    const bool named = !d.dim_param().empty() && d.dim_param() != "?";
    std::string symbol = named ? d.dim_param() : fmt::format("{}_{}", input.name(), shape.size());
    while (!named && symbols.contains(symbol)) symbol += "_";
    shape.push_back(number ? Dim(d.dim_value()) : Dim(symbol));
  }
  return shape;
}

}  // namespace

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

void check_opset(std::int64_t opset, const std::string& what) {
  if (opset < first_opset || opset > newest_opset())
    throw UserError(
        fmt::format("{}: uses opset {}; expected 11 to {} (export again, or convert it with onnx.version_converter)",
                    what, opset, newest_opset()));
}

Importer::Importer(const schema::ModelProto& model, const std::string& file, const ModelFolders& folders,
                   const OnnxOptions& options)
    : graph_(model.graph()),
      file_(file),
      folders_(folders),
      node_limit_(options.limits.nodes),
      budget_(options.limits),
      given_constants_(options.constants),
      given_inputs_(options.given),
      made_of_parameters_(options.trainable ? made_of_parameters(model.graph()) : std::set<std::string>()),
      builder_(model.graph().name().empty() ? file : model.graph().name()) {
  check_names(model, file_);
  check_opsets(model);
  index_functions(model);
  if (!model.has_graph()) fail("has no graph; is it an ONNX model?");
  if (graph_.node_size() > node_limit_)
    fail(fmt::format("has {} nodes; the limit is {}", graph_.node_size(), node_limit_));
  if (graph_.input_size() - graph_.initializer_size() > most_interfaces || graph_.output_size() > most_interfaces)
    fail(fmt::format("has {} inputs and {} outputs; the limit is {}", graph_.input_size(), graph_.output_size(),
                     most_interfaces));
}

void Importer::check_opsets(const schema::ModelProto& model) {
  std::map<std::string, std::int64_t> versions;
  for (const auto& set : model.opset_import()) {
    const std::string domain = is_standard_domain(set.domain()) ? "" : set.domain();
    if (const auto [it, added] = versions.emplace(domain, set.version()); !added && it->second != set.version())
      fail(fmt::format("names opsets {} and {} of domain '{}'", it->second, set.version(), domain));
  }
  if (!versions.contains("")) fail("names no opset of the ONNX operators; is it an ONNX model?");
  scope_.opset = versions.at("");
  check_opset(scope_.opset, file_);
}

Network Importer::run() {
  read_initializers(graph_);
  read_inputs();
  read_nodes(graph_.node());
  read_outputs();
  return without_unused(finished());
}

Network Importer::finished() const {
  try {
    Network network = builder_.build();
    islands_.mark(network);
    return network;
  } catch (const UserError& error) {
    fail(error.what());
  }
}

void Importer::define(const std::string& name, Imported value, int type) {
  if (type != 0) scope_.types[name] = type;
  if (const auto* v = std::get_if<NetworkValue>(&value); v != nullptr && is_short_float(type))
    islands_.add_short(builder_.so_far(), v->id());
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
  if (!scope_.values.emplace(name, std::move(value)).second) fail(fmt::format("'{}' is defined twice", name));
  if (scope_.branch != nullptr) scope_.branch->push_back(name);
}

int Importer::type_of(const std::string& name) const {
  if (const auto it = scope_.types.find(name); it != scope_.types.end()) return it->second;
  const auto it = scope_.values.find(name);
  if (it == scope_.values.end()) {
    const auto unread = scope_.initializers.find(name);
    return unread == scope_.initializers.end() ? 0 : unread->second->data_type();
  }
  if (const auto* v = std::get_if<NetworkValue>(&it->second)) return data_type_of(v->dtype());
  const auto* integers = std::get_if<Integers>(&it->second);
  return integers == nullptr ? 0 : data_type_of(integers->dtype);
}

void Importer::read_initializers(const schema::GraphProto& graph) {
  for (const auto& t : graph.initializer()) {
    if (t.name().empty()) fail("an initializer has no name");
    if (scope_.values.contains(t.name()) || !scope_.initializers.emplace(t.name(), &t).second)
      fail(fmt::format("initializer '{}' is defined twice", t.name()));
  }
}

// A tensor that is read again, in another call of a function, is no longer what the file's size bounds
NetworkValue Importer::import_tensor(const schema::TensorProto& t, const std::string& name) {
  const std::string what = fmt::format("{}: tensor '{}'", file_, name);
  const auto dtype = dtype_of(t.data_type());
  const std::size_t element = !dtype || is_short_float(t.data_type()) ? sizeof(float) : size_of(*dtype);
  const std::uint64_t count = checked_count(t, budget_.most_elements(element), what);
  const Shape shape(t.dims().begin(), t.dims().end());
  check_size(shape, what);
  const bool again = !tensors_read_.insert(&t).second;
  if (again) budget_.take_computed(count, count * element, what);
  if (!again) budget_.take_stored(count, count * element, what);
  TensorData data = tensor_data(t, folders_, what);
  const NetworkValue v = builder_.constant(name, shape, data.dtype, std::move(data.elements));
  tensor_names_.insert(v.id());
  if (!again) stored_.insert(v.id());
  return v;
}

const Imported& Importer::find(const std::string& name, const std::string& reader) {
  if (const auto it = scope_.values.find(name); it != scope_.values.end()) return it->second;
  const auto it = scope_.initializers.find(name);
  if (const auto unknown = scope_.unknown.find(name); unknown != scope_.unknown.end()) {
    const std::string reason = fmt::format("reads '{}', whose shape is not known; give it by --shape {}=AxBxC",
                                           unknown->second, unknown->second);
    throw NodeError("a node", reader, reason, fmt::format("{}: node '{}' {}", file_, reader, reason));
  }
  if (it == scope_.initializers.end())
    fail(fmt::format("node '{}' reads '{}', which is not an input, an initializer or an output of an earlier node",
                     reader, name));
  const int type = it->second->data_type();
  // a branch that reads it first does not take it along when it ends
  auto* const branch = std::exchange(scope_.branch, nullptr);
  define(name, import_tensor(*it->second, name), is_short_float(type) ? type : 0);
  scope_.branch = branch;
  return scope_.values.at(name);
}

bool Importer::is_default(const std::string& name) const {
  return scope_.initializers.contains(name) && !given_constants_.contains(name) && !given_inputs_.contains(name);
}

void Importer::read_inputs() {
  std::set<std::string> symbols;
  for (const auto& input : graph_.input())
    for (const auto& d : input.type().tensor_type().shape().dim()) symbols.insert(d.dim_param());
  for (const auto& input : graph_.input())
    if (!is_default(input.name())) read_input(input, symbols);
  for (const auto& [name, view] : given_constants_)
    if (!scope_.values.contains(name)) fail(fmt::format("has no input '{}' that could become a constant", name));
}

void Importer::read_input(const schema::ValueInfoProto& input, const std::set<std::string>& symbols) {
  if (!input.has_type() || !input.type().has_tensor_type())
    fail(fmt::format("input '{}' is not a tensor; only tensors can be inputs of a network", input.name()));
  const int type = input.type().tensor_type().elem_type();
  const auto dtype = dtype_of(type);
  if (!dtype)
    fail(fmt::format("input '{}' has elements of {}; expected a float, integer or bool type", input.name(),
                     data_type_name(type)));
  if (!input.type().tensor_type().has_shape())
    fail(
        fmt::format("input '{}' has no shape, so its number of axes is unknown; expected a number or a name for "
                    "each extent (a scalar has a shape without extents)",
                    input.name()));
  Shape shape = input_shape(input, symbols);
  check_size(shape, fmt::format("{}: input '{}'", file_, input.name()));
  scope_.initializers.erase(input.name());  // its default
  if (const auto given = given_constants_.find(input.name()); given != given_constants_.end())
    return bind_constant(input.name(), shape, type, given->second);
  NetworkValue v = builder_.input(input.name(), std::move(shape), *dtype);
  tensor_names_.insert(v.id());
  const bool is_short = is_short_float(type);
  if (is_short) v = builder_.apply(operators::Map{MapOp::cast, DType::f32}, {v}, input.name() + "_f32");
  define(input.name(), v, is_short ? type : 0);
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
  const NetworkValue v = import_tensor(t, name);
  tensors_read_.erase(&t);
  define(name, v, is_short_float(type) ? type : 0);
}

void Importer::read_outputs() {
  if (graph_.output_size() == 0) fail("the graph has no output");
  for (const auto& output : graph_.output()) {
    if (is_left_out(output.name())) continue;
    const Imported& found = find(output.name(), "(graph output)");
    if (const auto* sequence = std::get_if<Sequence>(&found))
      fail(
          fmt::format("output '{}' is a sequence of {} tensors; make each of them an output, or join them by "
                      "ConcatFromSequence",
                      output.name(), sequence->elements.size()));
    const int type = type_of(output.name()), declared = output.type().tensor_type().elem_type();
    if (declared != 0 && declared != type)
      fail(fmt::format("output '{}' is declared {}, and computed as {}", output.name(), data_type_name(declared),
                       data_type_name(type)));
    try {
      const NetworkValue v = std::holds_alternative<NetworkValue>(found)
                                 ? std::get<NetworkValue>(found)
                                 : materialised(std::get<Integers>(found), output.name(), "(graph output)");
      add_output(v, type, output.name());
    } catch (const UserError& error) {
      fail(error.what());
    }
  }
}

void Importer::add_output(NetworkValue v, int type, const std::string& name) {
  if (is_short_float(type)) v = builder_.apply(operators::Map{MapOp::cast, *dtype_of(type)}, {v}, name);
  builder_.output(v, name);
}

}  // namespace unisono::network::onnx_import
