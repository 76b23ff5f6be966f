/// Epilogue graphs: text, stores, operands.

#include <charconv>

#include "tensors.hpp"

namespace unisono::python {
namespace {

using namespace nb::literals;

/// What the caller binds: an operand of the graph.
struct OperandInfo {
  std::string name, axes;
  std::optional<DType> storage;
  std::optional<double> default_value;
  bool is_label = false;  // read by one_hot: i32 unless declared
};

struct StoreInfo {
  std::string name, axes, form;
  DType dtype = DType::f32;
  ValueId value = 0;
};

std::vector<OperandInfo> operands_of(const Graph& graph) {
  std::vector<OperandInfo> found;
  std::map<ValueId, std::size_t> places;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::operand) {
      places[id] = found.size();
      found.push_back({node.attr.name, text_of(node.axes), node.attr.storage, node.attr.default_value});
    }
    if (node.op == Op::one_hot)
      if (const auto at = places.find(node.inputs[0]); at != places.end()) found[at->second].is_label = true;
  }
  return found;
}

/// A node, for those who interpret graphs: the Python package differentiates them by PyTorch's operators.
struct NodeInfo {
  std::string op, axes;
  DType dtype = DType::f32;
  std::vector<ValueId> inputs;
  Attributes attr;
};

std::vector<NodeInfo> nodes_of(const Graph& graph) {
  std::vector<NodeInfo> found;
  for (const Node& node : graph.nodes)
    found.push_back({std::string(to_string(node.op)), text_of(node.axes), node.dtype, node.inputs, node.attr});
  return found;
}

void bind_node(nb::module_& m) {
  nb::class_<NodeInfo>(m, "NodeInfo", "A node of a graph: its operation, inputs and attributes.")
      .def_ro("op", &NodeInfo::op)
      .def_ro("axes", &NodeInfo::axes)
      .def_ro("dtype", &NodeInfo::dtype, "The compute dtype.")
      .def_ro("inputs", &NodeInfo::inputs, "Indices of earlier nodes.")
      .def_prop_ro(
          "name", [](const NodeInfo& n) { return n.attr.name; }, "The name of an operand.")
      .def_prop_ro(
          "value", [](const NodeInfo& n) { return n.attr.value; }, "The value of a constant.")
      .def_prop_ro("alpha", [](const NodeInfo& n) { return n.attr.alpha; })
      .def_prop_ro("beta", [](const NodeInfo& n) { return n.attr.beta; })
      .def_prop_ro("lower", [](const NodeInfo& n) { return n.attr.lower; })
      .def_prop_ro("upper", [](const NodeInfo& n) { return n.attr.upper; })
      .def_prop_ro("eps", [](const NodeInfo& n) { return n.attr.eps; })
      .def_prop_ro("has_scale", [](const NodeInfo& n) { return n.attr.has_scale; })
      .def_prop_ro("has_shift", [](const NodeInfo& n) { return n.attr.has_shift; })
      .def_prop_ro(
          "domain",
          [](const NodeInfo& n) {
            const ReduceDomain& d = n.attr.domain;
            return std::tuple(d.rows, d.cols, d.per_image, d.groups);
          },
          "(over rows, over columns, per image, groups)");
}

std::vector<StoreInfo> stores_of(const Graph& graph) {
  std::vector<StoreInfo> found;
  for (const Store& store : graph.stores)
    found.push_back(
        {store.name, text_of(graph[store.value].axes), std::string(to_string(store.form)), store.dtype, store.value});
  return found;
}

}  // namespace

Axes axes_of(const std::string& text) {
  std::string letters;
  for (const char c : text)
    if (c != '[' && c != ']' && c != ',' && c != ' ') letters += c;
  static const std::map<std::string, Axes> known = {{"", axes::scalar}, {"b", axes::b},   {"m", axes::m},
                                                    {"n", axes::n},     {"bn", axes::bn}, {"mn", axes::mn}};
  if (const auto found = known.find(letters); found != known.end()) return found->second;
  const bool of_image = letters.starts_with("bg");
  if (of_image || letters.starts_with("g")) {
    Axes of_groups{of_image ? RowAxis::b : RowAxis::none, ColAxis::g, 0};
    const char* const end = letters.data() + letters.size();
    const auto read = std::from_chars(letters.data() + (of_image ? 2 : 1), end, of_groups.groups);
    if (read.ec == std::errc{} && read.ptr == end) return of_groups;
  }
  throw UserError("axes '" + text +
                  "' are not known; expected '', 'b', 'm', 'n', 'bn' or 'mn', or for groups of columns 'g4' or 'bg4'; "
                  "docs/text-form.md explains them");
}

std::string text_of(const Axes& axes) {
  std::string text;
  for (const char c : to_string(axes))
    if (c != '[' && c != ']' && c != ',') text += c;
  return text;
}

void bind_graphs(nb::module_& m) {
  nb::class_<OperandInfo>(m, "OperandInfo", "An operand that the caller of a graph binds.")
      .def_ro("name", &OperandInfo::name)
      .def_ro("axes", &OperandInfo::axes, "'', 'b', 'm', 'n', 'bn', 'mn', 'g4' or 'bg4'.")
      .def_ro("storage", &OperandInfo::storage, "The dtype in memory, or None if the graph does not declare it.")
      .def_ro("default_value", &OperandInfo::default_value, "The value of a scalar that is not bound, or None.")
      .def_ro("is_label", &OperandInfo::is_label, "Whether one_hot reads it: i32 if no storage is declared.");
  nb::class_<StoreInfo>(m, "StoreInfo", "An output of a graph.")
      .def_ro("name", &StoreInfo::name)
      .def_ro("axes", &StoreInfo::axes, "The axes of the stored value: 'mn', 'n', 'mg32', …")
      .def_ro("form", &StoreInfo::form, "'', 'max_pool_2x2', or 'upsample_2x2'.")
      .def_ro("dtype", &StoreInfo::dtype)
      .def_ro("value", &StoreInfo::value, "The index of the stored node.");
  bind_node(m);
  nb::class_<Graph>(m, "Graph", "An epilogue: the operations on the accumulator of a contraction, and its outputs.")
      .def(
          "__str__", [](const Graph& g) { return print(g); }, "The text form.")
      .def("__repr__", [](const Graph& g) { return "<unisono.Graph\n" + print(g) + ">"; })
      .def(
          "__eq__",
          [](const Graph& a, nb::handle b) {
            return nb::isinstance<Graph>(b) && structurally_equal(a, nb::cast<const Graph&>(b));
          },
          "other"_a, nb::sig("def __eq__(self, other: object) -> bool"),
          "Structural equality. Names of intermediate values and the order of nodes are ignored.")
      .def(
          "text_naming",
          [](Graph g, const std::map<ValueId, std::string>& names) {
            for (const auto& [id, name] : names) {
              if (id >= g.nodes.size()) throw UserError("text_naming: the graph has no node " + std::to_string(id));
              g.nodes[id].name = name;
            }
            return print(g);
          },
          "names"_a, "The text form with these names of nodes, to which further stores can be appended.")
      .def_prop_ro(
          "operands", [](const Graph& g) { return operands_of(g); }, "The operands that the caller binds.")
      .def_prop_ro("stores", &stores_of, "The outputs, in order.")
      .def_prop_ro("nodes", &nodes_of, "All nodes, in topological order.")
      .def(
          "to_dot", [](const Graph& g) { return to_dot(g); }, "Graphviz source.");
  m.def(
      "parse", [](const std::string& text) { return parse(text); }, "text"_a,
      "Parses the text form (docs/text-form.md). Raises UserError with line, column and a caret.");
}

}  // namespace unisono::python
