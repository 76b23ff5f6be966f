#include <fmt/format.h>

#include <set>

#include "ir/attributes.hpp"
#include "ir/infer.hpp"
#include "ir/leaves.hpp"
#include "ir/names.hpp"
#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "ir/row_coordinates.hpp"
#include "ir/store_forms.hpp"
#include "unisono/error.hpp"
#include "unisono/graph.hpp"

namespace unisono {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : g_(graph) {}

  void run() {
    for (const auto& [name, function] : g_.functions)
      if (!function || function->name != name)
        throw InternalError(fmt::format("function {} is registered under another name", name));
    for (ValueId id = 0; id < g_.nodes.size(); ++id) {
      if (ir::info(g_[id].op).op_class == ir::OpClass::leaf)
        leaf(id);
      else
        node(id);
    }
    stores();
    ir::verify_store_forms(g_);
    effects();
  }

 private:
  [[noreturn]] void broken(ValueId id, const std::string& what) const {
    const Node& x = g_[id];
    throw InternalError(
        fmt::format("node {} ({}{}{}): {}", id, to_string(x.op), x.name.empty() ? "" : " ", x.name, what));
  }

  // The type that a leaf must have
  ir::Inferred leaf_type(const Node& x) const {
    switch (x.op) {
      case Op::acc:
      case Op::acc1: return {DType::f32, axes::mn};
      case Op::index: return {DType::i32, ir::coordinate_axes(x.attr.coordinate)};
      case Op::extent: return {DType::i32, axes::scalar};
      case Op::operand: return {ir::operand_dtype(x.attr.storage), x.axes};
      default: return {DType::f32, axes::scalar};
    }
  }

  void leaf(ValueId id) {
    const Node& x = g_[id];
    if (!x.inputs.empty()) broken(id, "a leaf has no inputs");
    ir::check_attributes(x.op, x.attr);
    if (x.attr.coordinate > Coordinate::w) broken(id, "the coordinate is not one of m, n, b, h and w");
    check_type(id, leaf_type(x));
    if (x.op != Op::operand) return;
    ir::check_identifier(x.attr.name, "operand");
    if (!ir::is_operand_axes(x.axes)) broken(id, fmt::format("an operand cannot have axes {}", to_string(x.axes)));
    if (x.attr.storage && !ir::is_supported(*x.attr.storage)) broken(id, "the fp8 types are reserved");
    if (x.attr.default_value && !ir::takes_default(x.axes)) broken(id, "an operand [m,n] has no default");
    if (!ir::takes_rows(x.axes, x.attr.rows)) broken(id, "an operand without rows has no coordinates of them");
    if (x.attr.strided && !ir::takes_strides(x.axes)) broken(id, "an operand without rows is not strided");
    if (x.attr.default_value && !ir::is_default_of(*x.attr.default_value, x.attr.storage))
      broken(id, fmt::format("the default {} is not a value of {}", ir::number_text(*x.attr.default_value),
                             to_string(*x.attr.storage)));
    if (g_.functions.contains(x.attr.name)) broken(id, fmt::format("{} is a function, too", x.attr.name));
    if (!operands_.insert(x.attr.name).second) broken(id, fmt::format("operand {} appears twice", x.attr.name));
  }

  void node(ValueId id) const {
    const Node& x = g_[id];
    std::vector<const Node*> inputs;
    for (const ValueId in : x.inputs) {
      if (in >= id) broken(id, fmt::format("input {} does not come before it", in));
      if (returns_nothing(g_[in]))
        broken(id, fmt::format("reads the result of {}, which returns nothing", g_[in].attr.name));
      inputs.push_back(&g_[in]);
    }
    if (x.op == Op::call) {
      const auto f = g_.functions.find(x.attr.name);
      if (f == g_.functions.end()) broken(id, fmt::format("calls {}, which is not defined", x.attr.name));
      if (std::ssize(x.inputs) != f->second->input_count())
        broken(id, ir::wrong_arity(x.attr.name, f->second->input_count(), x.inputs.size()));
    }
    check_type(id, ir::infer(x.op, inputs, x.attr, x.dtype));
  }

  void check_type(ValueId id, const ir::Inferred& expected) const {
    const Node& x = g_[id];
    if (!(expected.axes == x.axes))
      broken(id, fmt::format("has axes {}; expected {}", to_string(x.axes), to_string(expected.axes)));
    if (expected.dtype != x.dtype)
      broken(id, fmt::format("has dtype {}; expected {}", to_string(x.dtype), to_string(expected.dtype)));
  }

  bool returns_nothing(const Node& x) const { return x.op == Op::call && !g_.functions.at(x.attr.name)->returns_value; }

  void stores() const {
    std::set<std::string_view> names;
    for (const Store& s : g_.stores) {
      if (s.value >= g_.nodes.size()) throw InternalError(fmt::format("store {} has no value", s.name));
      ir::check_identifier(s.name, "store");
      if (!names.insert(s.name).second) throw InternalError(fmt::format("store {} appears twice", s.name));
      if (returns_nothing(g_[s.value]))
        throw InternalError(fmt::format("store {}: {} returns nothing", s.name, g_[s.value].attr.name));
      if (s.strided && (s.form != StoreForm::whole || !(g_[s.value].axes == axes::mn)))
        throw InternalError(fmt::format("store {} is strided; only a whole one with axes [m,n] can be", s.name));
      if (!ir::is_supported(s.dtype)) throw InternalError(fmt::format("store {}: the fp8 types are reserved", s.name));
    }
  }

  // Each call of a function that returns nothing is an effect, once
  void effects() const {
    std::set<ValueId> called;
    for (const ValueId e : g_.effects) {
      if (e >= g_.nodes.size() || !returns_nothing(g_[e]))
        throw InternalError(fmt::format("effect {} is not a call of a function that returns nothing", e));
      if (!called.insert(e).second) broken(e, "is an effect twice");
    }
    for (ValueId id = 0; id < g_.nodes.size(); ++id)
      if (returns_nothing(g_[id]) && !called.contains(id)) broken(id, "returns nothing and is not an effect");
  }

  const Graph& g_;
  std::set<std::string_view> operands_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace unisono
