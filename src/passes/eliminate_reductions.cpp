#include "passes/eliminate_reductions.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/attributes.hpp"
#include "ir/op_table.hpp"
#include "passes/editor.hpp"

namespace unisono::passes {

namespace {

// ---- Rows

// x is what remains in the reduction, y what is taken out of it
bool factor_is_uniform(const Match& m) { return is_uniform_along(m.node(1).axes, m.attributes(0).domain); }

std::vector<Row> linear_rows() {
  const Pattern x = any(0), y = any(1);
  std::vector<Row> rows;
  for (const Op op : {Op::sum, Op::mean}) {
    const auto over = [op](const Pattern& p) { return with_attributes(0, op, {p}); };
    rows.push_back(
        {"sum(x*y) -> sum(x)*y and mean, y uniform", over(x * y), over(x) * y, Dtypes::wide, factor_is_uniform});
    rows.push_back(
        {"sum(x/y) -> sum(x)/y and mean, y uniform", over(x / y), over(x) / y, Dtypes::wide, factor_is_uniform});
    rows.push_back({"sum(-x) -> -sum(x) and mean", over(shared(-x)), -over(x)});
  }
  const auto largest = [](const Pattern& p) { return with_attributes(0, Op::reduce_max, {p}); };
  const auto smallest = [](const Pattern& p) { return with_attributes(0, Op::reduce_min, {p}); };
  rows.push_back({"max(-x) -> -min(x)", largest(shared(-x)), -smallest(x)});
  rows.push_back({"min(-x) -> -max(x)", smallest(shared(-x)), -largest(x)});
  return rows;
}

std::vector<Row> moment_rows() {
  const Pattern x = any(0);
  const auto mean = [](const Pattern& p) { return with_attributes(0, Op::mean, {p}); };
  const auto variance = [](const Pattern& p) { return with_attributes(0, Op::variance, {p}); };
  return {
      {"sum(square(x)) -> sum_squares(x)", with_attributes(0, Op::sum, {square(x)}),
       with_attributes(0, Op::sum_squares, {x})},
      // mean and difference may have other users: whatever computes the variance has the mean at hand
      {"mean(square(x - mean(x))) -> variance(x)", mean(square(shared(x - shared(mean(x))))), variance(x)},
      {"mean(square(x)) - square(mean(x)) -> variance(x)", mean(square(x)) - square(shared(mean(x))), variance(x)},
  };
}

// ---- Reductions over axes that a value does not vary along

// Number of points of an index set, as a value of dtype `t`: extents of what `d` runs over
ValueId count(Editor& g, const ReduceDomain& d, DType t) {
  std::optional<ValueId> product;
  const auto times = [&](ValueId v) {
    const ValueId factor = g.add(Op::cast, {v}, {}, t);
    product = product ? g.add(Op::mul, {*product, factor}) : factor;
  };
  if (d.rows && !d.per_image) times(g.extent(Coordinate::m));
  if (d.rows && d.per_image) {
    times(g.extent(Coordinate::h));
    times(g.extent(Coordinate::w));
  }
  if (d.cols) times(g.extent(Coordinate::n));
  if (d.cols && d.groups > 1) product = g.add(Op::mul, {*product, g.constant(1.0 / d.groups)});
  return *product;
}

bool same_value_for_repeats(Op op) {
  return op == Op::mean || op == Op::reduce_max || op == Op::reduce_min || op == Op::variance;
}

// Splits a domain into the part that x varies along and the part that it only repeats along
struct Split {
  ReduceDomain varying, repeating;
};
Split split(const ReduceDomain& d, const Axes& x) {
  Split s{d, {}};
  if (d.rows && is_uniform_along({x.row, ColAxis::none, 0}, {.rows = true, .per_image = d.per_image})) {
    s.varying.rows = s.varying.per_image = false;
    s.repeating.rows = true;
    s.repeating.per_image = d.per_image;
  }
  if (d.cols && is_uniform_along({RowAxis::none, x.col, x.groups}, {.cols = true, .groups = d.groups})) {
    s.varying.cols = false;
    s.varying.groups = 1;
    s.repeating.cols = true;
    s.repeating.groups = d.groups;
  }
  return s;
}

// The reduction `id` without the axes that its input does not vary along, or nothing
std::optional<ValueId> without_repeats(Editor& g, ValueId id) {
  const Node node = g[id];
  const ValueId x = node.inputs[0];
  const ReduceDomain& d = node.attr.domain;
  const auto [varying, repeating] = split(d, g[x].axes);
  if (!repeating.rows && !repeating.cols) return {};
  const bool all = !varying.rows && !varying.cols;
  if (all && node.op == Op::variance) return {};  // 0, but NaN where x is infinite or NaN: left as it is
  if (all && node.op == Op::sum_squares && g[x].dtype != node.dtype) return {};  // x² of a short type would round
  ValueId y = x;
  if (!all) {
    Attributes attr;
    attr.domain = varying;
    y = g.add(node.op, {x}, std::move(attr));
  } else if (node.op == Op::sum_squares) {
    y = g.add(Op::square, {x});
  }
  if (same_value_for_repeats(node.op)) return y;
  if (!is_float(node.dtype)) return {};  // an extent of 2^31 is no i32
  return g.add(Op::mul, {y, count(g, repeating, node.dtype)});
}

// sum(one_hot(label), over=n): a label outside 0 … n - 1, or none of them, gives a row of zeros
std::optional<ValueId> one_hot_sum(Editor& g, ValueId id) {
  const Node node = g[id];
  const Node hot = g[node.inputs[0]];
  const ReduceDomain& d = node.attr.domain;
  if (node.op != Op::sum || hot.op != Op::one_hot || d.rows || d.groups != 1) return {};
  const ValueId label = hot.inputs[0];
  if (g[label].op == Op::constant) return {};
  ValueId inside = g.add(Op::logical_and, {g.add(Op::greater_equal, {label, g.constant(0)}),
                                           g.add(Op::less, {label, g.extent(Coordinate::n)})});
  if (is_float(g[label].dtype))
    inside = g.add(Op::logical_and, {inside, g.add(Op::equal, {label, g.add(Op::cast, {label}, {}, DType::i32)})});
  return g.add(Op::select, {inside, g.constant(1), g.constant(0)});
}

// The sums and variances of a graph by what they reduce and over which elements. A value may have many reductions: to
// ask all its users for each of them would take time in the square of their number.
class Companions {
 public:
  // Those of `op` that reduce the same elements as `mean`; the last if there are several
  std::optional<ValueId> find(const Editor& g, Op op, const Node& mean) {
    index(g);
    const auto [first, last] = by_hash_.equal_range(hash_of(mean));
    std::optional<ValueId> found;
    for (auto it = first; it != last; ++it)
      if (is_companion(g, it->second, op, mean) && (!found || it->second > *found)) found = it->second;
    return found;
  }

 private:
  static std::size_t hash_of(const Node& reduction) { return ir::hash_of(reduction.attr) ^ reduction.inputs[0]; }

  // What was indexed may have been replaced, or have another input by now
  static bool is_companion(const Editor& g, ValueId id, Op op, const Node& mean) {
    return !g.dead(id) && g[id].op == op && g[id].inputs == mean.inputs && ir::same_attributes(g[id].attr, mean.attr);
  }

  void index(const Editor& g) {
    for (; next_ < g.size(); ++next_)
      if (g[next_].op == Op::sum || g[next_].op == Op::variance) by_hash_.emplace(hash_of(g[next_]), next_);
  }

  std::unordered_multimap<std::size_t, ValueId> by_hash_;
  ValueId next_ = 0;  // to be indexed; what is rolled back was added after the last call
};

// mean → sum/count where a sum over the same elements is there and no variance needs the mean anyway
std::optional<ValueId> mean_by_sum(Editor& g, ValueId id, Companions& companions) {
  const Node node = g[id];
  if (node.op != Op::mean || companions.find(g, Op::variance, node)) return {};
  const std::optional<ValueId> sum = companions.find(g, Op::sum, node);
  if (!sum || g[*sum].dtype != node.dtype) return {};
  return g.add(Op::div, {*sum, count(g, node.attr.domain, node.dtype)});
}

// Replaces `id` by what `rewrite` gives if that has its type
template <class Rewrite>
bool try_rewrite(Editor& g, ValueId id, const Rewrite& rewrite) {
  const ValueId first = g.size();
  const auto result = rewrite(g, id);
  if (result && g[*result].dtype == g[id].dtype && g[*result].axes == g[id].axes && g[*result].op != Op::constant) {
    g.replace(id, *result);
    return true;
  }
  g.roll_back(first);
  return false;
}

bool rewrite_all(Editor& g) {
  Companions companions;  // this sweep's: the next begins anew, as inputs change
  const auto by_sum = [&](Editor& e, ValueId id) { return mean_by_sum(e, id, companions); };
  bool changed = false;
  for (ValueId id = 0; id < g.size(); ++id) {
    if (g.dead(id) || !ir::is_reduction(g[id].op)) continue;
    changed |= try_rewrite(g, id, without_repeats) || try_rewrite(g, id, one_hot_sum) || try_rewrite(g, id, by_sum);
  }
  return changed;
}

}  // namespace

bool is_uniform_along(const Axes& a, const ReduceDomain& d) {
  const bool rows = !d.rows || a.row == RowAxis::none || (d.per_image && a.row == RowAxis::b);
  const bool cols = !d.cols || a.col == ColAxis::none ||
                    (a.col == ColAxis::g && d.groups % a.groups == 0);  // its runs hold whole runs of the domain
  return rows && cols;
}

const RowTable& reduction_rows() {
  static const RowTable table({moment_rows(), linear_rows()});
  return table;
}

Graph eliminate_reductions(const Graph& graph) {
  Editor g(graph);
  for (bool changed = true; changed;) {
    changed = apply(reduction_rows(), g);
    changed |= rewrite_all(g);
  }
  return std::move(g).finish();
}

}  // namespace unisono::passes
