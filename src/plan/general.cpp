#include "plan/general.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op_table.hpp"
#include "passes/common_subexpressions.hpp"
#include "passes/editor.hpp"
#include "plan/columns.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

using Place = Output::Place;

bool is_full(const Node& x) { return x.axes == axes::mn; }
bool is_row(const Node& x) { return x.axes == axes::m; }
bool is_grouped(const Node& x) { return x.axes.row == RowAxis::m && x.axes.col == ColAxis::g; }
bool has_rows(const Node& x) { return x.axes.row == RowAxis::m; }
bool is_short(DType t) { return t == DType::bf16 || t == DType::f16; }
bool over_rows(const Node& x) { return ir::is_reduction(x.op) && x.attr.domain.rows; }
bool over_channels(const Node& x) { return ir::is_reduction(x.op) && !x.attr.domain.rows; }

/// For each value, whether one that `is_root` is among what it is computed from (itself included).
template <class IsRoot>
std::vector<bool> depending(const Graph& g, IsRoot is_root) {
  std::vector<bool> depends(g.nodes.size());
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    depends[id] = is_root(g[id]) || std::ranges::any_of(g[id].inputs, [&](ValueId in) { return depends[in]; });
  return depends;
}

// A row's variance in two passes, so that a large common offset costs no bits: mean, then mean((x - mean)²)
Graph split_row_variances(const Graph& graph) {
  passes::Editor g(graph);
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const Node x = graph[id];
    if (x.op != Op::variance || !over_channels(x) || !is_full(graph[x.inputs[0]])) continue;
    const ValueId mean = g.add(Op::mean, {x.inputs[0]}, x.attr);
    g.replace(id, g.add(Op::mean, {g.add(Op::square, {g.add(Op::sub, {x.inputs[0], mean})})}, x.attr));
  }
  return std::move(g).finish();
}

class Analysis {
 public:
  Analysis(const Graph& optimised, const Extents& extents) : extents_(extents) {
    e_.graph = passes::common_subexpressions(split_row_variances(gather_columns(optimised)));
    e_.general.emplace().columns = extents.cols;
    const Graph& g = e_.graph;
    late_ = depending(g, over_rows);
    find_returned();
    level_.resize(g.nodes.size());
    for (ValueId id = 0; id < g.nodes.size(); ++id) {
      check(id);
      for (const ValueId in : g[id].inputs) level_[id] = std::max(level_[id], level_[in]);
      if (over_channels(g[id]) || returned_[id]) ++level_[id];
    }
  }

  Epilogue run() && {
    place_levels();
    place_stores();
    place_effects();
    for (const ValueId id : stored_) place_fold(id);
    read_leaves();
    General& general = *e_.general;
    const bool others = general.reduces_groups() || general.returns();
    general.row_waits = general.reduces_rows() && (general.row_waits || others);
    general.level_of = level_;
    general.late = late_;
    for (const Node& x : e_.graph.nodes) general.per_image |= x.axes.row == RowAxis::b;
    for (const General::Domain& d : general.domains) general.per_image |= d.per_image;
    for (const auto& level : general.returned)
      for (const General::Domain& d : level) general.per_image |= d.per_image;
    return std::move(e_);
  }

 private:
  void check(ValueId id) const {
    const Graph& g = e_.graph;
    const Node& x = g[id];
    if (x.dtype == DType::f64) refuse(g, id, "f64 arithmetic");
    if (ir::is_normalisation(x.op) || x.op == Op::softmax)
      throw InternalError(
          fmt::format("{} has not been split: analyse() takes graphs that went through the passes", to_string(x.op)));
    if (ir::is_reduction(x.op)) check_reduction(id);
  }

  // The reductions over rows that values of elements or rows are computed from
  void find_returned() {
    const Graph& g = e_.graph;
    returned_.resize(g.nodes.size());
    std::vector<bool> seen(g.nodes.size());
    std::vector<ValueId> pending;
    for (const Node& x : g.nodes)
      if (has_rows(x)) pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (has_rows(g[id]) || !late_[id] || seen[id]) continue;
      seen[id] = true;
      if (over_rows(g[id]))
        returned_[id] = true;
      else
        pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
    }
  }

  void check_reduction(ValueId id) const {
    const Graph& g = e_.graph;
    const Node &x = g[id], &in = g[x.inputs[0]];
    const ReduceDomain& d = x.attr.domain;
    const bool by_element = is_full(in) || is_grouped(in) || returned_[id];  // other rows are reduced as rows
    if (!has_rows(in) || (d.cols && !by_element) || (is_grouped(in) && d.rows && !d.cols && !returned_[id]))
      refuse(g, id, fmt::format("a reduction of a value with axes {}", to_string(in.axes)));
    if (x.dtype == DType::i32 || x.dtype == DType::boolean)
      refuse(g, id, fmt::format("a reduction in {}: cast its input to f32", to_string(x.dtype)));
    if (d.cols && extents_.cols % d.groups != 0)
      throw UserError(
          fmt::format("a reduction over {} groups of {} channels: the groups must divide the channels; "
                      "choose one of the divisors of {}",
                      d.groups, extents_.cols, extents_.cols));
    if (!d.rows && d.groups != 1 && extents_.cols / d.groups > widest_group)
      refuse(g, id,
             fmt::format("a reduction over each of {} groups of {} channels; a tile has all of a group, {} at most",
                         d.groups, extents_.cols / d.groups, widest_group));
    if (!d.cols && is_row(in) && x.op == Op::variance && !returned_[id]) refuse(g, id, "a variance of a value per row");
  }

  void place_levels() {
    General& general = *e_.general;
    for (ValueId id = 0; id < e_.graph.nodes.size(); ++id) {
      if (!over_channels(e_.graph[id]) && !returned_[id]) continue;
      const auto level = static_cast<std::size_t>(level_[id] - 1);
      if (general.levels.size() <= level)
        general.levels.resize(level + 1), general.group_levels.resize(level + 1), general.returned.resize(level + 1);
      if (over_channels(e_.graph[id]))
        (is_grouped(e_.graph[id]) ? general.group_levels : general.levels)[level].push_back(id);
      if (level > 0) general.row_waits = true;
    }
    // Variances first: the mean of the same values comes with them
    for (const bool variances : {true, false})
      for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
        if (returned_[id] && (e_.graph[id].op == Op::variance) == variances) place_returned(id);
  }

  void place_returned(ValueId id) {
    const Graph& g = e_.graph;
    const Node& x = g[id];
    const ReduceDomain& d = x.attr.domain;
    const int groups = d.cols ? d.groups : 0;
    auto& domains = e_.general->returned[static_cast<std::size_t>(level_[id] - 1)];
    auto found = std::ranges::find_if(
        domains, [&](const auto& of) { return of.per_image == d.per_image && of.groups == groups; });
    if (found == domains.end())
      found = domains.insert(domains.end(), General::Domain{d.per_image, groups, {}, {}, {}, {}});
    const auto same = [&](ValueId variance) { return g[variance].inputs == x.inputs; };
    if (x.op == Op::variance)
      found->moments.push_back(id), found->means.push_back(id);
    else if (const auto with = std::ranges::find_if(found->moments, same);
             x.op == Op::mean && with != found->moments.end())
      found->means[static_cast<std::size_t>(with - found->moments.begin())] = id;
    else
      found->folds.push_back(id);
  }

  // ---- Results

  void place_stores() {
    const Graph& g = e_.graph;
    std::vector<std::size_t> tiled, direct;
    for (std::size_t i = g.stores.size(); i-- > 0;) {
      const Store& s = g.stores[i];
      check_store(s);
      if (late_[s.value] && !has_rows(g[s.value]))
        place_late(i);
      else if (is_row(g[s.value]))
        e_.outputs.push_back({i, Place::row});
      else if (is_grouped(g[s.value]))
        place_grouped(i);
      else if (!is_full(g[s.value]))
        refuse(g, s.value, fmt::format("a store with axes {} that reads no element", to_string(g[s.value].axes)));
      else
        (is_short(s.dtype) && tiled.size() < 2 ? tiled : direct).push_back(i);
    }
    std::vector<Output> all;
    for (const std::size_t i : tiled) all.push_back({i, Place::after});
    for (const std::size_t i : direct) all.push_back({i, Place::direct});
    e_.outputs.insert(e_.outputs.begin(), all.begin(), all.end());
    for (const Output& o : e_.outputs)
      if (o.place == Place::after || o.place == Place::direct) roots_.push_back(g.stores[o.store].value);
  }

  // A row's lanes store it, which know no columns that came of other rows
  void place_grouped(std::size_t store) {
    const Graph& g = e_.graph;
    std::vector<ValueId> pending{g.stores[store].value};
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (is_row(g[id]) || over_channels(g[id])) continue;
      if (!has_rows(g[id]) && late_[id])
        refuse(g, g.stores[store].value, "it is stored for groups of a row's channels and reads a reduction over rows");
      pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
    }
    e_.outputs.push_back({store, Place::grouped});
  }

  void check_store(const Store& s) const {
    constexpr DType served[] = {DType::bf16, DType::f16, DType::f32, DType::i32, DType::boolean};
    if (std::ranges::find(served, s.dtype) == std::end(served))
      refuse(e_.graph, s.value,
             fmt::format("results are bf16, f16, f32, i32 or bool, and {} is {}", s.name, to_string(s.dtype)));
  }

  General::Domain& domain_of(ValueId reduction) {
    const ReduceDomain& d = e_.graph[reduction].attr.domain;
    const bool per_image = d.per_image;
    const int groups = d.cols || is_row(e_.graph[e_.graph[reduction].inputs[0]]) ? d.groups : 0;
    auto& domains = e_.general->domains;
    const auto found =
        std::ranges::find_if(domains, [&](const auto& x) { return x.per_image == per_image && x.groups == groups; });
    if (found != domains.end()) return *found;
    return domains.emplace_back(General::Domain{per_image, groups, {}, {}, {}});
  }

  // A function of reductions that share what they run over
  void place_late(std::size_t store) {
    const Graph& g = e_.graph;
    const ValueId value = g.stores[store].value;
    General::Domain* domain = nullptr;
    std::vector<ValueId> pending{value};
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (!late_[id]) continue;
      if (!over_rows(g[id])) {
        pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
        continue;
      }
      stored_.insert(id);
      const auto before = domain == nullptr ? std::ptrdiff_t{-1} : domain - e_.general->domains.data();
      domain = &domain_of(id);
      if (before >= 0 && domain != e_.general->domains.data() + before)
        refuse(g, value, "it combines reductions that run over different rows or channels");
    }
    const Axes own = domain->groups == 0  ? Axes{RowAxis::none, ColAxis::n}
                     : domain->groups > 1 ? Axes{RowAxis::none, ColAxis::g, domain->groups}
                                          : Axes{};
    const Axes expected{domain->per_image ? RowAxis::b : RowAxis::none, own.col, own.groups};
    if (!(g[value].axes == expected))
      refuse(g, value,
             fmt::format("functions of reductions are stored with their axes {}, not {}", to_string(expected),
                         to_string(g[value].axes)));
    domain->stores.push_back(store);
    e_.outputs.push_back({store, Place::reduced});
  }

  void place_fold(ValueId id) {
    General::Domain& d = domain_of(id);
    (e_.graph[id].op == Op::variance ? d.moments : d.folds).push_back(id);
    const ValueId in = e_.graph[id].inputs[0];
    const bool of_rows = is_row(e_.graph[in]), channels = e_.graph[id].attr.domain.cols;
    if ((of_rows && (channels || e_.graph[id].op == Op::variance)) || (is_grouped(e_.graph[in]) && !channels))
      refuse(e_.graph, id,
             fmt::format("it is stored, a reduction of a value with axes {}", to_string(e_.graph[in].axes)));
    if (!of_rows)
      roots_.push_back(in);
    else if (!e_.general->levels.empty())
      e_.general->row_waits =
          true;  // rows end once, with what they add to this: when their own reductions are complete
  }

  void place_effects() {
    const Graph& g = e_.graph;
    for (const ValueId id : g.effects) {
      if (is_full(g[id]))
        roots_.push_back(id);
      else if (!is_row(g[id]))
        refuse(g, id, fmt::format("a function called for its effect with axes {}", to_string(g[id].axes)));
    }
  }

  // ---- What elements read

  void read_leaves() {
    for (const auto* lists : {&e_.general->levels, &e_.general->group_levels})
      for (const auto& level : *lists)
        for (const ValueId id : level) roots_.push_back(e_.graph[id].inputs[0]);
    for (const auto& level : e_.general->returned)
      for (const General::Domain& d : level)
        for (const auto* list : {&d.folds, &d.moments})
          for (const ValueId id : *list) roots_.push_back(e_.graph[id].inputs[0]);
    std::set<ValueId> seen, columns, tensors;
    std::vector<ValueId> pending = roots_;
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      const Node& x = e_.graph[id];
      if (!seen.insert(id).second || x.op == Op::acc || (x.axes == axes::scalar && !late_[id])) continue;
      if (is_row(x)) {
        if (level_[id] > 0) e_.general->row_waits = true;
      } else if (is_grouped(x)) {
        if (!over_channels(x)) pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
      } else if (!is_full(x)) {
        if (x.op != Op::index || x.attr.coordinate != Coordinate::n) columns.insert(id);
      } else if (x.op == Op::operand) {
        tensors.insert(id);
      } else {
        pending.insert(pending.end(), x.inputs.begin(), x.inputs.end());
      }
    }
    add_returned_columns(columns);
    e_.columns_after.assign(columns.begin(), columns.end());
    e_.tensors_after.assign(tensors.begin(), tensors.end());
    for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
      if (e_.graph[id].axes == axes::scalar && e_.graph[id].op != Op::constant && !late_[id]) e_.uniforms.push_back(id);
  }

  // What rows read of other rows' reductions, and these themselves if a later level may need them
  void add_returned_columns(std::set<ValueId>& columns) const {
    const Graph& g = e_.graph;
    for (ValueId id = 0; id < g.nodes.size(); ++id) {
      if (returned_[id] && e_.general->levels.size() > 1) columns.insert(id);
      if (!is_row(g[id])) continue;
      for (const ValueId in : g[id].inputs)
        if (!has_rows(g[in]) && late_[in]) columns.insert(in);
    }
  }

  static constexpr std::int64_t widest_group = 256;  // channels of a tile

  Extents extents_;
  Epilogue e_;
  std::vector<bool> late_, returned_;
  std::set<ValueId> stored_;  // reductions over rows
  std::vector<int> level_;
  std::vector<ValueId> roots_;
};

}  // namespace

bool needs_general(const Graph& g) {
  const auto late = depending(g, over_rows);
  std::size_t elements = 0;
  bool beyond = !g.effects.empty();
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (x.axes.row == RowAxis::m && late[id]) return false;  // elements read statistics of many rows
    beyond |= x.op == Op::index || x.op == Op::one_hot || (is_row(x) && x.op == Op::operand);
  }
  for (const Store& s : g.stores) {
    const Node& x = g[s.value];
    beyond |= late[s.value] || is_row(x) || (is_full(x) && !is_short(s.dtype));
    elements += is_full(x) ? 1 : 0;
  }
  return beyond || elements > 2;
}

Epilogue analyse_general(const Graph& optimised, const Extents& extents) { return Analysis(optimised, extents).run(); }

}  // namespace unisono::plan
