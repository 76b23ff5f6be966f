#include "plan/second_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/node_kinds.hpp"
#include "ir/op_table.hpp"
#include "plan/exchanged.hpp"
#include "plan/normalisation.hpp"
#include "plan/reads.hpp"
#include "plan/refusal.hpp"
#include "plan/stored_folds.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {

namespace {

using ir::depending, ir::has_rows, ir::is_full, ir::is_row, ir::over_rows;
using StorePath = Output::StorePath;

constexpr const char* served_over_pixels =
    "Where an image's tiles do not fit in flight, one normalisation over its pixels is served, with stores "
    "[m,n], values of rows and operands after it, and stored reductions over rows of elements before it or after "
    "it";

constexpr const char* served_over_channels =
    "Over the channels of rows, in one exchange, one normalisation is served, with stores [m,n] and operands "
    "after it, and one store of 16 bits before it";

constexpr const char* served_exchanged =
    "Tiles exchange reductions of any elements over the same rows and groups of channels, for stores [m,n], values of "
    "rows and operands after them, and stored reductions over rows of elements before them or after them";

/// What elements wait for: statistics of a normalisation over an image's pixels, or over the channels of a row; or
/// reductions over rows of several values.
enum class Awaited : std::uint8_t { pixels, channels, reductions };

class SecondPassAnalysis {
 public:
  SecondPassAnalysis(const passes::EpilogueGraphs& graphs, const Extents& extents, Awaited awaited)
      : extents_(extents),
        per_pixel_(awaited == Awaited::channels),
        normalises_(awaited != Awaited::reductions),
        graphs_(graphs),
        form_(per_pixel_ && graphs.rows ? graphs.rows : graphs.moments_beside_stored) {
    e_.graph = !normalises_ ? graphs.general : per_pixel_ && graphs.rows ? graphs.rows->graph : graphs.gathered;
    e_.channels = extents.cols;
    e_.results = Results::any;
  }

  Expected<Epilogue> run() && {
    for (const auto part : {&SecondPassAnalysis::find_statistics, &SecondPassAnalysis::place_stores,
                            &SecondPassAnalysis::place_folds, &SecondPassAnalysis::find_reads})
      if (auto refusal = (this->*part)()) return *std::move(refusal);
    if (!last_.statistics.empty()) e_.stages.push_back(std::move(last_));
    return std::move(e_);
  }

 private:
  const char* served() const {
    return !normalises_ ? served_exchanged : per_pixel_ ? served_over_channels : served_over_pixels;
  }

  Refusal refused(ValueId id, const std::string& why) const {
    return refusal_at(e_.graph, id, fmt::format("{}. {}", why, served()));
  }

  std::optional<Refusal> find_statistics() {
    Graph& g = e_.graph;
    for (ValueId id = 0; id < g.nodes.size(); ++id) {
      if (g[id].dtype == DType::f64) return refused(id, "f64 arithmetic");
      if (g[id].op == Op::one_hot) return refused(id, "one_hot, with a normalisation over the pixels of an image");
    }
    if (auto refusal = normalises_ ? place_normalisation() : place_exchanged())
      return because(fmt::format("{}. {}", refusal->first(), served()));
    statistical_ = depends_on(g, e_.stages[0].reductions());
    late_ = depending(g, over_rows);
    if (per_pixel_ && (!g.effects.empty() || std::ranges::find(late_, true) != late_.end()))
      return because(fmt::format("functions called for their effect, and reductions over rows. {}", served()));
    for (ValueId id = 0; id < g.nodes.size(); ++id)
      if (g[id].axes.row == RowAxis::m && !is_full(g[id]) && (!is_row(g[id]) || (statistical_[id] && !per_pixel_)))
        return refused(id, statistical_[id] ? "a value of a row that reads statistics"
                                            : fmt::format("a value with axes {}", to_string(g[id].axes)));
    return std::nullopt;
  }

  std::optional<Refusal> place_normalisation() {
    if (auto refusal = find_normalisation(e_, form_, graphs_.stored)) return refusal;
    if (!e_.norm() || e_.normalises_rows() != per_pixel_) return because("no such normalisation");
    return std::nullopt;
  }

  std::optional<Refusal> place_exchanged() {
    auto stage = find_exchanged(e_.graph);
    if (!stage) return std::move(stage).refusal();
    e_.stages.push_back(*std::move(stage));
    return e_.exchanged()->batch ? refuse_images(e_.graph) : std::nullopt;
  }

  /// A reduction that is stored: what it runs over, and that its elements are known in one of the passes.
  std::optional<Refusal> refuse_fold(ValueId id) const {
    const Graph& g = e_.graph;
    const Node &x = g[id], &in = g[x.inputs[0]];
    if (!is_full(in)) return refused(id, fmt::format("a stored reduction of a value with axes {}", to_string(in.axes)));
    if (x.dtype == DType::i32 || x.dtype == DType::boolean)
      return refused(id, fmt::format("a reduction in {}: cast its input to f32", to_string(x.dtype)));
    return statistical_[x.inputs[0]] ? refuse_behind(x.inputs[0]) : std::nullopt;
  }

  std::optional<Refusal> place_folds() {
    for (const ValueId id : stored_.found()) {
      if (auto refusal = refuse_fold(id)) return refusal;
      stored_.add(id);
    }
    return std::nullopt;
  }

  /// Why a value [m,n] cannot be computed from y, operands, columns and values of rows.
  std::optional<Refusal> refuse_behind(ValueId value) const {
    const Reads reads = Reader(e_, statistical_).read(value, true);
    if (reads.accumulator || reads.raw)
      return refused(value,
                     fmt::format("after the normalisation it reads a value from before it ('{}'), which is gone by "
                                 "then",
                                 text_of(e_.graph, *e_.ahead())));
    if (!normalises_) return std::nullopt;  // columns are made of them
    for (const ValueId c : reads.vectors())
      if (statistical_[c])
        return refused(value, fmt::format("elements read the statistics '{}' otherwise than by y = (x - mean) * factor "
                                          "+ shift",
                                          text_of(e_.graph, c)));
    return std::nullopt;
  }

  std::optional<Refusal> place_stores() {
    const Graph& g = e_.graph;
    std::vector<std::size_t> behind, ahead;
    for (std::size_t i = g.stores.size(); i-- > 0;) {
      const Store& s = g.stores[i];
      if (!is_full(g[s.value])) {
        if (auto refusal = place_statistic(i)) return refusal;
        continue;
      }
      if (s.strided) return refused(s.value, fmt::format("{} is a strided store", s.name));
      if (!is_short(s.dtype) && s.dtype != DType::f32)
        return refused(
            s.value, fmt::format("stores [m,n] are bf16, f16 or f32 there, and {} is {}", s.name, to_string(s.dtype)));
      (statistical_[s.value] ? behind : ahead).push_back(i);
    }
    if (behind.empty()) return because(fmt::format("nothing after the normalisation is stored. {}", served()));
    if (ahead.size() > 1 || (ahead.size() == 1 && !is_short(g.stores[ahead[0]].dtype)))
      return refused(g.stores[ahead.back()].value,
                     "before the normalisation only one value can be stored, as bf16 or f16");
    for (const std::size_t i : behind)
      if (auto refusal = refuse_behind(g.stores[i].value)) return refusal;
    const auto wide = std::ranges::find_if(behind, [&](std::size_t i) { return g.stores[i].dtype == DType::f32; });
    if (wide != behind.end()) std::rotate(behind.begin(), wide, wide + 1);
    place(behind, ahead);
    return std::nullopt;
  }

  void place(const std::vector<std::size_t>& behind, const std::vector<std::size_t>& ahead) {
    std::vector<Output> all{{behind[0], StorePath::after}};
    for (const std::size_t i : ahead) all.push_back({i, StorePath::before});
    for (std::size_t i = 1; i < behind.size(); ++i) all.push_back({behind[i], StorePath::direct});
    e_.outputs.insert(e_.outputs.begin(), all.begin(), all.end());
  }

  std::optional<Refusal> place_statistic(std::size_t store) {
    const Graph& g = e_.graph;
    const Store& s = g.stores[store];
    if (per_pixel_) return refused(s.value, fmt::format("a store with axes {}", to_string(g[s.value].axes)));
    if (has_rows(g[s.value]) || !late_[s.value])
      return refused(
          s.value,
          fmt::format("a store with axes {}; besides elements, functions of the normalisation's statistics and "
                      "of reductions over rows are stored",
                      to_string(g[s.value].axes)));
    const bool of_statistics = normalises_ && reads_statistics_alone(s.value) &&
                               g[s.value].axes == reduced_axes(g[*e_.norm()->mean].attr.domain);
    if (!is_short(s.dtype) && s.dtype != DType::f32 && (of_statistics || s.dtype == DType::f64))
      return refused(
          s.value, fmt::format("statistics are stored as f32, bf16 or f16, and {} is {}", s.name, to_string(s.dtype)));
    if (!of_statistics)
      if (auto refusal = stored_.place(store)) return because(fmt::format("{}. {}", refusal->first(), served()));
    e_.outputs.push_back({store, of_statistics ? StorePath::statistics : StorePath::reduced});
    return std::nullopt;
  }

  /// Whether it reads no reductions but the normalisation's.
  bool reads_statistics_alone(ValueId value) const {
    const Graph& g = e_.graph;
    std::vector<ValueId> pending{value};
    while (!pending.empty()) {
      const ValueId id = pending.back();
      pending.pop_back();
      if (id == e_.norm()->mean || id == e_.norm()->variance || !late_[id]) continue;
      if (over_rows(g[id])) return false;
      pending.insert(pending.end(), g[id].inputs.begin(), g[id].inputs.end());
    }
    return true;
  }

  std::optional<Refusal> find_reads() {
    const Graph& g = e_.graph;
    const Reader reader(e_, statistical_);
    Reads before, after;
    before.add(reader.read(*e_.ahead(), false));
    if (!normalises_)
      for (const ValueId id : e_.stages[0].reductions()) before.add(reader.read(g[id].inputs[0], false));
    for (const Output& o : e_.outputs) {
      const ValueId value = g.stores[o.store].value;
      if (o.path == StorePath::before) before.add(reader.read(value, false));
      if (o.path == StorePath::after || o.path == StorePath::direct) after.add(reader.read(value, true));
    }
    for (const ValueId id : stored_.found()) {
      const ValueId in = g[id].inputs[0];
      (statistical_[in] ? after : before).add(reader.read(in, statistical_[in]));
    }
    for (const ValueId id : g.effects) {
      if (!is_full(g[id]))
        return refused(id, fmt::format("a function called for its effect with axes {}", to_string(g[id].axes)));
      if (auto refusal = refuse_behind(id)) return refusal;
      after.add(reader.read(id, true));
    }
    if (!before.rows.empty() && !per_pixel_)
      return refused(*before.rows.begin(), "a value of a row before the normalisation");
    e_.stages[0].reads = before.listed();
    after.rows.merge(before.rows);
    e_.reads = after.listed();
    for (ValueId id = 0; id < g.nodes.size(); ++id)
      if (g[id].axes == axes::scalar && g[id].op != Op::constant && !late_[id]) e_.uniforms.push_back(id);
    return std::nullopt;
  }

  Extents extents_;
  bool per_pixel_, normalises_;
  const passes::EpilogueGraphs& graphs_;
  const std::optional<passes::AffineForm>& form_;
  Epilogue e_;
  std::vector<bool> statistical_, late_;  // depends on mean or variance; on any reduction over rows
  Stage last_{.read = false};
  StoredFolds stored_{e_.graph, late_, last_};
};

}  // namespace

Expected<Epilogue> analyse_second_pass(const passes::EpilogueGraphs& graphs, const Extents& extents) {
  return SecondPassAnalysis(graphs, extents, Awaited::pixels).run();
}

Expected<Epilogue> analyse_row_results(const passes::EpilogueGraphs& graphs, const Extents& extents) {
  return SecondPassAnalysis(graphs, extents, Awaited::channels).run();
}

Expected<Epilogue> analyse_exchanged(const passes::EpilogueGraphs& graphs, const Extents& extents) {
  return SecondPassAnalysis(graphs, extents, Awaited::reductions).run();
}

}  // namespace unisono::plan
