#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "ir/row_coordinates.hpp"
#include "ir/spelling.hpp"
#include "ir/value_names.hpp"
#include "unisono/text.hpp"

namespace unisono {

namespace {

// Binding powers, as in the parser
constexpr int comparison_power = 3, prefix_power = 6, primary_power = 7;

int power_of(Op op) {
  switch (op) {
    case Op::logical_or: return 1;
    case Op::logical_and: return 2;
    case Op::add:
    case Op::sub: return 4;
    case Op::mul:
    case Op::div: return 5;
    case Op::neg:
    case Op::logical_not: return prefix_power;
    default: return ir::info(op).op_class == ir::OpClass::comparison ? comparison_power : primary_power;
  }
}

// A longer expression becomes a statement of its own. This also bounds the nesting of what is printed.
constexpr std::size_t longest_inline = 80;

class Printer {
 public:
  explicit Printer(const Graph& graph)
      : g_(graph),
        products_(product_count(graph)),
        names_(graph),
        texts_(graph.nodes.size()),
        uses_(graph.nodes.size()) {
    for (const Node& x : g_.nodes)
      for (const ValueId in : x.inputs) ++uses_[in];
    for (const Store& s : g_.stores) ++uses_[s.value];
  }

  std::string run() {
    for (ValueId id = 0; id < g_.nodes.size(); ++id)
      if (g_[id].op == Op::operand) declare(id);
    for (ValueId id = 0; id < g_.nodes.size(); ++id) value(id);
    for (const ValueId id : g_.effects) out_ += texts_[id].text + "\n";
    for (std::size_t i = 0; i < g_.stores.size(); ++i) store(i);
    return std::move(out_);
  }

 private:
  struct Text {
    std::string text;
    int power = primary_power;
    std::string name{};  // what a store of it is called by default, if it is a name
  };

  static bool is_declared(const Node& x) { return x.attr.storage || x.attr.default_value || x.attr.strided; }

  void declare(ValueId id) {
    const Node& x = g_[id];
    if (!is_declared(x) && uses_[id] > 0) return;
    out_ += "operand " + x.attr.name;
    if (!(x.axes == axes::scalar)) out_ += ir::operand_axes(x.axes, x.attr.rows);
    if (x.attr.storage) out_ += fmt::format(" : {}", to_string(*x.attr.storage));
    if (x.attr.default_value) out_ += " = " + ir::number_text(*x.attr.default_value);
    if (x.attr.strided) out_ += " strided";
    out_ += "\n";
  }

  void value(ValueId id) {
    const Node& x = g_[id];
    Text& text = texts_[id];
    text = expression(x);
    const bool is_leaf = ir::info(x.op).op_class == ir::OpClass::leaf;
    const bool is_effect = x.op == Op::call && !g_.functions.at(x.attr.name)->returns_value;
    if (is_leaf || is_effect) return;
    std::string name = names_.suggested(id);
    if (name.empty() && uses_[id] == 1 && text.text.size() <= longest_inline) return;
    if (name.empty()) name = names_.next();
    out_ += fmt::format("{} = {}\n", name, text.text);
    text = {name, primary_power, name};
  }

  void store(std::size_t i) {
    const Store& s = g_.stores[i];
    const Text& text = texts_[s.value];
    const bool whole = s.form == StoreForm::whole;
    const bool names_itself = s.name == (text.name.empty() || !whole ? fmt::format("out{}", i) : text.name);
    const std::string stored = whole ? text.text : fmt::format("{}({})", to_string(s.form), text.text);
    out_ += fmt::format("store {}{}{} : {}{}\n", stored, names_itself ? "" : " as ", names_itself ? "" : s.name,
                        to_string(s.dtype), s.strided ? " strided" : "");
  }

  Text expression(const Node& x) const {
    switch (x.op) {
      case Op::acc: return {products_ == 1 ? "acc" : "acc0"};
      case Op::acc1: return {"acc1"};
      case Op::operand: {
        const bool bare = is_declared(x) && x.axes == axes::scalar;
        return {bare ? x.attr.name : x.attr.name + ir::operand_axes(x.axes, x.attr.rows), primary_power, x.attr.name};
      }
      case Op::constant: {
        auto number = ir::number_text(x.attr.value);
        const int power = number[0] == '-' ? prefix_power : primary_power;
        return {std::move(number), power};
      }
      case Op::index:
      case Op::extent: return {fmt::format("{}({})", to_string(x.op), ir::to_string(x.attr.coordinate))};
      case Op::neg:
        if (g_[x.inputs[0]].op == Op::constant) return call(x);  // "-2" would read as a constant
        [[fallthrough]];
      case Op::logical_not:
        return {std::string(ir::info(x.op).symbol) + operand(x.inputs[0], primary_power), prefix_power};
      default: return ir::info(x.op).symbol.empty() ? call(x) : infix(x);
    }
  }

  // The text of an input, in parentheses if it binds less than `power`
  std::string operand(ValueId id, int power) const {
    const Text& t = texts_[id];
    return t.power < power ? fmt::format("({})", t.text) : t.text;
  }

  Text infix(const Node& x) const {
    const int power = power_of(x.op);
    const int left = power == comparison_power ? power + 1 : power;  // comparisons do not chain
    return {fmt::format("{} {} {}", operand(x.inputs[0], left), ir::info(x.op).symbol, operand(x.inputs[1], power + 1)),
            power};
  }

  Text call(const Node& x) const {
    std::vector<std::string> arguments;
    const std::size_t positional = ir::is_normalisation(x.op) ? 1
                                   : x.op == Op::call ? static_cast<std::size_t>(g_.functions.at(x.attr.name)->arity)
                                                      : x.inputs.size();
    for (std::size_t i = 0; i < positional; ++i) arguments.push_back(texts_[x.inputs[i]].text);
    if (x.op == Op::cast) arguments.emplace_back(to_string(x.dtype));
    auto keywords = ir::keyword_texts(x);
    // Values among the keywords stand before the numbers, apart from groups=
    auto at = keywords.begin() + (x.op == Op::group_norm ? 1 : 0);
    if (x.attr.has_shift) at = keywords.insert(at, "shift=" + texts_[x.inputs.back()].text);
    if (x.attr.has_scale) keywords.insert(at, "scale=" + texts_[x.inputs[1]].text);
    arguments.insert(arguments.end(), keywords.begin(), keywords.end());
    return {fmt::format("{}({})", x.op == Op::call ? x.attr.name : to_string(x.op), fmt::join(arguments, ", "))};
  }

  const Graph& g_;
  int products_;
  ir::ValueNames names_;
  std::vector<Text> texts_;  // by value: its text where it is used
  std::vector<std::size_t> uses_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).run(); }

}  // namespace unisono
