#include "plan/normalisation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/infer.hpp"
#include "ir/op_table.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

bool is_column(const Axes& a) { return a.row != RowAxis::m; }
bool is_full_axes(const Axes& a) { return a == axes::mn; }
bool is_pixel(const Axes& a) { return a.row == RowAxis::m && a.col == ColAxis::none; }
bool runs_over_channels(const ReduceDomain& d) { return d.cols && !d.rows; }

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

// ---- Statistics

// Refuses a reduction that the CTAs of a kernel do not share
std::optional<Refusal> refuse_reduction(const Graph& g, ValueId id) {
  const Node& x = g[id];
  const ReduceDomain& d = x.attr.domain;
  if (x.op != Op::mean && x.op != Op::variance)
    return refusal_at(g, id,
                      fmt::format("of reductions, tiles share means and variances only, not {}", to_string(x.op)));
  if (!is_full_axes(g[x.inputs[0]].axes))
    return refusal_at(g, id,
                      fmt::format("statistics are taken of values [m,n], not {}", to_string(g[x.inputs[0]].axes)));
  if (runs_over_channels(d) && d.groups != 1)
    return refusal_at(
        g, id,
        fmt::format("statistics of a pixel run over all its channels (layer_norm), not {} groups of them", d.groups));
  if (x.dtype != DType::f32)
    return refusal_at(g, id, fmt::format("statistics are of dtype f32, not {}", to_string(x.dtype)));
  return std::nullopt;
}

// Mean and variance of one value over one domain; `result` and the affine part are still open
std::optional<Refusal> find_statistics(const Graph& g, std::optional<Normalisation>& norm,
                                       const std::set<ValueId>& others) {
  ReduceDomain domain;
  for (ValueId id = 0; id < g.nodes.size(); ++id) {
    const Node& x = g[id];
    if (!ir::is_reduction(x.op) || others.contains(id)) continue;
    if (auto refusal = refuse_reduction(g, id)) return refusal;
    if (!norm) {
      norm.emplace();
      norm->input = x.inputs[0];
      domain = x.attr.domain;
    }
    if (norm->input != x.inputs[0])
      return refusal_at(g, id,
                        fmt::format("it takes statistics of a second value besides '{}'", text_of(g, norm->input)));
    if (!(domain == x.attr.domain))
      return refusal_at(g, id, "another statistic of the same value runs over other groups");
    (x.op == Op::mean ? norm->mean : norm->variance) = id;
  }
  return std::nullopt;
}

// Tiles then run through the borders between images
std::optional<Refusal> refuse_images(const Graph& g) {
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (g[id].axes.row == RowAxis::b)
      return refusal_at(g, id,
                        "a value of an image, beside statistics over the rows of all images, whose tiles know none");
  return std::nullopt;
}

// ---- From x - mean to y

// Follows x - mean through products with columns (of a pixel: with what its statistics give) and one sum with such, as
// long as each has one user
class Chain {
 public:
  Chain(Graph& g, Normalisation& norm) : g_(g), norm_(norm) {}

  void follow() {
    norm_.result = difference();
    while (const auto user = only_user(norm_.result))
      if (!take(*user)) break;
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

  // What factor and shift may be made of. Of a pixel they know its mean, its variance and scalars: columns come after.
  bool is_operand_column(ValueId id) const {
    const Axes& a = g_[id].axes;
    if (!norm_.per_pixel) return is_column(a);
    return a == axes::scalar || (is_pixel(a) && knows_only_statistics(id));
  }

  bool knows_only_statistics(ValueId id) const {
    if (id == norm_.mean || id == norm_.variance || g_[id].axes == axes::scalar) return true;
    const std::vector<ValueId>& in = g_[id].inputs;
    return is_pixel(g_[id].axes) && !in.empty() &&
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
  Normalisation& norm_;
};

// ---- Order

// Puts every node behind its inputs; new[old id]
std::vector<ValueId> sort(Graph& g) {
  constexpr auto open = std::numeric_limits<ValueId>::max();
  std::vector<ValueId> renumbered(g.nodes.size(), open), pending;
  std::vector<Node> nodes;
  for (ValueId root = 0; root < g.nodes.size(); ++root) {
    pending.push_back(root);
    while (!pending.empty()) {
      const ValueId id = pending.back();
      const auto next =
          std::find_if(g[id].inputs.begin(), g[id].inputs.end(), [&](ValueId in) { return renumbered[in] == open; });
      if (next != g[id].inputs.end()) {
        pending.push_back(*next);
        continue;
      }
      pending.pop_back();
      if (renumbered[id] != open) continue;
      renumbered[id] = static_cast<ValueId>(nodes.size());
      nodes.push_back(g[id]);
    }
  }
  for (Node& x : nodes)
    for (ValueId& in : x.inputs) in = renumbered[in];
  for (Store& s : g.stores) s.value = renumbered[s.value];
  for (ValueId& e : g.effects) e = renumbered[e];
  g.nodes = std::move(nodes);
  return renumbered;
}

}  // namespace

std::vector<bool> depends_on(const Graph& graph, const std::vector<ValueId>& roots) {
  std::vector<bool> depends(graph.nodes.size());
  for (const ValueId r : roots) depends[r] = true;
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    for (const ValueId in : graph[id].inputs)
      if (depends[in]) depends[id] = true;
  return depends;
}

std::optional<Refusal> find_normalisation(Graph& graph, const Extents& extents, std::optional<Normalisation>& norm,
                                          const std::set<ValueId>& others) {
  if (auto refusal = find_statistics(graph, norm, others); refusal || !norm) return refusal;
  const ReduceDomain domain = graph[norm->mean ? *norm->mean : *norm->variance].attr.domain;
  norm->group_channels = domain.cols ? extents.cols / domain.groups : 1;
  norm->per_pixel = runs_over_channels(domain);
  norm->batch = domain.rows && !domain.per_image;
  if (norm->batch)
    if (auto refusal = refuse_images(graph)) return refusal;
  Chain(graph, *norm).follow();
  const auto renumbered = sort(graph);
  const auto move = [&](std::optional<ValueId>& id) {
    if (id) id = renumbered[*id];
  };
  norm->input = renumbered[norm->input];
  norm->result = renumbered[norm->result];
  for (auto* id : {&norm->mean, &norm->variance, &norm->factor, &norm->shift}) move(*id);
  return std::nullopt;
}

}  // namespace unisono::plan
