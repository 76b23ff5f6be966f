#include "plan/analyse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "plan/general.hpp"
#include "plan/normalisation.hpp"
#include "plan/reads.hpp"
#include "plan/refusal.hpp"
#include "plan/second_pass.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

using StorePath = Output::StorePath;

bool is_full(const Node& x) { return x.axes == axes::mn; }

// ---- What no kernel has

std::optional<Refusal> refuse_node(const Graph& g, ValueId id) {
  const Node& x = g[id];
  if (x.dtype == DType::f64) return refusal_at(g, id, "f64 arithmetic");
  if (x.op == Op::index) return refusal_at(g, id, "coordinates, with a normalisation over rows");
  if (x.op == Op::one_hot) return refusal_at(g, id, "one_hot, with a normalisation over rows");
  if (x.op == Op::operand && x.axes.row == RowAxis::m && !is_full(x))
    return refusal_at(g, id, "an operand with a value per row, with a normalisation over rows");
  if (ir::is_normalisation(x.op) || x.op == Op::softmax)
    throw InternalError(
        fmt::format("{} has not been split: analyse() takes graphs that went through the passes", to_string(x.op)));
  return std::nullopt;
}

std::optional<Refusal> refuse_effects(const Graph& g) {
  if (g.effects.empty()) return std::nullopt;
  return because(fmt::format(
      "the call of {}, which returns nothing, is not yet in a GPU kernel with a normalisation over rows. It runs on "
      "the CPU device",
      g[g.effects[0]].attr.name));
}

// After the reductions were judged, which have the better message
std::optional<Refusal> refuse_axes(const Graph& g, bool of_rows) {
  if (of_rows) return std::nullopt;
  for (ValueId id = 0; id < g.nodes.size(); ++id)
    if (g[id].axes.row == RowAxis::m && !is_full(g[id]))
      return refusal_at(g, id, fmt::format("a value with axes {}", to_string(g[id].axes)));
  return std::nullopt;
}

// ---- Stores

class Analysis {
 public:
  Analysis(const Graph& graph, const Extents& extents, const std::optional<passes::AffineForm>& form)
      : extents_(extents), form_(form) {
    e_.graph = graph;
    e_.channels = extents.cols;
  }

  Expected<Epilogue> run() && {
    for (const auto part : {&Analysis::find_statistics, &Analysis::place_full_stores, &Analysis::place_statistics})
      if (auto refusal = (this->*part)()) return *std::move(refusal);
    find_reads();
    return std::move(e_);
  }

 private:
  std::optional<Refusal> find_statistics() {
    Graph& g = e_.graph;
    if (auto refusal = refuse_effects(g)) return refusal;
    for (ValueId id = 0; id < g.nodes.size(); ++id)
      if (auto refusal = refuse_node(g, id)) return refusal;
    if (auto refusal = find_normalisation(e_, form_)) return refusal;
    if (auto refusal = refuse_axes(g, e_.normalises_rows())) return refusal;
    statistical_ = depends_on(g, e_.norm() ? e_.stages[0].reductions() : std::vector<ValueId>{});
    return std::nullopt;
  }

  void find_reads() {
    const Reader reader(e_, statistical_);
    Reads before, after;
    if (e_.norm()) before.add(reader.read(e_.norm()->input, false));
    for (const Output& o : e_.outputs) {
      const ValueId value = e_.graph.stores[o.store].value;
      if (o.path == StorePath::before) before.add(reader.read(value, false));
      if (o.path == StorePath::after) after.add(reader.read(value, true));
    }
    if (e_.norm()) e_.stages[0].reads = before.listed();
    e_.reads = after.listed();
    for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
      if (e_.graph[id].axes == axes::scalar && e_.graph[id].op != Op::constant && !statistical_[id])
        e_.uniforms.push_back(id);
  }

  // How a store of [m,n] may be computed
  struct Way {
    std::size_t store{};
    bool before = false;               // from the accumulator
    bool raw = false;                  // reads x, too
    std::optional<Refusal> not_after;  // why it cannot be computed from y
    std::optional<Refusal> not_at_all;
  };

  Way way_of(std::size_t store) const {
    const Graph& g = e_.graph;
    const Store& s = g.stores[store];
    Way way;
    way.store = store;
    if (s.dtype != DType::bf16 && s.dtype != DType::f16)
      way.not_at_all =
          refusal_at(g, s.value, fmt::format("stores [m,n] are bf16 or f16, and {} is {}", s.name, to_string(s.dtype)));
    if (s.strided)
      way.not_at_all = refusal_at(g, s.value, fmt::format("{} is a strided store, which TMA does not write", s.name));
    way.before = e_.norm() && !statistical_[s.value];
    const Reads reads = Reader(e_, statistical_).read(s.value, true);
    way.raw = reads.raw;
    const bool needs_accumulator = reads.accumulator && e_.norm();
    const std::set<ValueId> vectors = reads.vectors();
    const auto statistic = std::find_if(vectors.begin(), vectors.end(), [&](ValueId v) { return statistical_[v]; });
    if (statistic != vectors.end())
      way.not_after = because(
          fmt::format("elements read the statistics '{}' otherwise than by y = (x - mean) * factor + shift, x = '{}'",
                      text_of(g, *statistic), text_of(g, e_.norm()->input)));
    else if (needs_accumulator)
      way.not_after =
          because(fmt::format("after the normalisation it reads a value from before it; only '{}' is kept that long",
                              text_of(g, e_.norm()->input)));
    else if (reads.raw && e_.normalises_rows())
      way.not_after =
          because(fmt::format("after a normalisation over channels it reads the input '{}', which is not kept",
                              text_of(g, e_.norm()->input)));
    return way;
  }

  // The ways of the stores [m,n], the main one first: the last, unless only the other can be
  std::optional<Refusal> find_ways(std::vector<Way>& ways) const {
    const Graph& g = e_.graph;
    for (std::size_t i = 0; i < g.stores.size(); ++i)
      if (is_full(g[g.stores[i].value])) ways.push_back(way_of(i));
    for (Way& w : ways)
      if (w.not_at_all) return std::move(w.not_at_all);
    if (ways.empty())
      return because(
          "no store with axes [m,n]: not yet in a GPU kernel, which writes one or two. It runs on the CPU device");
    if (ways.size() > 2) {
      const Store& third = g.stores[ways[2].store];
      return refusal_at(g, third.value,
                        fmt::format("it is the third store [m,n] ({}); a kernel writes two", third.name));
    }
    std::reverse(ways.begin(), ways.end());
    for (const Way& w : ways)
      if (w.not_after && !w.before) return refusal_at(g, g.stores[w.store].value, w.not_after->first());
    if (ways.size() == 2 && !fits(ways[0], ways[1])) std::swap(ways[0], ways[1]);
    return std::nullopt;
  }

  std::optional<Refusal> place_full_stores() {
    const Graph& g = e_.graph;
    std::vector<Way> ways;
    if (auto refusal = find_ways(ways)) return refusal;
    if (ways.size() == 2 && !fits(ways[0], ways[1])) return refuse_pair(ways[0], ways[1]);
    if (ways[0].not_after) return refusal_at(g, g.stores[ways[0].store].value, ways[0].not_after->first());
    e_.outputs.push_back({ways[0].store, StorePath::after});
    e_.uses_raw = ways[0].raw;
    if (ways.size() == 2) e_.outputs.push_back({ways[1].store, ways[1].before ? StorePath::before : StorePath::after});
    return std::nullopt;
  }

  // A main store that must come after goes with one that may come before, or that needs no x
  bool fits(const Way& main, const Way& side) const {
    if (main.not_after || (main.before && !side.before)) return false;
    return side.before || (!side.not_after && !side.raw);
  }

  Refusal refuse_pair(const Way& main, const Way& side) const {
    const Graph& g = e_.graph;
    return refusal_at(
        g, g.stores[side.store].value,
        fmt::format("next to '{}', the second store can be computed neither before the normalisation nor from its "
                    "result alone",
                    text_of(g, g.stores[main.store].value)));
  }

  std::optional<Refusal> place_statistics() {
    const Graph& g = e_.graph;
    for (std::size_t i = 0; i < g.stores.size(); ++i) {
      const Store& s = g.stores[i];
      if (is_full(g[s.value])) continue;
      if (!statistical_[s.value])
        return refusal_at(g, s.value,
                          fmt::format("a store with axes {} that does not depend on the statistics alone",
                                      to_string(g[s.value].axes)));
      if (e_.normalises_rows())
        return refusal_at(g, s.value, "a store with a value per row; statistics of a pixel stay in registers");
      const Axes group = reduced_axes(g[*(e_.norm()->mean ? e_.norm()->mean : e_.norm()->variance)].attr.domain);
      if (!(g[s.value].axes == group))
        return refusal_at(g, s.value,
                          fmt::format("functions of the statistics are stored with their axes {}, not {}",
                                      to_string(group), to_string(g[s.value].axes)));
      if (s.dtype != DType::f32 && s.dtype != DType::bf16 && s.dtype != DType::f16)
        return refusal_at(
            g, s.value,
            fmt::format("statistics are stored as f32, bf16 or f16, and {} is {}", s.name, to_string(s.dtype)));
      e_.outputs.push_back({i, StorePath::statistics});
    }
    return std::nullopt;
  }

  Extents extents_;
  const std::optional<passes::AffineForm>& form_;
  Epilogue e_;
  std::vector<bool> statistical_;  // depends on mean or variance
};

}  // namespace

Expected<Epilogue> analyse(const passes::EpilogueGraphs& graphs, const Extents& extents, const TileLimits& limits) {
  const Graph& optimised = graphs.optimised;
  if (needs_general(optimised)) return analyse_general(graphs.general, extents, limits);
  const bool rows_alone =
      std::ranges::none_of(optimised.nodes, [](const Node& x) { return ir::is_reduction(x.op) && x.attr.domain.rows; });
  const bool reduces = std::ranges::any_of(optimised.nodes, [](const Node& x) { return ir::is_reduction(x.op); });
  if (reduces && rows_alone && extents.cols > limits.channels) return analyse_general(graphs.general, extents, limits);
  auto found = Analysis(graphs.gathered, extents, graphs.moments).run();  // normalisations have modes of their own
  if (found || !reduces) return found;
  return analyse_general(graphs.general, extents, limits);
}

namespace {

// The general epilogue as one normalisation over the channels of rows; nothing: it is none
std::optional<Epilogue> analyse_rows(const passes::EpilogueGraphs& graphs, const Extents& extents,
                                     const TileLimits& limits) {
  if (!graphs.rows && extents.cols <= limits.channels) return {};  // as moments it would have been served so
  auto found = graphs.rows ? Analysis(graphs.rows->graph, extents, graphs.rows).run()
                           : Analysis(graphs.gathered, extents, graphs.moments).run();
  if (!found) found = analyse_row_results(graphs, extents);
  if (!found || !found->normalises_rows()) return {};
  return *std::move(found);
}

}  // namespace

Expected<Forms> analyse_forms(const passes::EpilogueGraphs& graphs, const Extents& extents, const TileLimits& limits) {
  auto usual = analyse(graphs, extents, limits);
  if (!usual) return std::move(usual).refusal();
  Forms forms{{*std::move(usual)}};
  if (forms.list[0].norm()) {
    // For what the modes of normalising do not serve: its input read again in images of any size, two accumulators,
    // rows that TMA does not store; and where mode=general is asked for, since functions then have their vector forms
    if (auto general = analyse_general(graphs.general, extents, limits)) forms.list.push_back(*std::move(general));
  } else if (forms.list[0].general()) {
    if (auto rows = analyse_rows(graphs, extents, limits)) forms.list.push_back(*std::move(rows));
    if (!forms.list[0].returns()) return forms;
    if (auto waits = analyse_exchanged(graphs, extents)) forms.list.push_back(*std::move(waits));
    auto streamed = analyse_second_pass(graphs, extents);
    if (streamed)
      forms.list.push_back(*std::move(streamed));
    else
      forms.not_streamed = streamed.refusal().first();
  }
  return forms;
}

}  // namespace unisono::plan
