#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "ir/row_coordinates.hpp"
#include "ir/spelling.hpp"
#include "unisono/text.hpp"

namespace unisono {

namespace {

struct Look {
  std::string_view shape, fill, border;
};

Look look_of(const Node& x) {
  using enum ir::OpClass;
  switch (ir::info(x.op).op_class) {
    case leaf:
      if (x.op == Op::acc || x.op == Op::acc1) return {"box3d", "#fde68a", "#b45309"};
      if (x.op == Op::operand) return {"cds", "#dbeafe", "#2563eb"};
      return {"plain", "#ffffff", "#6b7280"};
    case reduction: return {"invhouse", "#ffedd5", "#c2410c"};
    case normalisation:
    case softmax: return {"hexagon", "#ede9fe", "#6d28d9"};
    case call: return {"component", "#fce7f3", "#be185d"};
    default: return {x.op == Op::cast ? "cds" : "box", "#f3f4f6", "#4b5563"};
  }
}

std::string escaped(std::string_view text) {
  std::string s;
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s;
}

std::string label_of(const Node& x) {
  switch (x.op) {
    case Op::constant: return ir::number_text(x.attr.value);
    case Op::index:
    case Op::extent: return fmt::format("{}({})", to_string(x.op), ir::to_string(x.attr.coordinate));
    case Op::operand: {
      auto s = x.axes == axes::scalar ? x.attr.name : x.attr.name + ir::operand_axes(x.axes, x.attr.rows);
      if (x.attr.storage) s += fmt::format(" : {}", to_string(*x.attr.storage));
      if (x.attr.default_value) s += " = " + ir::number_text(*x.attr.default_value);
      return s;
    }
    case Op::call: return x.attr.name;
    case Op::cast: return fmt::format("cast {}", to_string(x.dtype));
    default: break;
  }
  const auto& row = ir::info(x.op);
  std::string s(row.symbol.empty() ? row.name : row.symbol);
  const auto keywords = ir::keyword_texts(x);
  return keywords.empty() ? s : fmt::format("{}\n{}", s, fmt::join(keywords, ", "));
}

// "[m,n] bf16"; f32 goes without saying
std::string type_of(const Node& x) {
  return x.dtype == DType::f32 ? to_string(x.axes) : fmt::format("{} {}", to_string(x.axes), to_string(x.dtype));
}

// Constants and coordinates are drawn once for each use, so that they stand beside it
bool is_drawn_at_use(const Node& x) { return x.op == Op::constant || x.op == Op::index || x.op == Op::extent; }

// What an input is to its user, where the inputs cannot change places
std::string role_of(const Node& user, std::size_t input) {
  if (ir::is_normalisation(user.op)) return input == 0 ? "" : input == 1 && user.attr.has_scale ? "scale" : "shift";
  switch (user.op) {
    case Op::select: return input == 0 ? "if" : input == 1 ? "then" : "else";
    case Op::fma: return input == 2 ? "addend" : "";
    case Op::call: return user.inputs.size() > 1 ? std::to_string(input + 1) : "";
    case Op::sub:
    case Op::div:
    case Op::pow:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal: return input == 0 ? "left" : "right";
    default: return "";
  }
}

class Drawing {
 public:
  explicit Drawing(const Graph& graph) : g_(graph) {}

  std::string run(std::string_view title) {
    out_ =
        fmt::format("digraph \"{0}\" {{\n  label=\"{0}\" labelloc=t fontname=Helvetica fontsize=18\n", escaped(title));
    out_ +=
        "  rankdir=TB ordering=in nodesep=0.3 ranksep=0.35\n"
        "  node [fontname=Helvetica fontsize=12 style=\"filled,rounded\" margin=\"0.14,0.06\"]\n"
        "  edge [fontname=Helvetica fontsize=9 color=\"#6b7280\" fontcolor=\"#6b7280\" arrowsize=0.7]\n";
    for (ValueId id = 0; id < g_.nodes.size(); ++id) value(id);
    for (std::size_t i = 0; i < g_.stores.size(); ++i) store(i);
    return out_ + "}\n";
  }

 private:
  void draw(const std::string& key, const Node& x) {
    const Look look = look_of(x);
    std::string label = escaped(label_of(x));
    if (!x.name.empty() && x.op != Op::operand) label = fmt::format("{} = {}", escaped(x.name), label);
    const bool is_effect = x.op == Op::call && !g_.functions.at(x.attr.name)->returns_value;
    out_ += fmt::format("  {} [label=\"{}\" shape={} fillcolor=\"{}\" color=\"{}\"{}]\n", key, label, look.shape,
                        look.fill, look.border, is_effect ? " peripheries=2" : "");
  }

  void edge(ValueId from, const std::string& to, const std::string& role) {
    const Node& x = g_[from];
    std::string key = fmt::format("v{}", from);
    if (is_drawn_at_use(x)) {
      key = fmt::format("c{}", ++copies_);
      draw(key, x);
    }
    const bool says_its_type = ir::info(x.op).op_class == ir::OpClass::leaf;
    std::string label = says_its_type ? "" : type_of(x);
    if (!role.empty()) label += (label.empty() ? "" : "\\n") + role;
    out_ += fmt::format("  {} -> {} [label=\"{}\"]\n", key, to, label);
  }

  void value(ValueId id) {
    const Node& x = g_[id];
    if (is_drawn_at_use(x)) return;
    const std::string key = fmt::format("v{}", id);
    draw(key, x);
    for (std::size_t i = 0; i < x.inputs.size(); ++i) edge(x.inputs[i], key, role_of(x, i));
  }

  void store(std::size_t i) {
    const Store& s = g_.stores[i];
    const std::string key = fmt::format("s{}", i);
    out_ += fmt::format(
        "  {} [label=\"store {} : {}\" shape=box style=\"filled,bold\" fillcolor=\"#dcfce7\" color=\"#15803d\"]\n", key,
        escaped(s.name), to_string(s.dtype));
    edge(s.value, key, std::string(to_string(s.form)));
  }

  const Graph& g_;
  std::string out_;
  std::size_t copies_ = 0;
};

}  // namespace

std::string to_dot(const Graph& graph, std::string_view title) { return Drawing(graph).run(title); }

}  // namespace unisono
