#include "passes/partition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "passes/min_cut.hpp"
#include "unisono/error.hpp"

namespace unisono::passes {

namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options);
  Partition run();

 private:
  bool leaf(ValueId v) const { return ir::info(g_[v].op).op_class == ir::OpClass::leaf; }
  // Complete only when all tiles of its stage are done
  bool late(ValueId v) const {
    const auto& d = g_[v].attr.domain;
    return ir::is_reduction(g_[v].op) && (d.rows || !options_.whole_rows);
  }
  // Takes memory that grows with the rows if it is kept from one stage to the next
  bool tiled(ValueId v) const { return (!leaf(v) || ir::is_accumulator(g_[v].op)) && g_[v].axes.row == RowAxis::m; }
  bool in_stage(ValueId v) const { return live_[v] && !leaf(v) && !uniform_[v]; }
  std::int64_t weight(ValueId v) const;

  void find_live();
  void find_uniform();
  void assign_earliest();
  std::vector<bool> pinned(int stage) const;
  void delay(int boundary);
  Stage collect(int stage) const;

  const Graph& g_;
  PartitionOptions options_;
  std::vector<bool> live_, uniform_;
  std::vector<int> stage_;
  std::vector<std::vector<ValueId>> users_;
  int stages_ = 1;
};

Partitioner::Partitioner(const Graph& graph, const PartitionOptions& options)
    : g_(graph), options_(options), stage_(graph.nodes.size(), 0), users_(graph.nodes.size()) {}

void Partitioner::find_live() {
  live_.assign(g_.nodes.size(), false);
  for (const Store& s : g_.stores) live_[s.value] = true;
  for (const ValueId e : g_.effects) live_[e] = true;
  for (auto v = static_cast<ValueId>(g_.nodes.size()); v-- > 0;) {
    if (!live_[v]) continue;
    if (const Op op = g_[v].op; ir::is_normalisation(op) || op == Op::softmax)
      throw InternalError(
          fmt::format("partition was given {}; run the pipeline first, which splits it", to_string(op)));
    for (const ValueId in : g_[v].inputs) {
      live_[in] = true;
      users_[in].push_back(v);
    }
  }
}

void Partitioner::find_uniform() {
  uniform_.assign(g_.nodes.size(), false);
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    const Node& x = g_[v];
    const bool effect = std::find(g_.effects.begin(), g_.effects.end(), v) != g_.effects.end();
    const bool small = x.axes.row != RowAxis::m && x.axes.col == ColAxis::none;
    uniform_[v] = !leaf(v) && !effect && small && !ir::is_reduction(x.op) &&
                  std::all_of(x.inputs.begin(), x.inputs.end(), [&](ValueId in) { return leaf(in) || uniform_[in]; });
  }
}

// Every value in the first stage in which its inputs are complete; effects of one element keep their order
void Partitioner::assign_earliest() {
  for (ValueId v = 0; v < g_.nodes.size(); ++v)
    for (const ValueId in : g_[v].inputs)
      if (in_stage(in)) stage_[v] = std::max(stage_[v], stage_[in] + (late(in) ? 1 : 0));
  for (std::size_t i = 1; i < g_.effects.size(); ++i)
    stage_[g_.effects[i]] = std::max(stage_[g_.effects[i]], stage_[g_.effects[i - 1]]);
  for (ValueId v = 0; v < g_.nodes.size(); ++v)
    if (in_stage(v)) stages_ = std::max(stages_, stage_[v] + 1);
}

// Bytes per row, up to a factor, that keeping the value takes; a full row counts as 64 columns
std::int64_t Partitioner::weight(ValueId v) const {
  const Axes& a = g_[v].axes;
  const std::int64_t columns = a.col == ColAxis::n ? 64 : a.col == ColAxis::g ? 8 : 1;
  return columns * static_cast<std::int64_t>(size_of(g_[v].dtype));
}

// Values that cannot leave the stage: its reductions, stores and effects, and what they are computed from
std::vector<bool> Partitioner::pinned(int stage) const {
  std::vector<bool> pin(g_.nodes.size(), false);
  for (const Store& s : g_.stores) pin[s.value] = true;
  for (const ValueId e : g_.effects) pin[e] = true;
  for (auto v = static_cast<ValueId>(g_.nodes.size()); v-- > 0;) {
    if (stage_[v] != stage || !in_stage(v)) pin[v] = false;
    if (in_stage(v) && stage_[v] == stage && (late(v) || !tiled(v))) pin[v] = true;
    if (pin[v])
      for (const ValueId in : g_[v].inputs) pin[in] = true;
  }
  return pin;
}

// Moves values from stage `boundary` to the next where that keeps fewer bytes between the two: a minimum cut. Vertex
// 2v+2 lies on the source's side if v is computed by now, 2v+3 if v is not needed later; the edge between them is the
// price of keeping v.
void Partitioner::delay(int boundary) {
  const auto pin = pinned(boundary);
  const auto computed = [](ValueId v) { return static_cast<int>(2 * v + 2); };
  const auto unneeded = [](ValueId v) { return static_cast<int>(2 * v + 3); };
  const auto movable = [&](ValueId v) { return in_stage(v) && stage_[v] == boundary && !pin[v]; };
  constexpr int source = 0, sink = 1;
  Network network(static_cast<int>(2 * g_.nodes.size() + 2));
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    if (!live_[v] || !tiled(v) || stage_[v] > boundary) continue;
    if (!movable(v)) network.connect(source, computed(v), Network::infinite);
    network.connect(computed(v), unneeded(v), weight(v));
    for (const ValueId user : users_[v]) {
      if (stage_[user] > boundary) network.connect(unneeded(v), sink, Network::infinite);
      if (!movable(user)) continue;
      network.connect(unneeded(v), computed(user), Network::infinite);
      network.connect(computed(user), computed(v), Network::infinite);
    }
  }
  const auto later = network.sink_side(source, sink);
  for (ValueId v = 0; v < g_.nodes.size(); ++v)
    if (movable(v) && later[computed(v)]) stage_[v] = boundary + 1;
}

Stage Partitioner::collect(int stage) const {
  Stage s;
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    if (!live_[v] || stage_[v] != stage) continue;
    if (in_stage(v)) s.values.push_back(v);
    if (in_stage(v) && late(v)) s.reductions.push_back(v);
    const bool read_later =
        std::any_of(users_[v].begin(), users_[v].end(), [&](ValueId user) { return stage_[user] > stage; });
    if (tiled(v) && read_later) s.kept.push_back(v);
  }
  for (std::size_t i = 0; i < g_.stores.size(); ++i)
    if (stage_[g_.stores[i].value] == stage) s.stores.push_back(i);
  for (std::size_t i = 0; i < g_.effects.size(); ++i)
    if (stage_[g_.effects[i]] == stage) s.effects.push_back(i);
  return s;
}

Partition Partitioner::run() {
  find_live();
  find_uniform();
  assign_earliest();
  for (int s = 0; s + 1 < stages_; ++s) delay(s);
  Partition result;
  for (ValueId v = 0; v < g_.nodes.size(); ++v)
    if (live_[v] && uniform_[v]) result.uniform.push_back(v);
  for (int s = 0; s < stages_; ++s) result.stages.push_back(collect(s));
  return result;
}

}  // namespace

Partition partition(const Graph& graph, const PartitionOptions& options) { return Partitioner(graph, options).run(); }

}  // namespace unisono::passes
