/// Imports a model without the nodes that cannot be imported, and without those that depend on them.

#include <algorithm>

#include "network/onnx/importer.hpp"
#include "support/at_exit.hpp"
#include "support/printable.hpp"

namespace unisono::network::onnx_import {

namespace {

using Names = std::set<std::string>;

/// What a node reads, the graphs of its attributes included.
Names read_by(const schema::NodeProto& node) {
  Names names(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    for (const auto& inner : attribute.g().node()) names.merge(read_by(inner));
    for (const auto& output : attribute.g().output()) names.insert(output.name());
  }
  names.erase("");
  return names;
}

/// The operators that the network's outputs depend on: a node that failed may have left others.
Network without_unread(Network n) {
  std::vector<bool> read(n.tensors.size(), false);
  for (const TensorId id : n.outputs) read[id] = true;
  std::vector<Operator> kept;
  for (std::size_t i = n.operators.size(); i-- > 0;) {
    if (!read[n.operators[i].output]) continue;
    for (const TensorId id : n.operators[i].inputs) read[id] = true;
    kept.push_back(std::move(n.operators[i]));
  }
  n.operators.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return n;
}

bool is_known(const Integers& integers) {
  return std::ranges::all_of(integers.elements, [](const Dim& d) { return d.known(); });
}

/// A message without the list of all operators that are supported.
std::string without_list(const std::string& reason) { return reason.substr(0, reason.find("; supported are")); }

}  // namespace

std::optional<PartialNetwork> Importer::run_partly(const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  partial_ = Partial{.shapes = shapes, .declared = {}, .symbols = {}, .inputs = {}, .left_out = {}, .wanted = {}};
  for (const auto* values : {&graph_.value_info(), &graph_.output()})
    for (const auto& value : *values) {
      const auto& type = value.type().tensor_type();
      for (const auto& d : type.shape().dim()) partial_->symbols.insert(d.dim_param());
      if (type.has_shape() && dtype_of(type.elem_type())) partial_->declared.emplace(value.name(), &value);
    }
  leaves_out_ = true;
  read_initializers(graph_);
  read_inputs();
  read_nodes(graph_.node());
  read_outputs();
  add_wanted_outputs();
  std::vector<LeftOut>& left = partial_->left_out;
  if (builder_.so_far().outputs.empty()) return std::nullopt;
  Network network = finished();
  if (!left.empty()) network = without_unread(std::move(network));
  if (network.operators.empty()) return std::nullopt;
  return PartialNetwork{without_unused(std::move(network)), std::move(left)};
}

void Importer::read_or_leave(const schema::NodeProto& proto, int place) {
  const NodeReader node(*this, proto, place);
  if (const std::string reason = refusal_within(proto); !reason.empty()) return leave_out(node, reason);
  try {
    read_node(proto, place);
  } catch (const NodeError& error) {
    const std::string reason = without_list(error.reason);
    const bool within = error.name != node.name();  // a branch, a loop, or what ONNX defines the operator by
    leave_out(node, within ? fmt::format("has {} '{}': {}", error.op_type, error.name, reason) : reason);
  }
}

std::string Importer::refusal_within(const schema::NodeProto& proto) const {
  const std::string reason = operator_refusal(proto);
  if (!reason.empty()) return without_list(reason);
  for (const auto& attribute : proto.attribute())
    for (const auto& inner : attribute.g().node())
      if (const std::string found = refusal_within(inner); !found.empty())
        return fmt::format("has {} in a branch: {}", inner.op_type(), found);
  return "";
}

void Importer::note_reads(const google::protobuf::RepeatedPtrField<schema::NodeProto>& nodes) {
  for (const auto& node : nodes) scope_.read.merge(read_by(node));
}

void Importer::leave_out(const NodeReader& node, const std::string& reason) {
  const schema::NodeProto& proto = node.proto();
  LeftOut left{
      .op_type = support::printable(proto.domain().empty() ? proto.op_type() : proto.domain() + "." + proto.op_type()),
      .name = support::printable(node.name()),
      .reason = support::printable(reason),
      .unknown = {}};
  forget({proto.output().begin(), proto.output().end()});  // those that it made before it failed
  for (const std::string& name : read_by(proto))
    if (const auto found = scope_.values.find(name); found != scope_.values.end())
      partial_->wanted.push_back({found->second, type_of(name), scope_.prefix + name});
  for (const std::string& name : proto.output())
    if (!name.empty() && !becomes_input(name) && scope_.read.contains(name))
      left.unknown.push_back(support::printable(scope_.prefix + name));
  partial_->left_out.push_back(std::move(left));
}

// One that is read is an input if the caller or the file gives its shape
bool Importer::becomes_input(const std::string& name) {
  const std::string full = scope_.prefix + name;
  const auto given = partial_->shapes.find(full);
  const auto declared = scope_.function == nullptr ? partial_->declared.find(name) : partial_->declared.end();
  const bool known = given != partial_->shapes.end() || declared != partial_->declared.end();
  if (!known || !scope_.read.contains(name)) {
    scope_.unknown.emplace(name, full);
    return false;
  }
  schema::ValueInfoProto input;
  if (given == partial_->shapes.end()) input = *declared->second;
  input.set_name(full);
  if (given != partial_->shapes.end()) {
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(data_type_of(DType::f32));
    type.mutable_shape();
    for (const std::int64_t extent : given->second) type.mutable_shape()->add_dim()->set_dim_value(extent);
  }
  read_input(input, partial_->symbols);
  if (full != name) {
    auto value = scope_.values.extract(full);
    value.key() = name;
    scope_.values.insert(std::move(value));
  }
  if (scope_.function == nullptr) partial_->inputs.insert(name);
  return true;
}

bool Importer::is_left_out(const std::string& output) const {
  return partial_ && (scope_.unknown.contains(output) || partial_->inputs.contains(output));
}

void Importer::add_wanted_outputs() {
  const Network& so_far = builder_.so_far();
  std::set<TensorId> there(so_far.inputs.begin(), so_far.inputs.end());
  Names names;
  for (const TensorId id : so_far.outputs) {
    there.insert(id);
    names.insert(so_far[id].name);
  }
  for (const auto& [value, type, name] : partial_->wanted) {
    if (names.contains(name)) continue;
    const auto* v = std::get_if<NetworkValue>(&value);
    const auto* integers = std::get_if<Integers>(&value);
    if (v != nullptr && !v->tensor().is_constant() && there.insert(v->id()).second) {
      add_output(*v, type, name);
    } else if (integers != nullptr && !is_known(*integers)) {
      add_output(materialised(*integers, name, "(graph output)"), type, name);
    } else {
      continue;
    }
    names.insert(name);
  }
}

}  // namespace unisono::network::onnx_import
