#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/op_table.hpp"
#include "passes/partition.hpp"
#include "property/check.hpp"

namespace unisono::test {

namespace {

bool is_leaf(const Node& x) { return ir::info(x.op).op_class == ir::OpClass::leaf; }

struct Checked {
  const Graph& g;
  bool whole_rows;
  passes::Partition p;
  std::map<ValueId, int> stage;  // -1: uniform
  std::vector<bool> live;

  bool late(ValueId v) const { return ir::is_reduction(g[v].op) && (g[v].attr.domain.rows || !whole_rows); }

  void find_live() {
    live.assign(g.nodes.size(), false);
    for (const Store& s : g.stores) live[s.value] = true;
    for (const ValueId e : g.effects) live[e] = true;
    for (auto v = g.nodes.size(); v-- > 0;)
      if (live[v])
        for (const ValueId in : g.nodes[v].inputs) live[in] = true;
  }

  std::optional<std::string> each_value_once() {
    for (const ValueId v : p.uniform)
      if (!stage.emplace(v, -1).second) return fmt::format("value {} is uniform twice", v);
    for (int s = 0; s < std::ssize(p.stages); ++s)
      for (const ValueId v : p.stages[s].values)
        if (!stage.emplace(v, s).second) return fmt::format("value {} is computed twice", v);
    for (ValueId v = 0; v < g.nodes.size(); ++v) {
      const bool expected = live[v] && !is_leaf(g[v]);
      if (expected != stage.contains(v))
        return fmt::format("value {} ({}) is {}", v, to_string(g[v].op),
                           expected ? "never computed" : "computed for nothing");
    }
    return {};
  }

  std::optional<std::string> inputs_are_ready() const {
    for (const auto& [v, s] : stage)
      for (const ValueId in : g[v].inputs) {
        if (is_leaf(g[in])) continue;
        const int ready = stage.at(in) + (late(in) ? 1 : 0);
        if (ready > s) return fmt::format("value {} in stage {} reads {} of stage {}", v, s, in, stage.at(in));
      }
    return {};
  }

  // The longest chain of reductions that wait for their stage to end
  int fewest_stages() const {
    std::vector<int> earliest(g.nodes.size(), 0);
    int most = 1;
    for (ValueId v = 0; v < g.nodes.size(); ++v) {
      if (!live[v]) continue;
      for (const ValueId in : g[v].inputs) earliest[v] = std::max(earliest[v], earliest[in] + (late(in) ? 1 : 0));
      most = std::max(most, earliest[v] + 1);
    }
    return most;
  }

  std::optional<std::string> lists_are_right() const {
    std::vector<int> stored(g.stores.size(), 0), called(g.effects.size(), 0);
    int last_effect = 0;
    for (int s = 0; s < std::ssize(p.stages); ++s) {
      const auto& st = p.stages[s];
      if (!std::is_sorted(st.values.begin(), st.values.end())) return fmt::format("stage {} is not in order", s);
      std::vector<ValueId> reductions, kept;
      for (const ValueId v : st.values)
        if (late(v)) reductions.push_back(v);
      if (reductions != st.reductions) return fmt::format("stage {} lists other reductions", s);
      for (ValueId v = 0; v < g.nodes.size(); ++v) {
        const bool here = g[v].op == Op::acc ? s == 0 : stage.contains(v) && stage.at(v) == s;
        if (!here || !live[v] || g[v].axes.row != RowAxis::m) continue;
        const bool later = std::any_of(stage.begin(), stage.end(), [&](const auto& user) {
          const auto& in = g[user.first].inputs;
          return user.second > s && std::find(in.begin(), in.end(), v) != in.end();
        });
        if (later) kept.push_back(v);
      }
      if (kept != st.kept) return fmt::format("stage {} keeps {} values; expected {}", s, st.kept.size(), kept.size());
      for (const auto i : st.stores) {
        const ValueId v = g.stores[i].value;
        ++stored[i];
        const int expected = is_leaf(g[v]) ? 0 : std::max(0, stage.at(v));
        if (s != expected)
          return fmt::format("store {} is in stage {}; its value is in {}", g.stores[i].name, s, expected);
      }
      for (const auto i : st.effects) {
        ++called[i];
        if (stage.at(g.effects[i]) != s) return fmt::format("effect {} is not where it is computed", i);
      }
    }
    for (const ValueId e : g.effects) {
      if (stage.at(e) < last_effect) return "effects changed their order";
      last_effect = stage.at(e);
    }
    if (std::any_of(stored.begin(), stored.end(), [](int n) { return n != 1; })) return "a store is not written once";
    if (std::any_of(called.begin(), called.end(), [](int n) { return n != 1; })) return "an effect is not called once";
    return {};
  }

  std::optional<std::string> uniform_is_uniform() const {
    for (const ValueId v : p.uniform) {
      if (g[v].axes.row == RowAxis::m || g[v].axes.col != ColAxis::none || ir::is_reduction(g[v].op))
        return fmt::format("value {} is not uniform", v);
      for (const ValueId in : g[v].inputs)
        if (!is_leaf(g[in]) && stage.at(in) != -1) return fmt::format("uniform value {} depends on a stage", v);
    }
    return {};
  }
};

}  // namespace

std::optional<std::string> broken_partition(const Graph& graph, bool whole_rows) {
  Checked c{graph, whole_rows, passes::partition(graph, {.whole_rows = whole_rows}), {}, {}};
  c.find_live();
  if (auto broken = c.each_value_once()) return broken;
  if (auto broken = c.inputs_are_ready()) return broken;
  if (auto broken = c.uniform_is_uniform()) return broken;
  if (auto broken = c.lists_are_right()) return broken;
  const bool minimal = c.fewest_stages() >= std::ssize(c.p.stages) || !graph.effects.empty();
  if (!minimal) return fmt::format("{} stages where {} are enough", c.p.stages.size(), c.fewest_stages());
  return {};
}

}  // namespace unisono::test
