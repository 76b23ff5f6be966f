#include "passes/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/attributes.hpp"
#include "ir/number.hpp"
#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {

namespace {

Pattern leaf(Term::Kind kind, int slot, double value) {
  Term t;
  t.kind = kind;
  t.slot = slot;
  t.value = value;
  return std::make_shared<const Term>(std::move(t));
}

Term operation_term(Op op, std::vector<Pattern> inputs) {
  Term t;
  t.kind = Term::Kind::operation;
  t.op = op;
  t.inputs = std::move(inputs);
  return t;
}

bool is_truth(Op op) {
  const auto c = ir::info(op).op_class;
  return c == ir::OpClass::comparison || c == ir::OpClass::logical;
}

}  // namespace

Pattern any(int slot) { return leaf(Term::Kind::any, slot, 0); }
Pattern number(int slot) { return leaf(Term::Kind::number, slot, 0); }
Pattern exactly(double value) { return leaf(Term::Kind::exactly, 0, value); }
Pattern about(double value) { return leaf(Term::Kind::about, 0, value); }

Pattern computed(double (*compute)(const Match&)) {
  Term t;
  t.kind = Term::Kind::computed;
  t.compute = compute;
  return std::make_shared<const Term>(std::move(t));
}

Pattern operation(Op op, std::vector<Pattern> inputs) {
  return std::make_shared<const Term>(operation_term(op, std::move(inputs)));
}

Pattern with_attributes(int slot, Op op, std::vector<Pattern> inputs) {
  Term t = operation_term(op, std::move(inputs));
  t.attributes = slot;
  return std::make_shared<const Term>(std::move(t));
}

Pattern with(Attributes (*make)(const Match&), Op op, std::vector<Pattern> inputs) {
  Term t = operation_term(op, std::move(inputs));
  t.make = make;
  return std::make_shared<const Term>(std::move(t));
}

Pattern shared(const Pattern& p) {
  Term t = *p;
  t.shared = true;
  return std::make_shared<const Term>(std::move(t));
}

/// Depth-first search with backtracking over the orders of commutative operands.
class Matcher {
 public:
  Matcher(const Editor& graph, const Row& row) : graph_(graph), row_(row) {}

  std::optional<Match> run(ValueId root) {
    if (!dtype_allowed(graph_[root].dtype)) return {};
    Match m(graph_, root);
    if (!solve({{row_.from.get(), root}}, m)) return {};
    return found_;
  }

 private:
  struct Goal {
    const Term* term;
    ValueId id;
  };

  bool dtype_allowed(DType t) const {
    switch (row_.dtypes) {
      case Dtypes::wide: return t == DType::f32 || t == DType::f64;
      case Dtypes::floats: return is_float(t);
      case Dtypes::any: return true;
    }
    return false;
  }

  bool solve(std::vector<Goal> goals, Match m) {
    while (!goals.empty()) {
      const Goal goal = goals.back();
      goals.pop_back();
      const Term& term = *goal.term;
      if (term.kind != Term::Kind::operation) {
        if (!bind(term, goal.id, m)) return false;
        continue;
      }
      if (!enter(term, goal.id, m)) return false;
      const auto& in = graph_[goal.id].inputs;
      const bool either_order = operands_commute(term.op) || term.op == Op::min || term.op == Op::max;
      if (either_order && in[0] != in[1]) {
        auto swapped = goals;
        swapped.push_back({term.inputs[0].get(), in[1]});
        swapped.push_back({term.inputs[1].get(), in[0]});
        goals.push_back({term.inputs[0].get(), in[0]});
        goals.push_back({term.inputs[1].get(), in[1]});
        if (in.size() == 3) {  // fma
          swapped.push_back({term.inputs[2].get(), in[2]});
          goals.push_back({term.inputs[2].get(), in[2]});
        }
        return solve(std::move(goals), m) || solve(std::move(swapped), std::move(m));
      }
      for (std::size_t i = 0; i < in.size(); ++i) goals.push_back({term.inputs[i].get(), in[i]});
    }
    if (!unneeded_elsewhere(m) || (row_.condition && !row_.condition(m))) return false;
    found_ = std::move(m);
    return true;
  }

  bool bind(const Term& term, ValueId id, Match& m) const {
    const Node& x = graph_[id];
    const bool is_constant = x.op == Op::constant;
    if (term.kind == Term::Kind::exactly) return is_constant && ir::same_number(x.attr.value, term.value);
    if (term.kind == Term::Kind::about) {
      const double u = m.dtype() == DType::f64 ? 0x1p-52 : 0x1p-24;
      return is_constant && std::abs(x.attr.value - term.value) <= u * std::abs(term.value);
    }
    if (term.kind == Term::Kind::number && !is_constant) return false;
    ValueId& slot = m.values_[static_cast<std::size_t>(term.slot)];
    if (slot == Match::none) slot = id;
    return slot == id;
  }

  // The operation itself, without its inputs
  bool enter(const Term& term, ValueId id, Match& m) const {
    const Node& x = graph_[id];
    if (x.op != term.op || x.inputs.size() != term.inputs.size()) return false;
    if (id != m.root() && is_float(m.dtype()) && !is_truth(x.op) && x.dtype != m.dtype()) return false;
    if (term.attributes >= 0) {
      ValueId& slot = m.attributes_[static_cast<std::size_t>(term.attributes)];
      if (slot != Match::none && !ir::same_attributes(graph_[slot].attr, x.attr)) return false;
      slot = id;
    }
    if (id != m.root()) m.inner_.push_back({id, term.shared});
    return true;
  }

  bool unneeded_elsewhere(const Match& m) const {
    return std::all_of(m.inner_.begin(), m.inner_.end(), [&](const Match::Inner& inner) {
      const auto here = std::count_if(m.inner_.begin(), m.inner_.end(),
                                      [&](const Match::Inner& other) { return other.id == inner.id; });
      return inner.shared || graph_.uses(inner.id) <= here;
    });
  }

  const Editor& graph_;
  const Row& row_;
  std::optional<Match> found_;
};

std::optional<Match> match(const Editor& graph, ValueId root, const Row& row) { return Matcher(graph, row).run(root); }

std::optional<ValueId> instantiate(Editor& graph, const Pattern& pattern, const Match& m) {
  const Term& term = *pattern;
  switch (term.kind) {
    case Term::Kind::any:
    case Term::Kind::number: return m.value(term.slot);
    case Term::Kind::exactly:
    case Term::Kind::about: return graph.constant(term.value);
    case Term::Kind::computed: return graph.constant(term.compute(m));
    case Term::Kind::operation: break;
  }
  std::vector<ValueId> inputs;
  for (const Pattern& in : term.inputs) {
    const auto made = instantiate(graph, in, m);
    if (!made) return {};
    inputs.push_back(*made);
  }
  Attributes attr;
  if (term.attributes >= 0) attr = m.attributes(term.attributes);
  if (term.make) attr = term.make(m);
  return graph.try_add(term.op, std::move(inputs), std::move(attr));
}

RowTable::RowTable(std::initializer_list<std::vector<Row>> groups) : by_op_(op_count) {
  for (const auto& group : groups) rows_.insert(rows_.end(), group.begin(), group.end());
  for (const Row& row : rows_) {
    if (row.from->kind != Term::Kind::operation)
      throw InternalError(fmt::format("the row '{}' does not start at an operation", row.name));
    by_op_[static_cast<std::size_t>(row.from->op)].push_back(&row);
  }
}

namespace {

// Where the new nodes from `first` on stand for `root`: they compute in its dtype, and the result has its type
bool fits(const Editor& graph, ValueId root, ValueId first, ValueId result) {
  const Node& old = graph[root];
  const Node& fresh = graph[result];
  if (fresh.op == Op::constant) return graph.constant_fits(root, fresh.attr.value);
  if (fresh.dtype != old.dtype || !(fresh.axes == old.axes)) return false;
  for (ValueId id = first; id < graph.size(); ++id)
    if (is_float(old.dtype) && graph[id].op != Op::constant && !is_truth(graph[id].op) && graph[id].dtype != old.dtype)
      return false;
  return true;
}

bool try_row(Editor& graph, ValueId root, const Row& row) {
  const auto m = match(graph, root, row);
  if (!m) return false;
  const ValueId first = graph.size();
  const auto result = instantiate(graph, row.to, *m);
  if (result && fits(graph, root, first, *result)) {
    graph.replace(root, *result);
    return true;
  }
  graph.roll_back(first);
  return false;
}

}  // namespace

bool apply(const RowTable& table, Editor& graph, const RowObserver& observer) {
  bool any_fired = false;
  const std::size_t limit = 1000 + 100 * static_cast<std::size_t>(graph.size());
  std::size_t fired = 0;
  for (bool again = true; again;) {
    again = false;
    for (ValueId id = 0; id < graph.size(); ++id) {
      if (graph.dead(id)) continue;
      for (const Row* row : table.rows_for(graph[id].op)) {
        if (!try_row(graph, id, *row)) continue;
        again = any_fired = true;
        if (observer) observer(*row);
        if (++fired > limit)
          throw InternalError(fmt::format("the rows do not come to an end; the last that fired is '{}'", row->name));
        break;
      }
    }
  }
  return any_fired;
}

}  // namespace unisono::passes
