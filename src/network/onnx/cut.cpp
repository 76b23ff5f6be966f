/// Takes out of a model's graph the nodes that are not imported, and those that cannot be without them.

#include "network/onnx/cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "network/onnx/importer.hpp"
#include "support/printable.hpp"

namespace unisono::network::onnx_import {

namespace {

namespace schema = ::unisono::onnx;
using Names = std::set<std::string>;

/// What a node reads, the graphs of its attributes included.
Names read_by(const schema::NodeProto& node) {
  Names names(node.input().begin(), node.input().end());
  const auto add = [&](const schema::GraphProto& graph) {
    for (const auto& inner : graph.node()) names.merge(read_by(inner));
    for (const auto& output : graph.output()) names.insert(output.name());
  };
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) add(attribute.g());
  }
  names.erase("");
  return names;
}

class Cut {
 public:
  Cut(schema::GraphProto& graph, const std::map<std::string, std::vector<std::int64_t>>& shapes)
      : graph_(graph), shapes_(shapes) {
    for (const auto& value : graph.value_info()) declare(value);
    for (const auto& value : graph.output()) declare(value);
    for (const auto& node : graph.node()) {
      for (const auto& name : read_by(node)) read_.insert(name);
      for (const auto& name : node.output()) made_.insert(name);
    }
  }

  /// `refused`: a reason for each node, empty for those that are imported.
  std::vector<LeftOut> run(const std::vector<std::string>& refused) {
    std::vector<LeftOut> all;
    schema::GraphProto kept;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const schema::NodeProto& node = graph_.node(i);
      std::string reason = refused[static_cast<std::size_t>(i)];
      if (reason.empty()) reason = reason_of_unknown(node);
      if (reason.empty()) {
        *kept.add_node() = node;
        continue;
      }
      all.push_back(leave_out(node, std::move(reason)));
    }
    graph_.mutable_node()->Swap(kept.mutable_node());
    set_outputs();
    return all;
  }

 private:
  void declare(const schema::ValueInfoProto& value) {
    const auto& type = value.type().tensor_type();
    if (type.has_shape() && type.elem_type() != 0) declared_.emplace(value.name(), value);
  }

  std::string reason_of_unknown(const schema::NodeProto& node) const {
    for (const std::string& name : read_by(node))
      if (unknown_.contains(name))
        return fmt::format("reads '{}', of which nobody knows the shape; give it by --shape {}=AxBxC", name, name);
    return "";
  }

  LeftOut leave_out(const schema::NodeProto& node, std::string reason) {
    LeftOut left{.op_type = node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type(),
                 .name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(),
                 .reason = support::printable(std::move(reason)),
                 .unknown = {}};
    left.op_type = support::printable(left.op_type), left.name = support::printable(left.name);
    for (const std::string& name : read_by(node)) wanted_.insert(name);
    for (const std::string& name : node.output()) {
      made_.erase(name);
      if (name.empty() || !read_.contains(name)) continue;
      if (becomes_input(name)) continue;
      unknown_.insert(name);
      left.unknown.push_back(support::printable(name));
    }
    return left;
  }

  bool becomes_input(const std::string& name) {
    if (const auto given = shapes_.find(name); given != shapes_.end()) {
      schema::ValueInfoProto& input = *graph_.add_input();
      input.set_name(name);
      auto& type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(data_type_of(DType::f32));
      type.mutable_shape();
      for (const std::int64_t extent : given->second) type.mutable_shape()->add_dim()->set_dim_value(extent);
      return true;
    }
    const auto known = declared_.find(name);
    if (known == declared_.end()) return false;
    *graph_.add_input() = known->second;
    return true;
  }

  /// Those of the file that are still made, and what the nodes read that were left out.
  void set_outputs() {
    schema::GraphProto kept;
    Names there;
    for (const auto& output : graph_.output()) {
      if (!made_.contains(output.name())) continue;
      *kept.add_output() = output;
      there.insert(output.name());
    }
    for (const std::string& name : wanted_)
      if (made_.contains(name) && there.insert(name).second) kept.add_output()->set_name(name);
    graph_.mutable_output()->Swap(kept.mutable_output());
  }

  schema::GraphProto& graph_;
  const std::map<std::string, std::vector<std::int64_t>>& shapes_;
  std::map<std::string, schema::ValueInfoProto> declared_;
  Names read_, made_, unknown_, wanted_;  // by any node; by nodes that stay; without a shape; by nodes left out
};

}  // namespace

std::vector<LeftOut> take_out_refused(::unisono::onnx::ModelProto& model, const std::vector<std::string>& refused,
                                      const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  if (std::ranges::all_of(refused, &std::string::empty)) return {};
  schema::GraphProto& graph = *model.mutable_graph();
  schema::GraphProto before;  // without the weights, which stay
  *before.mutable_node() = graph.node(), *before.mutable_input() = graph.input();
  *before.mutable_output() = graph.output();
  std::vector<LeftOut> left = Cut(graph, shapes).run(refused);
  if (graph.node_size() > 0 && graph.output_size() > 0) return left;
  graph.mutable_node()->Swap(before.mutable_node()), graph.mutable_input()->Swap(before.mutable_input());
  graph.mutable_output()->Swap(before.mutable_output());
  return {};  // the importer says why
}

}  // namespace unisono::network::onnx_import
