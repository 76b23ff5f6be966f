#include "plan/epilogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op_table.hpp"
#include "plan/columns.hpp"
#include "plan/general.hpp"
#include "plan/normalisation.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

using Place = Output::Place;

constexpr std::int64_t widest_tile = 256;  // channels of a matrix instruction

bool is_full(const Node& x) { return x.axes == axes::mn; }

// ---- What no kernel has

void check_node(const Graph& g, ValueId id) {
  const Node& x = g[id];
  if (x.dtype == DType::f64) refuse(g, id, "f64 arithmetic");
  if (x.op == Op::index) refuse(g, id, "coordinates, beside a normalisation over rows");
  if (x.op == Op::one_hot) refuse(g, id, "one_hot, beside a normalisation over rows");
  if (x.op == Op::operand && x.axes.row == RowAxis::m && !is_full(x))
    refuse(g, id, "an operand with a value per row, beside a normalisation over rows");
  if (ir::is_normalisation(x.op) || x.op == Op::softmax)
    throw InternalError(
        fmt::format("{} has not been split: analyse() takes graphs that went through the passes", to_string(x.op)));
}

// After the reductions were judged, which have the better message
void check_axes(const Graph& g, ValueId id) {
  const Axes& a = g[id].axes;
  if (a.row == RowAxis::m && !is_full(g[id])) refuse(g, id, fmt::format("a value with axes {}", to_string(a)));
}

void check_effects(const Graph& g) {
  if (g.effects.empty()) return;
  throw Refused(because(fmt::format(
      "the call of {}, which returns nothing, is not yet in a GPU kernel beside a normalisation over rows. It runs on "
      "the CPU device",
      g[g.effects[0]].attr.name)));
}

// ---- What elements read

// The values that elements are computed from, down to columns, operands [m,n], the accumulator, and whatever `given`
// holds
struct Reads {
  std::set<ValueId> columns, tensors;
  bool accumulator = false, result = false, raw = false;
};

class Reader {
 public:
  Reader(const Graph& g, const std::optional<Normalisation>& norm, const std::vector<bool>& statistical)
      : g_(g), norm_(norm), statistical_(statistical) {}

  // Behind the normalisation y and x are given; ahead of it only the accumulator is
  Reads read(ValueId root, bool behind) const {
    Reads reads;
    std::vector<ValueId> pending{root};
    std::set<ValueId> seen;
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (!seen.insert(id).second) continue;
      if (leaf(id, behind, reads)) continue;
      for (const ValueId in : g_[id].inputs) pending.push_back(in);
    }
    return reads;
  }

 private:
  bool leaf(ValueId id, bool behind, Reads& reads) const {
    const Node& x = g_[id];
    if (behind && norm_ && id == norm_->result) return reads.result = true;
    if (behind && norm_ && id == norm_->input) return reads.raw = true;
    if (x.op == Op::acc) return reads.accumulator = true;
    if (x.axes == axes::scalar && !statistical_[id]) return true;
    if (!is_full(x)) return reads.columns.insert(id), true;
    if (x.op == Op::operand) return reads.tensors.insert(id), true;
    return false;
  }

  const Graph& g_;
  const std::optional<Normalisation>& norm_;
  const std::vector<bool>& statistical_;
};

// ---- Stores

class Analysis {
 public:
  Analysis(const Graph& optimised, const Extents& extents) {
    e_.graph = gather_columns(optimised);
    Graph& g = e_.graph;
    check_effects(g);
    for (ValueId id = 0; id < g.nodes.size(); ++id) check_node(g, id);
    e_.norm = find_normalisation(g, extents);
    if (!e_.norm || !e_.norm->per_pixel)
      for (ValueId id = 0; id < g.nodes.size(); ++id) check_axes(g, id);
    std::vector<ValueId> statistics;
    if (e_.norm)
      for (const auto& id : {e_.norm->mean, e_.norm->variance})
        if (id) statistics.push_back(*id);
    statistical_ = depends_on(g, statistics);
  }

  Epilogue run() && {
    place_full_stores();
    place_statistics();
    const Reader reader(e_.graph, e_.norm, statistical_);
    std::set<ValueId> before, after, tensors_before, tensors_after;
    const auto add = [](const Reads& r, std::set<ValueId>& columns, std::set<ValueId>& tensors) {
      columns.insert(r.columns.begin(), r.columns.end());
      tensors.insert(r.tensors.begin(), r.tensors.end());
    };
    if (e_.norm) add(reader.read(e_.norm->input, false), before, tensors_before);
    for (const Output& o : e_.outputs) {
      const ValueId value = e_.graph.stores[o.store].value;
      if (o.place == Place::before) add(reader.read(value, false), before, tensors_before);
      if (o.place == Place::after) add(reader.read(value, true), after, tensors_after);
    }
    e_.columns_before.assign(before.begin(), before.end());
    e_.columns_after.assign(after.begin(), after.end());
    e_.tensors_before.assign(tensors_before.begin(), tensors_before.end());
    e_.tensors_after.assign(tensors_after.begin(), tensors_after.end());
    for (ValueId id = 0; id < e_.graph.nodes.size(); ++id)
      if (e_.graph[id].axes == axes::scalar && e_.graph[id].op != Op::constant && !statistical_[id])
        e_.uniforms.push_back(id);
    return std::move(e_);
  }

 private:
  // How a store of [m,n] may be computed
  struct Way {
    std::size_t store{};
    bool before = false;               // from the accumulator
    bool raw = false;                  // reads x, too
    std::optional<Refusal> not_after;  // why it cannot be computed from y
  };

  Way way_of(std::size_t store) const {
    const Graph& g = e_.graph;
    const Store& s = g.stores[store];
    if (s.dtype != DType::bf16 && s.dtype != DType::f16)
      refuse(g, s.value, fmt::format("stores [m,n] are bf16 or f16, and {} is {}", s.name, to_string(s.dtype)));
    Way way;
    way.store = store;
    way.before = e_.norm && !statistical_[s.value];
    const Reads reads = Reader(g, e_.norm, statistical_).read(s.value, true);
    way.raw = reads.raw;
    const bool needs_accumulator = reads.accumulator && e_.norm;
    const auto statistic =
        std::find_if(reads.columns.begin(), reads.columns.end(), [&](ValueId c) { return statistical_[c]; });
    if (statistic != reads.columns.end())
      way.not_after = because(
          fmt::format("elements read the statistics '{}' otherwise than by y = (x - mean) * factor + shift, x = '{}'",
                      text_of(g, *statistic), text_of(g, e_.norm->input)));
    else if (needs_accumulator)
      way.not_after =
          because(fmt::format("behind the normalisation it reads what came before it; only '{}' is kept till then",
                              text_of(g, e_.norm->input)));
    else if (reads.raw && e_.norm->per_pixel)
      way.not_after =
          because(fmt::format("behind a normalisation over channels it reads the input '{}', which is not kept",
                              text_of(g, e_.norm->input)));
    return way;
  }

  void place_full_stores() {
    const Graph& g = e_.graph;
    std::vector<Way> ways;
    for (std::size_t i = 0; i < g.stores.size(); ++i)
      if (is_full(g[g.stores[i].value])) ways.push_back(way_of(i));
    if (ways.empty())
      throw Refused(because(
          "no store with axes [m,n]: not yet in a GPU kernel, which writes one or two. It runs on the CPU device"));
    if (ways.size() > 2)
      refuse(g, g.stores[ways[2].store].value,
             fmt::format("it is the third store [m,n] ({}); a kernel writes two", g.stores[ways[2].store].name));
    // The last is the main one, unless only the other can be
    std::reverse(ways.begin(), ways.end());
    for (const Way& w : ways)
      if (w.not_after && !w.before) refuse(g, g.stores[w.store].value, w.not_after->first());
    if (ways.size() == 2 && !fits(ways[0], ways[1])) std::swap(ways[0], ways[1]);
    if (ways.size() == 2 && !fits(ways[0], ways[1])) refuse_pair(ways[0], ways[1]);
    if (ways[0].not_after) refuse(g, g.stores[ways[0].store].value, ways[0].not_after->first());
    e_.outputs.push_back({ways[0].store, Place::after});
    e_.uses_raw = ways[0].raw;
    if (ways.size() == 2) e_.outputs.push_back({ways[1].store, ways[1].before ? Place::before : Place::after});
  }

  // A main store that must come after goes with one that may come before, or that needs no x
  bool fits(const Way& main, const Way& side) const {
    if (main.not_after || (main.before && !side.before)) return false;
    return side.before || (!side.not_after && !side.raw);
  }

  [[noreturn]] void refuse_pair(const Way& main, const Way& side) const {
    const Graph& g = e_.graph;
    refuse(g, g.stores[side.store].value,
           fmt::format("beside '{}', the second store can be computed neither ahead of the normalisation nor from its "
                       "result alone",
                       text_of(g, g.stores[main.store].value)));
  }

  void place_statistics() {
    const Graph& g = e_.graph;
    for (std::size_t i = 0; i < g.stores.size(); ++i) {
      const Store& s = g.stores[i];
      if (is_full(g[s.value])) continue;
      if (!statistical_[s.value])
        refuse(g, s.value,
               fmt::format("a store with axes {} that is no function of the statistics", to_string(g[s.value].axes)));
      if (e_.norm->per_pixel)
        refuse(g, s.value, "a store with a value per row; statistics of a pixel stay in registers");
      const Axes group = reduced_axes(g[*(e_.norm->mean ? e_.norm->mean : e_.norm->variance)].attr.domain);
      if (!(g[s.value].axes == group))
        refuse(g, s.value,
               fmt::format("functions of the statistics are stored with their axes {}, not {}", to_string(group),
                           to_string(g[s.value].axes)));
      if (s.dtype != DType::f32 && s.dtype != DType::bf16 && s.dtype != DType::f16)
        refuse(g, s.value,
               fmt::format("statistics are stored as f32, bf16 or f16, and {} is {}", s.name, to_string(s.dtype)));
      e_.outputs.push_back({i, Place::statistics});
    }
  }

  Epilogue e_;
  std::vector<bool> statistical_;  // depends on mean or variance
};

}  // namespace

bool General::reduces_rows() const {
  return std::ranges::any_of(levels, [](const auto& level) { return !level.empty(); });
}
bool General::reduces_groups() const {
  return std::ranges::any_of(group_levels, [](const auto& level) { return !level.empty(); });
}
bool General::returns() const {
  return std::ranges::any_of(returned, [](const auto& level) { return !level.empty(); });
}

bool Epilogue::side_before() const { return outputs.size() > 1 && outputs[1].place == Place::before; }
bool Epilogue::side_after() const { return outputs.size() > 1 && outputs[1].place == Place::after; }

bool Epilogue::per_image() const {
  const auto reads_image = [this](ValueId id) { return graph[id].axes.row == RowAxis::b; };
  if (general) return general->per_image;
  return (norm && !norm->per_pixel && !norm->batch) ||
         std::any_of(columns_before.begin(), columns_before.end(), reads_image) ||
         std::any_of(columns_after.begin(), columns_after.end(), reads_image);
}

Epilogue analyse(const Graph& optimised, const Extents& extents) {
  if (needs_general(optimised)) return analyse_general(optimised, extents);
  const bool rows_alone =
      std::ranges::none_of(optimised.nodes, [](const Node& x) { return ir::is_reduction(x.op) && x.attr.domain.rows; });
  const bool reduces = std::ranges::any_of(optimised.nodes, [](const Node& x) { return ir::is_reduction(x.op); });
  if (!reduces) return Analysis(optimised, extents).run();
  if (rows_alone && extents.cols > widest_tile) return analyse_general(optimised, extents);
  try {
    return Analysis(optimised, extents).run();  // normalisations have modes of their own
  } catch (const Refused&) {
    return analyse_general(optimised, extents);
  }
}

}  // namespace unisono::plan
