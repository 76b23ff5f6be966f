#include "command/explain_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include <string_view>

#include "command/json.hpp"
#include "figure/boxes.hpp"
#include "figure/graph_diagram.hpp"
#include "ir/op_table.hpp"
#include "ir/value_names.hpp"
#include "media/file.hpp"
#include "passes/passes.hpp"
#include "passes/split_stores.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Statements of the text form by value, for a graph in which every value gets a name.
class Statements {
 public:
  explicit Statements(Graph graph) {
    ir::ValueNames names(graph);
    for (ValueId id = 0; id < graph.nodes.size(); ++id) {
      Node& node = graph.nodes[id];
      if (ir::info(node.op).op_class == ir::OpClass::leaf) {
        name_[id] = node.op == Op::operand ? node.attr.name : std::string(to_string(node.op));
      } else {
        node.name = names.suggested(id).empty() ? names.next() : names.suggested(id);
        name_[id] = node.name;
      }
    }
    for (const std::string& line : lines_of(print(graph))) {
      const std::size_t equals = line.find(" = ");
      if (equals != std::string::npos) line_[line.substr(0, equals)] = line;
    }
  }

  const std::string& name(ValueId id) const { return name_.at(id); }
  /// "h = acc + bias[n]"; a leaf, or a call that returns nothing, is its name alone.
  const std::string& line(ValueId id) const {
    const auto found = line_.find(name_.at(id));
    return found == line_.end() ? name_.at(id) : found->second;
  }
  std::vector<std::string> names(const std::vector<ValueId>& ids) const {
    std::vector<std::string> result;
    result.reserve(ids.size());
    for (const ValueId id : ids) result.push_back(name(id));
    return result;
  }
  std::vector<std::string> lines(const std::vector<ValueId>& ids) const {
    std::vector<std::string> result;
    result.reserve(ids.size());
    for (const ValueId id : ids) result.push_back(line(id));
    return result;
  }

 private:
  std::map<ValueId, std::string> name_;
  std::map<std::string, std::string> line_;
};

/// "y : bf16", "p = max_pool_2x2 : bf16": a store of the graph that the passes see, as it was written, and what is made
/// of it.
std::vector<std::string> store_texts(const Graph& written, const passes::SplitStores& split, const std::string& name) {
  std::vector<std::string> texts;
  for (const Store& s : written.stores) {
    const bool is_itself = s.name == name;
    const bool is_resampled = (s.name == split.pooled || s.name == split.upsampled) && split.source == name;
    if (!is_itself && !is_resampled) continue;
    const std::string form(to_string(s.form));
    texts.push_back(fmt::format("{}{}{} : {}", s.name, form.empty() ? "" : " = ", form, to_string(s.dtype)));
  }
  return texts;
}

void add_stages(GraphExplanation& e, const Graph& written, const passes::SplitStores& split) {
  const Statements statements(e.result);
  e.once = statements.lines(e.partition.uniform);
  for (const passes::Stage& stage : e.partition.stages) {
    StageText text{
        statements.lines(stage.values), statements.names(stage.reductions), statements.names(stage.kept), {}, {}};
    for (const std::size_t i : stage.stores) {
      const auto texts = store_texts(written, split, e.result.stores[i].name);
      text.stores.insert(text.stores.end(), texts.begin(), texts.end());
    }
    for (const std::size_t i : stage.effects) text.effects.push_back(e.result[e.result.effects[i]].attr.name);
    e.stages.push_back(std::move(text));
  }
}

std::string indented(std::string_view text) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += "    " + line + "\n";
  return out;
}

std::string list(std::string_view label, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("    {}: {}\n", label, fmt::join(names, ", "));
}

}  // namespace

GraphExplanation explain_graph(const Graph& graph) {
  GraphExplanation e;
  e.written = print(graph);
  const passes::SplitStores split = passes::split_stores(graph);
  passes::Log log = passes::record_pipeline(split.graph);
  e.passes = std::move(log.passes);
  e.result = std::move(log.result);
  e.result_text = print(e.result);
  e.partition = passes::partition(e.result);
  add_stages(e, graph, split);
  return e;
}

std::string to_text(const GraphExplanation& e) {
  std::string out = "as written\n" + indented(e.written);
  for (std::size_t i = 0; i < e.passes.size(); ++i) {
    const passes::LogEntry& pass = e.passes[i];
    out += fmt::format("{:2}. {}: {}{}\n", i + 1, pass.pass, pass.purpose, pass.exact ? "" : " (may reassociate)");
    out += pass.changed ? indented(pass.text) : "    (unchanged)\n";
  }
  if (!e.once.empty()) {
    out += "once, before all tiles\n";
    for (const std::string& line : e.once) out += "    " + line + "\n";
  }
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const StageText& stage = e.stages[s];
    out += fmt::format("stage {} of {}\n", s + 1, e.stages.size());
    for (const std::string& line : stage.values) out += "    " + line + "\n";
    out += list("complete at its end", stage.reductions) + list("kept for a later stage", stage.kept);
    out += list("stores", stage.stores) + list("calls", stage.effects);
  }
  if (!e.kernel.empty()) out += "kernel\n" + indented(e.kernel);
  return out;
}

std::string to_json(const GraphExplanation& e) {
  using nlohmann::json;
  json passes = json::array(), stages = json::array();
  for (const passes::LogEntry& p : e.passes) {
    passes.push_back(
        {{"name", p.pass}, {"purpose", p.purpose}, {"exact", p.exact}, {"changed", p.changed}, {"text", p.text}});
  }
  for (const StageText& s : e.stages) {
    stages.push_back({{"values", s.values},
                      {"reductions", s.reductions},
                      {"kept", s.kept},
                      {"stores", s.stores},
                      {"effects", s.effects}});
  }
  json object = {{"kind", "epilogue"},      {"text", e.written}, {"passes", passes},
                 {"result", e.result_text}, {"once", e.once},    {"stages", stages}};
  if (!e.kernel.empty()) object["kernel"] = e.kernel;
  return dump(object);
}

void write_drawings(const GraphExplanation& e, const std::filesystem::path& dot, const std::filesystem::path& svg) {
  if (!dot.empty()) media::write_file(dot, to_dot(e.result, "epilogue"));
  if (!svg.empty()) {
    media::write_file(svg, figure::to_svg(figure::diagram_of(e.result, &e.partition, "epilogue after the passes")));
  }
}

}  // namespace unisono::command
