/// Nodes in their order; the branches of an If, the bodies of loops and those of functions stand in the place of the
/// node that has them.

#include <algorithm>

#include <fmt/ranges.h>

#include "network/onnx/function_bodies.hpp"
#include "network/onnx/node_check.hpp"
#include "network/onnx/opsets.hpp"
#include "support/at_exit.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr int deepest_body = 64;  // read_node calls itself
// Names of the calls and branches around a node, which stand in the names of all that is in them
constexpr std::size_t longest_prefix = 1024;

std::string prefix_of(const NodeReader& node) {
  if (node.name().size() >= longest_prefix)
    node.fail("its name with those of the calls around it has {} bytes; the limit is {}", node.name().size(),
              longest_prefix);
  return node.name() + "/";
}

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return fmt::format("{}\n{}\n{}", domain, name, overload);  // no name has a line's end
}

std::string description(const schema::FunctionProto& f) {
  return fmt::format("function '{}.{}'", f.domain(), f.name());
}

}  // namespace

void Importer::index_functions(const schema::ModelProto& model) {
  for (const auto& f : model.functions()) {
    if (is_standard_domain(f.domain()))
      fail(fmt::format("function '{}' is in the domain of ONNX's own operators; give it another domain", f.name()));
    if (!functions_.emplace(function_key(f.domain(), f.name(), f.overload()), &f).second)
      fail(fmt::format("{} is defined twice", description(f)));
  }
}

void Importer::read_nodes(const google::protobuf::RepeatedPtrField<schema::NodeProto>& nodes) {
  if (leaves_out_) note_reads(nodes);
  for (int i = 0; i < nodes.size(); ++i) {
    if (leaves_out_) {
      read_or_leave(nodes[i], i + 1);
    } else {
      read_node(nodes[i], i + 1);
    }
  }
}

// A node that is read, or a step of a loop
void Importer::count_node() {
  if (++nodes_ > node_limit_)
    fail(fmt::format("has more than {} nodes, the limit, with those of its functions and the steps of its loops",
                     node_limit_));
}

// The model's own function that a node calls; null for an operator
const schema::FunctionProto* Importer::function_of(const schema::NodeProto& node) const {
  if (is_standard_domain(node.domain())) return nullptr;
  const auto found = functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

void Importer::read_node(const schema::NodeProto& proto, int place) {
  NodeReader node(*this, proto, place);
  count_node();
  for (const std::string& output : proto.output())
    if (scope_.initializers.contains(output)) node.fail("output '{}' is defined twice", output);
  if (const std::string reason = operator_refusal(proto); !reason.empty())
    node.fail("{}{}", reason, others_refused(proto));
  if (const auto* function = function_of(proto)) return inline_function(node, *function);
  if (is_own_domain(proto.domain())) {
    const OwnOperator& own = *find_own(proto.op_type());
    check_own(node, own);
    return read_row(node, own.row);
  }
  const OperatorSchema& schema = *find_schema(proto.op_type(), scope_.opset);
  node.expect(check_node(node, schema));
  if (proto.op_type() == "If") return inline_branch(node);
  if (proto.op_type() == "Loop") return unroll_loop(node);
  if (const OperatorRow* row = find_row(proto.op_type())) return read_row(node, *row);
  const support::Restored operators_own(leaves_out_, false);
  inline_function(node, *find_body(schema, scope_.opset));
}

void Importer::read_row(const NodeReader& node, const OperatorRow& row) {
  const auto first = static_cast<TensorId>(builder_.so_far().tensors.size());
  row.import(node);
  const auto is_f32 = [&](const std::string& output) {
    const auto found = scope_.values.find(output);
    const auto* v = found == scope_.values.end() ? nullptr : std::get_if<NetworkValue>(&found->second);
    return v != nullptr && v->dtype() == DType::f32 && !is_short_float(type_of(output));
  };
  if (const int type = node.proto().output_size() > 0 ? type_of(node.proto().output(0)) : 0; is_short_float(type))
    islands_.add_short_node(builder_.so_far(), *dtype_of(type), first);
  if (std::ranges::none_of(node.proto().output(), is_f32)) return;
  std::vector<TensorId> inputs;
  for (const std::string& input : node.proto().input())
    if (const auto found = scope_.values.find(input); found != scope_.values.end())
      if (const auto* v = std::get_if<NetworkValue>(&found->second)) inputs.push_back(v->id());
  islands_.add_node(builder_.so_far(), inputs, first);
}

std::string Importer::operator_refusal(const schema::NodeProto& proto) const {
  const auto known_reason = [&] { return std::string(refusal_of(proto.op_type())); };
  if (!is_standard_domain(proto.domain())) {
    if (function_of(proto) != nullptr) return "";
    if (is_own_domain(proto.domain()) && find_own(proto.op_type()) != nullptr) return "";
    if (auto reason = known_reason(); !reason.empty()) return reason;
    if (is_own_domain(proto.domain())) return "the domain 'unisono' has no such operator";
    return fmt::format("domain '{}' is not supported; only the standard operators are, and functions of the model",
                       proto.domain());
  }
  const OperatorSchema* schema = find_schema(proto.op_type(), scope_.opset);
  if ((proto.op_type() == "If" || proto.op_type() == "Loop") && schema != nullptr) return "";
  const OperatorRow* row = find_row(proto.op_type());
  if (row == nullptr) {
    if (auto reason = known_reason(); !reason.empty()) return reason;
    if (schema != nullptr && find_body(*schema, scope_.opset) != nullptr) return "";
    const auto supported = supported_operators();
    if (std::find(supported.begin(), supported.end(), proto.op_type()) == supported.end())
      return fmt::format("this operator is not supported; supported are {}", fmt::join(supported, ", "));
  }
  if (row != nullptr && scope_.opset < row->since)
    return fmt::format(
        "this operator exists in this form from opset {} on; export the model again, or convert it with "
        "onnx.version_converter",
        row->since);
  return schema == nullptr ? fmt::format("opset {} has no such operator", scope_.opset) : "";
}

std::string Importer::others_refused(const schema::NodeProto& first) const {
  if (scope_.function != nullptr) return "";  // whose opset need not be the model's
  if (partial_) return "";                    // each is said by itself
  std::map<std::string, int> nodes;
  for (const auto& node : graph_.node()) {
    const bool same = node.op_type() == first.op_type() && node.domain() == first.domain();
    if (same || operator_refusal(node).empty()) continue;
    ++nodes[node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type()];
  }
  std::string text;
  for (const auto& [name, count] : nodes)
    text += fmt::format("{} {} ({})", text.empty() ? "; the model has more operators that are refused:" : ",", name,
                        count == 1 ? "1 node" : fmt::format("{} nodes", count));
  return text;
}

void Importer::forget(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    scope_.values.erase(name);
    scope_.types.erase(name);
  }
}

void Importer::inline_branch(const NodeReader& node) {
  if (!node.known_constant(0))
    node.fail(
        "its condition '{}' depends on what the network is run with; only an If whose condition follows from constants "
        "and fixed extents is imported",
        node.proto().input(0));
  const bool condition = node.needed_scalar(0, "the condition") != 0;
  const std::string_view which = condition ? "then_branch" : "else_branch";
  const schema::GraphProto& branch = node.attribute(which)->g();
  if (branch.input_size() != 0) node.fail("its {} has {} inputs; expected none", which, branch.input_size());
  if (branch.output_size() != node.outputs())
    node.fail("its {} has {} outputs, and the node {}", which, branch.output_size(), node.outputs());
  std::vector<Result> results;
  {
    read_initializers(branch);
    const support::AtExit forgotten([&] { forget_initializers(branch); });
    results = read_body(node, branch, "", {});
  }
  for (int i = 0; i < node.outputs(); ++i) define_result(node, i, results[static_cast<std::size_t>(i)]);
}

Importer::Result Importer::result_of(const std::string& name, const NodeReader& reader) {
  const Imported& value = find(name, reader.name());
  return {value, type_of(name)};
}

void Importer::define_result(const NodeReader& node, int output, const Result& result) {
  if (node.wants(output))
    define(node.proto().output(output), result.value, is_short_float(result.type) ? result.type : 0);
}

// The nodes of a branch, or of one step of a loop: they see the names around them, and theirs are forgotten
std::vector<Importer::Result> Importer::read_body(const NodeReader& node, const schema::GraphProto& body,
                                                  const std::string& step, const std::vector<Result>& inputs) {
  if (depth_ == deepest_body) node.fail("branches, loops and functions are nested more than {} deep", deepest_body);
  std::vector<std::string> names;
  const support::Restored branch(scope_.branch, &names);
  const support::Restored prefix(scope_.prefix, prefix_of(node) + (step.empty() ? "" : step + "/"));
  const support::Restored depth(depth_, depth_ + 1);
  const support::Restored leaves(leaves_out_, false);
  const support::AtExit forgotten([&] { forget(names); });
  for (std::size_t i = 0; i < inputs.size(); ++i)
    define(body.input(static_cast<int>(i)).name(), inputs[i].value,
           is_short_float(inputs[i].type) ? inputs[i].type : 0);
  read_nodes(body.node());
  std::vector<Result> results;
  for (const auto& output : body.output()) results.push_back(result_of(output.name(), node));
  return results;
}

void Importer::forget_initializers(const schema::GraphProto& body) {
  std::vector<std::string> names;
  for (const auto& t : body.initializer()) {
    names.push_back(t.name());
    scope_.initializers.erase(t.name());
  }
  forget(names);
}

const schema::AttributeProto* Importer::resolved(const schema::AttributeProto& a, const NodeReader& node) const {
  if (a.ref_attr_name().empty()) return &a;
  if (scope_.function == nullptr)
    node.fail("attribute '{}' refers to '{}' of a function, and the node is in none", a.name(), a.ref_attr_name());
  const auto given = scope_.attributes.find(a.ref_attr_name());
  if (given == scope_.attributes.end())
    node.fail("attribute '{}' refers to '{}', which {} does not have", a.name(), a.ref_attr_name(),
              description(*scope_.function));
  return given->second;
}

// The names in the body of a function as a call begins: its inputs, and the attributes that the call or the function
// gives
Importer::Scope Importer::called_scope(const NodeReader& node, const schema::FunctionProto& f) {
  Scope scope;
  scope.function = &f;
  scope.prefix = prefix_of(node);
  for (const auto& set : f.opset_import())
    if (is_standard_domain(set.domain())) scope.opset = set.version();
  if (scope.opset == 0) scope.opset = scope_.opset;  // it has calls of other functions alone
  check_opset(scope.opset, fmt::format("{}: {}", file_, description(f)));
  if (node.inputs() > f.input_size())
    node.fail("has {} inputs; {} takes {}", node.inputs(), description(f), f.input_size());
  if (node.outputs() > f.output_size())
    node.fail("has {} outputs; {} makes {}", node.outputs(), description(f), f.output_size());
  for (int i = 0; i < f.input_size(); ++i) {
    const std::string& name = f.input(i);
    if (name.empty() || scope.values.contains(name) || scope.absent.contains(name))
      fail(fmt::format("{} has two inputs '{}'", description(f), name));
    if (!node.has(i)) {
      scope.absent.insert(name);
      continue;
    }
    if (const auto it = scope_.unknown.find(node.proto().input(i)); it != scope_.unknown.end()) {
      scope.unknown.emplace(name, it->second);
      continue;
    }
    scope.values.emplace(name, find(node.proto().input(i), node.name()));
    scope.types.emplace(name, type_of(node.proto().input(i)));
  }
  for (const auto& a : f.attribute()) scope.attributes.emplace(a, nullptr);
  for (const auto& a : f.attribute_proto()) scope.attributes.insert_or_assign(a.name(), &a);
  std::set<std::string> given;
  for (const auto& a : node.proto().attribute()) {
    const auto it = scope.attributes.find(a.name());
    if (it == scope.attributes.end()) node.fail("{} has no attribute '{}'", description(f), a.name());
    if (!given.insert(a.name()).second) node.fail("attribute '{}' is given twice", a.name());
    if (const auto* value = resolved(a, node)) it->second = value;
  }
  return scope;
}

void Importer::inline_function(const NodeReader& node, const schema::FunctionProto& f) {
  if (depth_ == deepest_body)
    node.fail("{} is nested more than {} deep; does it call itself?", description(f), deepest_body);
  std::vector<std::optional<Result>> results;
  {
    const support::Restored scope(scope_, called_scope(node, f));
    const support::Restored depth(depth_, depth_ + 1);
    if (leaves_out_) scope_.read.insert(f.output().begin(), f.output().end());
    read_nodes(f.node());
    for (int i = 0; i < node.outputs(); ++i)
      results.push_back(scope_.unknown.contains(f.output(i)) ? std::nullopt
                                                             : std::optional(result_of(f.output(i), node)));
  }
  for (int i = 0; i < node.outputs(); ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result) {
      define_result(node, i, *result);
    } else if (node.wants(i)) {
      becomes_input(node.proto().output(i));
    }
  }
}

}  // namespace unisono::network::onnx_import
