/// Names go into errors, reports and JSON: all of a file are checked before any is used.

#include "network/onnx/importer.hpp"
#include "support/utf8.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::size_t longest_name = 4096;

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

class NameCheck {
 public:
  explicit NameCheck(const std::string& file) : file_(file) {}

  void graph(const schema::GraphProto& g) const {
    check(g.name(), "the graph");
    for (const auto& t : g.initializer()) check(t.name(), "an initializer");
    for (const auto* list : {&g.input(), &g.output()})
      for (const auto& v : *list) {
        check(v.name(), "an input or output");
        for (const auto& d : v.type().tensor_type().shape().dim()) check(d.dim_param(), "an extent");
      }
    for (const auto& n : g.node()) node(n);
  }

  void function(const schema::FunctionProto& f) const {
    for (const auto* name : {&f.name(), &f.domain(), &f.overload()}) check(*name, "a function");
    for (const auto* list : {&f.input(), &f.output()})
      for (const auto& name : *list) check(name, "a function's input or output");
    for (const auto& name : f.attribute()) check(name, "an attribute");
    for (const auto& a : f.attribute_proto()) check(a.name(), "an attribute");
    for (const auto& set : f.opset_import()) check(set.domain(), "a domain");
    for (const auto& n : f.node()) node(n);
  }

 private:
  void node(const schema::NodeProto& n) const {
    check(n.name(), "a node");
    check(n.op_type(), "an operator");
    check(n.domain(), "a domain");
    check(n.overload(), "an operator");
    for (const auto& i : n.input()) check(i, "a tensor");
    for (const auto& o : n.output()) check(o, "a tensor");
    for (const auto& a : n.attribute()) {
      check(a.name(), "an attribute");
      check(a.ref_attr_name(), "an attribute");
      if (a.has_g()) graph(a.g());  // as deep as the parser lets messages nest
    }
  }

  void check(const std::string& name, std::string_view what) const {
    if (!is_text(name))
      throw UserError(fmt::format(
          "{}: the name of {} is not text (expected UTF-8 without control characters, at most {} bytes); the file is "
          "damaged",
          file_, what, longest_name));
  }

  const std::string& file_;
};

}  // namespace

void check_names(const schema::ModelProto& model, const std::string& file) {
  const NameCheck names(file);
  names.graph(model.graph());
  for (const auto& f : model.functions()) names.function(f);
}

}  // namespace unisono::network::onnx_import
