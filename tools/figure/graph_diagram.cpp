#include "figure/graph_diagram.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "ir/spelling.hpp"
#include "unisono/text.hpp"

namespace unisono::figure {
namespace {

constexpr Color operand_fill{219, 234, 254}, operand_border{37, 99, 235}, acc_fill{253, 230, 138},
    acc_border{180, 83, 9};
constexpr Color store_fill{220, 252, 231}, store_border{21, 128, 61}, uniform_fill{255, 255, 255},
    plain_fill{243, 244, 246};

/// Numbers, coordinates and extents are written where they are used.
std::optional<std::string> inline_text(const Node& node) {
  if (node.op == Op::constant) return ir::number_text(node.attr.value);
  if (node.op == Op::index || node.op == Op::extent) {
    return fmt::format("{}({})", unisono::to_string(node.op), ir::to_string(node.attr.coordinate));
  }
  return std::nullopt;
}

std::string operation(const Graph& graph, const Node& node) {
  if (node.op == Op::acc) return "acc";
  if (node.op == Op::operand) return node.attr.name;
  std::string text(node.op == Op::call ? node.attr.name : std::string(unisono::to_string(node.op)));
  if (node.op == Op::cast) text += fmt::format(" {}", unisono::to_string(node.dtype));
  std::vector<std::string> arguments;
  bool any = false;
  for (const ValueId input : node.inputs) {
    const auto inlined = inline_text(graph[input]);
    any = any || inlined;
    arguments.push_back(inlined.value_or("·"));
  }
  return any ? fmt::format("{}({})", text, fmt::join(arguments, ", ")) : text;
}

Box box_of(const Graph& graph, const Node& node, Color fill) {
  Box box{.lines = {operation(graph, node)}, .fill = fill};
  if (!node.name.empty() && node.op != Op::operand) box.lines[0] = node.name + " = " + box.lines[0];
  const auto keywords = ir::keyword_texts(node);
  if (!keywords.empty()) box.lines.push_back(fmt::format("{}", fmt::join(keywords, ", ")));
  box.lines.push_back(fmt::format("{} {}", unisono::to_string(node.axes), unisono::to_string(node.dtype)));
  if (node.op == Op::acc) {
    box.fill = acc_fill;
    box.border = acc_border;
  } else if (node.op == Op::operand) {
    box.fill = operand_fill;
    box.border = operand_border;
    box.corner_radius = 14;
  }
  return box;
}

}  // namespace

BoxDiagram diagram_of(const Graph& graph, const passes::Partition* partition, const std::string& title) {
  BoxDiagram diagram{.title = title};
  std::map<ValueId, Color> colour;
  if (partition != nullptr) {
    for (const ValueId id : partition->uniform) colour[id] = uniform_fill;
    for (std::size_t s = 0; s < partition->stages.size(); ++s) {
      for (const ValueId id : partition->stages[s].values) colour[id] = pastel(static_cast<int>(s));
      diagram.legend.push_back({fmt::format("stage {}", s + 1), pastel(static_cast<int>(s))});
    }
    if (!partition->uniform.empty()) diagram.legend.push_back({"once, before all tiles", uniform_fill});
  }
  std::map<ValueId, std::size_t> box;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    if (inline_text(graph[id])) continue;
    const auto found = colour.find(id);
    for (const ValueId input : graph[id].inputs) {
      if (box.contains(input)) diagram.edges.push_back({box.at(input), diagram.boxes.size()});
    }
    box[id] = diagram.boxes.size();
    diagram.boxes.push_back(box_of(graph, graph[id], found == colour.end() ? plain_fill : found->second));
  }
  for (const Store& store : graph.stores) {
    if (box.contains(store.value)) diagram.edges.push_back({box.at(store.value), diagram.boxes.size()});
    Box last{.lines = {fmt::format("store {} : {}", store.name, unisono::to_string(store.dtype))},
             .fill = store_fill,
             .border = store_border};
    if (store.form != StoreForm::whole) last.lines.emplace_back(unisono::to_string(store.form));
    if (const auto inlined = inline_text(graph[store.value])) last.lines.push_back(*inlined);
    diagram.boxes.push_back(std::move(last));
  }
  return diagram;
}

}  // namespace unisono::figure
