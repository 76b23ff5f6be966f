#include <limits>
#include <map>
#include <utility>

#include "ir/attributes.hpp"
#include "ir/op_table.hpp"
#include "unisono/graph.hpp"

namespace unisono {

namespace {

bool is_leaf(const Node& x) { return ir::info(x.op).op_class == ir::OpClass::leaf; }

bool same_node(const Node& x, const Node& y) {
  return x.op == y.op && x.dtype == y.dtype && x.axes == y.axes && x.inputs.size() == y.inputs.size() &&
         ir::same_attributes(x.attr, y.attr);
}

// Pairs the nodes of two graphs one to one, from the roots up
class Matcher {
 public:
  Matcher(const Graph& x, const Graph& y)
      : x_(x), y_(y), partner_of_x_(x.nodes.size(), none), partner_of_y_(y.nodes.size(), none) {}

  bool match(ValueId a, ValueId b) {
    pending_.emplace_back(a, b);
    while (!pending_.empty()) {
      const auto [i, j] = pending_.back();
      pending_.pop_back();
      if (!match_one(i, j)) return false;
    }
    return true;
  }

  // The nodes that no store or effect reaches. Going down, each one met is used by no other that is left
  bool match_dead() {
    auto i = next_dead(x_, partner_of_x_, x_.nodes.size());
    auto j = next_dead(y_, partner_of_y_, y_.nodes.size());
    while (i > 0 && j > 0) {
      if (!match(static_cast<ValueId>(i - 1), static_cast<ValueId>(j - 1))) return false;
      i = next_dead(x_, partner_of_x_, i);
      j = next_dead(y_, partner_of_y_, j);
    }
    return i == 0 && j == 0;
  }

 private:
  static constexpr ValueId none = std::numeric_limits<ValueId>::max();

  bool match_one(ValueId i, ValueId j) {
    if (is_leaf(x_[i])) return same_node(x_[i], y_[j]);
    if (partner_of_x_[i] != none || partner_of_y_[j] != none) return partner_of_x_[i] == j && partner_of_y_[j] == i;
    if (!same_node(x_[i], y_[j])) return false;
    partner_of_x_[i] = j;
    partner_of_y_[j] = i;
    for (std::size_t k = 0; k < x_[i].inputs.size(); ++k) pending_.emplace_back(x_[i].inputs[k], y_[j].inputs[k]);
    return true;
  }

  // One past the last unpaired node before `end`; 0 if there is none
  static std::size_t next_dead(const Graph& g, const std::vector<ValueId>& partner, std::size_t end) {
    while (end > 0 && (partner[end - 1] != none || is_leaf(g.nodes[end - 1]))) --end;
    return end;
  }

  const Graph& x_;
  const Graph& y_;
  std::vector<ValueId> partner_of_x_, partner_of_y_;
  std::vector<std::pair<ValueId, ValueId>> pending_;
};

std::map<std::string, const Node*> operands_of(const Graph& g) {
  std::map<std::string, const Node*> operands;
  for (const Node& x : g.nodes)
    if (x.op == Op::operand) operands.emplace(x.attr.name, &x);
  return operands;
}

bool same_operands(const Graph& x, const Graph& y) {
  const auto a = operands_of(x), b = operands_of(y);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& p, const auto& q) { return p.first == q.first && same_node(*p.second, *q.second); });
}

}  // namespace

bool structurally_equal(const Graph& x, const Graph& y) {
  if (x.stores.size() != y.stores.size() || x.effects.size() != y.effects.size()) return false;
  Matcher matcher(x, y);
  for (std::size_t i = 0; i < x.stores.size(); ++i) {
    const Store &a = x.stores[i], &b = y.stores[i];
    if (a.dtype != b.dtype || a.name != b.name || a.form != b.form || a.strided != b.strided ||
        !matcher.match(a.value, b.value))
      return false;
  }
  for (std::size_t i = 0; i < x.effects.size(); ++i)
    if (!matcher.match(x.effects[i], y.effects[i])) return false;
  return matcher.match_dead() && same_operands(x, y);
}

}  // namespace unisono
