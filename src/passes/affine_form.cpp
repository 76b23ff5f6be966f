#include "passes/affine_form.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ir/infer.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

bool is_column(const Axes& a) { return a.row != RowAxis::m; }

ValueId append(Graph& g, Op op, std::vector<ValueId> inputs) {
  std::vector<const Node*> nodes;
  nodes.reserve(inputs.size());
  for (const ValueId in : inputs) nodes.push_back(&g[in]);
  const auto type = ir::infer(op, nodes, {}, {});
  Node node;
  node.op = op;
  node.dtype = type.dtype;
  node.axes = type.axes;
  node.inputs = std::move(inputs);
  g.nodes.push_back(std::move(node));
  return static_cast<ValueId>(g.nodes.size() - 1);
}

// Follows the result through products with columns (of a row: with what its statistics give) and one sum with such, as
// long as each has one user
class Chain {
 public:
  Chain(Graph& g, Affine& norm, bool of_rows) : g_(g), norm_(norm), of_rows_(of_rows) {}

  void follow(std::optional<ValueId> first) {
    if (norm_.mean || norm_.variance) norm_.result = difference();
    for (auto user = first ? first : only_user(norm_.result); user && take(*user);) user = only_user(norm_.result);
  }

 private:
  ValueId difference() {
    if (!norm_.mean) {  // only the variance is asked for
      Node mean = g_[*norm_.variance];
      mean.op = Op::mean;
      mean.name.clear();
      g_.nodes.push_back(std::move(mean));
      norm_.mean = static_cast<ValueId>(g_.nodes.size() - 1);
    }
    for (ValueId id = 0; id < g_.nodes.size(); ++id)
      if (g_[id].op == Op::sub && g_[id].inputs == std::vector{norm_.input, *norm_.mean} && g_[id].dtype == DType::f32)
        return id;
    return append(g_, Op::sub, {norm_.input, *norm_.mean});  // nothing normalises: only statistics are asked for
  }

  std::optional<ValueId> only_user(ValueId id) const {
    std::optional<ValueId> user;
    for (const Store& s : g_.stores)
      if (s.value == id) return {};
    for (ValueId u = 0; u < g_.nodes.size(); ++u)
      for (const ValueId in : g_[u].inputs) {
        if (in != id) continue;
        if (user) return {};
        user = u;
      }
    return user;
  }

  // What factor and shift may be made of. Of a row they know its mean, its variance and scalars: columns come after.
  bool is_operand_column(ValueId id) const {
    const Axes& a = g_[id].axes;
    if (!of_rows_) return is_column(a);
    return a == axes::scalar || (a == axes::m && knows_only_statistics(id));
  }

  bool knows_only_statistics(ValueId id) const {
    if (id == norm_.mean || id == norm_.variance || id == norm_.mean_square || g_[id].axes == axes::scalar) return true;
    const std::vector<ValueId>& in = g_[id].inputs;
    return g_[id].axes == axes::m && !in.empty() &&
           std::all_of(in.begin(), in.end(), [&](ValueId i) { return knows_only_statistics(i); });
  }

  void scale(ValueId by) { norm_.factor = norm_.factor ? append(g_, Op::mul, {*norm_.factor, by}) : by; }

  // Takes the step from the result so far to `user`; false: that is no step
  bool take(ValueId user) {
    const Node node = g_[user];
    if (node.dtype != DType::f32 || norm_.shift) return false;
    const bool first = node.inputs[0] == norm_.result;
    const auto other = [&] { return node.inputs[first ? 1 : 0]; };
    switch (node.op) {
      case Op::mul:
        if (!is_operand_column(other())) return false;
        scale(other());
        break;
      case Op::div:
        if (!first || !is_operand_column(other())) return false;
        scale(append(g_, Op::reciprocal, {other()}));
        break;
      case Op::add:
      case Op::sub:
        if (!is_operand_column(other()) || (node.op == Op::sub && !first)) return false;
        norm_.shift = node.op == Op::add ? other() : append(g_, Op::neg, {other()});
        break;
      case Op::fma:
        if (node.inputs[2] == norm_.result || !is_operand_column(other())) return false;
        return take_fma(user, other(), node.inputs[2]);
      default: return false;
    }
    norm_.result = user;
    return true;
  }

  bool take_fma(ValueId user, ValueId factor, ValueId summand) {
    scale(factor);
    if (is_operand_column(summand)) {
      norm_.shift = summand;
      norm_.result = user;
      return true;
    }
    // y·factor + an element: the product is the normalised value, the sum comes after it
    const ValueId product = append(g_, Op::mul, {norm_.result, factor});
    g_.nodes[user].op = Op::add;
    g_.nodes[user].inputs = {product, summand};
    norm_.result = product;
    return false;
  }

  Graph& g_;
  Affine& norm_;
  const bool of_rows_;
};

}  // namespace

std::vector<ValueId> Affine::reductions() const {
  std::vector<ValueId> all;
  for (const auto& id : {mean, variance, mean_square, maximum, sum})
    if (id) all.push_back(*id);
  return all;
}

AffineForm affine_form(Graph graph, const Affine& statistics, bool of_rows, std::optional<ValueId> first) {
  Affine part = statistics;
  Chain(graph, part, of_rows).follow(first);
  std::vector<ValueId> all(graph.nodes.size()), place;
  std::iota(all.begin(), all.end(), ValueId{0});
  AffineForm form{in_depth_first_order(graph, all, &place), part};
  form.part.input = place[part.input], form.part.result = place[part.result];
  Affine& p = form.part;
  for (auto* id : {&p.mean, &p.variance, &p.mean_square, &p.maximum, &p.sum, &p.factor, &p.shift})
    if (*id) *id = place[**id];
  return form;
}

}  // namespace unisono::passes
