#include "runtime/cpu/lower.hpp"
#include "runtime/cpu/combine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/check_graph.hpp"
#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "runtime/cpu/emitter.hpp"
#include "runtime/cpu/registers.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

namespace {

bool is_leaf(const Node& x) { return ir::info(x.op).op_class == ir::OpClass::leaf; }

class Lowering {
 public:
  Lowering(const Graph& graph, const passes::Partition& partition, const Extents& extents,
           const CompileOptions& options, std::int64_t segment_rows);
  Plan run();

 private:
  void find_operands();
  void assign_slots();
  void choose_kept();
  bool recomputable(ValueId v, const std::set<ValueId>& from, std::vector<ValueId>& closure, int budget) const;
  void absorb_normalisations(Emitter& emitter, const std::vector<ValueId>& values) const;
  void lower_leaves();
  void note_last_readers();
  void lower_stage(std::size_t index);
  void lower_uniform(std::size_t index, StagePlan& stage);
  void lower_tile(std::size_t index, StagePlan& stage);
  void lower_stores(std::size_t index, StagePlan& stage, Emitter& emitter);
  void accumulate(Emitter& emitter, StagePlan& stage, const std::vector<ValueId>& reductions);
  void start_accumulation(Emitter& emitter, StagePlan& stage, const Node& reduction, Collect collect,
                          const Accumulation::Result& result);
  bool tiled(ValueId v) const { return g_[v].axes.row == RowAxis::m; }
  bool is_effect(ValueId v) const { return std::find(g_.effects.begin(), g_.effects.end(), v) != g_.effects.end(); }
  int kept_index(ValueId v) const;
  std::int64_t block_rows(const StagePlan& stage) const;

  const passes::Partition& partition_;
  const CompileOptions& options_;
  std::int64_t segment_rows_;
  Plan plan_;
  const Graph& g_;
  std::vector<int> uses_;
  std::vector<std::vector<ValueId>> values_;  // by stage: what its programs compute, in order
};

Lowering::Lowering(const Graph& graph, const passes::Partition& partition, const Extents& extents,
                   const CompileOptions& options, std::int64_t segment_rows)
    : partition_(partition), options_(options), segment_rows_(segment_rows), g_(plan_.graph) {
  plan_.graph = graph;
  plan_.extents = extents;
  uses_ = count_uses(graph);
}

void Lowering::find_operands() {
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    const Node& x = g_[v];
    if (x.op != Op::operand) continue;
    OperandInfo info{x.attr.name,          x.axes,  x.dtype == DType::f64 || !is_float(x.dtype) ? x.dtype : DType::f32,
                     x.attr.default_value, x.dtype, x.attr.rows};
    for (const Node& user : g_.nodes)
      if (user.op == Op::one_hot && user.inputs[0] == v) info.storage = DType::i32;
    if (const auto given = options_.storage.find(x.attr.name); given != options_.storage.end())
      info.storage = given->second;
    if (x.attr.storage) info.storage = *x.attr.storage;
    plan_.operands.push_back(info);
  }
}

// Every value without m gets memory of the run
void Lowering::assign_slots() {
  plan_.slot_of_value.assign(g_.nodes.size(), -1);
  Emitter shapes(plan_, plan_.leaves, false, nullptr);
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    const Node& x = g_[v];
    const bool stored = std::any_of(g_.stores.begin(), g_.stores.end(), [&](const Store& o) { return o.value == v; });
    if (tiled(v) || (x.op == Op::constant && !stored) || uses_[v] == 0) continue;
    UniformSlot slot{shapes.shape_of(x.axes), is_wide(x.dtype), plan_.uniform_bytes};
    plan_.uniform_bytes += array_bytes(slot.shape, slot.wide);
    plan_.slot_of_value[v] = static_cast<int>(plan_.slots.size());
    plan_.slots.push_back(slot);
  }
}

// True if v is a few cheap operations away from `from` and values without m; appends them to the closure, in order
bool Lowering::recomputable(ValueId v, const std::set<ValueId>& from, std::vector<ValueId>& closure, int budget) const {
  const Node& x = g_[v];
  if (from.contains(v) || !tiled(v)) return true;
  const bool cheap = x.op == Op::add || x.op == Op::sub || x.op == Op::mul || x.op == Op::fma || x.op == Op::neg;
  if (budget == 0 || !cheap || is_wide(x.dtype) || is_leaf(x)) return false;
  for (const ValueId in : x.inputs)
    if (!recomputable(in, from, closure, budget - 1)) return false;
  if (std::find(closure.begin(), closure.end(), v) == closure.end()) closure.push_back(v);
  return true;
}

// What goes through memory between stages. Keeping the accumulator itself is free, as the contraction writes it anyway;
// so a value that is an addition away from it (a bias) is computed again rather than kept.
void Lowering::choose_kept() {
  values_.resize(partition_.stages.size());
  for (std::size_t s = 0; s < partition_.stages.size(); ++s) {
    if (s == 0) values_[s] = partition_.uniform;
    values_[s].insert(values_[s].end(), partition_.stages[s].values.begin(), partition_.stages[s].values.end());
  }
  std::set<ValueId> acc;
  for (ValueId v = 0; v < g_.nodes.size(); ++v)
    if (ir::is_accumulator(g_[v].op)) acc.insert(v);
  for (std::size_t s = 0; s < partition_.stages.size(); ++s) {
    for (const ValueId v : partition_.stages[s].kept) {
      std::vector<ValueId> closure;
      if (acc.contains(v)) {
        plan_.keeps_accumulator = true;
      } else if (!acc.empty() && g_[v].axes.col == ColAxis::n && recomputable(v, acc, closure, 3)) {
        plan_.keeps_accumulator = true;
        for (std::size_t later = s + 1; later < values_.size(); ++later) {
          const auto& stage = partition_.stages[later].values;
          const bool reads = std::any_of(stage.begin(), stage.end(), [&](ValueId user) {
            const auto& in = g_[user].inputs;
            return std::find(in.begin(), in.end(), v) != in.end();
          });
          if (!reads) continue;
          for (const ValueId c : closure)
            if (std::find(values_[later].begin(), values_[later].end(), c) == values_[later].end())
              values_[later].push_back(c);
          std::sort(values_[later].begin(), values_[later].end());
        }
        plan_.notes.push_back(fmt::format("{} is computed again from the accumulators instead of kept",
                                          g_[v].name.empty() ? "a value" : g_[v].name));
      } else {
        const std::int64_t cols = g_[v].axes.col == ColAxis::n   ? plan_.extents.cols
                                  : g_[v].axes.col == ColAxis::g ? g_[v].axes.groups
                                                                 : 1;
        plan_.kept.push_back({v, cols, is_wide(g_[v].dtype)});
      }
    }
  }
}

int Lowering::kept_index(ValueId v) const {
  for (std::size_t i = 0; i < plan_.kept.size(); ++i)
    if (plan_.kept[i].value == v) return static_cast<int>(i);
  return -1;
}

// Operands and coordinates without m, and constants that are stored as they are
void Lowering::lower_leaves() {
  Emitter emitter(plan_, plan_.leaves, false, nullptr);
  for (ValueId v = 0; v < g_.nodes.size(); ++v) {
    const Node& x = g_[v];
    if (!is_leaf(x) || plan_.slot_of_value[v] < 0) continue;
    const UniformSlot& slot = plan_.slots[static_cast<std::size_t>(plan_.slot_of_value[v])];
    Instruction i;
    i.kind = x.op == Op::operand ? Kind::load : Kind::coordinate;
    i.coordinate = x.attr.coordinate;
    i.op = x.op;
    if (x.op == Op::constant) {
      i.kind = Kind::lanes;
      i.code = Code::copy;
      i.source = {emitter.get(v, {}, slot.wide)};
    }
    i.result =
        emitter.add_register({.shape = slot.shape, .wide = slot.wide, .home = Home::uniform, .offset = slot.offset});
    for (std::size_t k = 0; k < plan_.operands.size(); ++k)
      if (x.op == Op::operand && plan_.operands[k].name == x.attr.name) i.index = static_cast<int>(k);
    emitter.emit(std::move(i));
  }
}

void Lowering::lower_uniform(std::size_t index, StagePlan& stage) {
  Emitter emitter(plan_, stage.uniform, false, nullptr);
  for (const ValueId v : values_[index]) {
    if (tiled(v) || is_effect(v)) continue;
    const bool over_tiles = ir::is_reduction(g_[v].op) && tiled(g_[v].inputs[0]);
    if (!over_tiles) emitter.value(v);
  }
  for (const std::size_t e : partition_.stages[index].effects)
    if (!tiled(g_.effects[e])) emitter.effect(g_.effects[e]);
}

// sub and mul of a normalisation whose results nothing else reads
void Lowering::absorb_normalisations(Emitter& emitter, const std::vector<ValueId>& values) const {
  const auto here = [&](ValueId v) { return std::find(values.begin(), values.end(), v) != values.end(); };
  const auto inner = [&](ValueId v) {
    return uses_[v] == 1 && here(v) && g_[v].dtype == DType::f32 && tiled(v) && kept_index(v) < 0;
  };
  const auto difference = [&](const Node& product) {  // index of the factor that is a difference; 2: none
    for (std::size_t k = 0; k < 2; ++k)
      if (g_[product.inputs[k]].op == Op::sub && inner(product.inputs[k])) return k;
    return std::size_t{2};
  };
  for (const ValueId v : values) {
    const Node& x = g_[v];
    if (x.dtype != DType::f32 || !tiled(v)) continue;
    if (x.op == Op::add) {
      for (const ValueId in : x.inputs) {
        if (g_[in].op != Op::mul || !inner(in)) continue;
        const std::size_t k = difference(g_[in]);
        if (k == 2) continue;
        emitter.absorb(in);
        emitter.absorb(g_[in].inputs[k]);
        break;
      }
    } else if (x.op == Op::mul || x.op == Op::fma) {
      const std::size_t k = difference(x);
      if (k < 2) emitter.absorb(x.inputs[k]);
    }
  }
}

void Lowering::lower_tile(std::size_t index, StagePlan& stage) {
  const passes::Stage& part = partition_.stages[index];
  std::vector<ValueId> values;
  for (const ValueId v : values_[index])
    if (tiled(v) && !is_effect(v)) values.push_back(v);
  Emitter emitter(plan_, stage.tile, true, &stage.fills);
  for (std::size_t k = 0; k < plan_.kept.size(); ++k) {
    const KeptBuffer& b = plan_.kept[k];
    const Register home{
        .shape = {LaneShape::block, b.cols}, .wide = b.wide, .home = Home::kept, .index = static_cast<int>(k)};
    const bool computed_here = std::find(values.begin(), values.end(), b.value) != values.end();
    if (computed_here)
      emitter.place(b.value, home);
    else
      emitter.bind(b.value, emitter.add_register(home));
  }
  absorb_normalisations(emitter, values);
  for (const ValueId v : values) emitter.value(v);
  accumulate(emitter, stage, part.reductions);
  for (const std::size_t e : part.effects)
    if (tiled(g_.effects[e])) emitter.effect(g_.effects[e]);
  lower_stores(index, stage, emitter);
}

void Lowering::lower_stores(std::size_t index, StagePlan& stage, Emitter& emitter) {
  std::vector<Instruction> stores;
  for (const std::size_t s : partition_.stages[index].stores) {
    const ValueId v = g_.stores[s].value;
    plan_.store_stage[s] = static_cast<int>(index);
    if (!tiled(v)) {
      stage.uniform_stores.push_back(static_cast<int>(s));
      continue;
    }
    Instruction i;
    i.kind = Kind::store;
    i.index = static_cast<int>(s);
    i.source = {emitter.native(v)};
    stores.push_back(std::move(i));
  }
  // what stands in memory that another output may overwrite in place comes first
  std::stable_partition(stores.begin(), stores.end(), [&](const Instruction& i) {
    return stage.tile.registers[static_cast<std::size_t>(i.source[0])].home != Home::scratch;
  });
  for (Instruction& i : stores) emitter.emit(std::move(i));
}

namespace {

Collect collected_by(Op op) {
  switch (op) {
    case Op::variance: return Collect::moments;
    case Op::sum_squares: return Collect::sum_squares;
    case Op::reduce_max: return Collect::largest;
    case Op::reduce_min: return Collect::smallest;
    default: return Collect::sum;
  }
}

}  // namespace

// One accumulation for all statistics of a value over a domain that can share it
void Lowering::accumulate(Emitter& emitter, StagePlan& stage, const std::vector<ValueId>& reductions) {
  std::vector<ValueId> sorted = reductions;  // variance first: its moments give the mean too
  std::stable_partition(sorted.begin(), sorted.end(), [&](ValueId v) { return g_[v].op == Op::variance; });
  for (const ValueId v : sorted) {
    const Node& x = g_[v];
    if (!tiled(x.inputs[0])) continue;
    const Collect collect = collected_by(x.op);
    const auto shares = [&](const Accumulation& a) {
      return a.input == x.inputs[0] && a.domain == x.attr.domain &&
             (a.collect == collect || (x.op == Op::mean && a.collect == Collect::moments));
    };
    const auto shared = std::find_if(stage.accumulations.begin(), stage.accumulations.end(), shares);
    const Accumulation::Result result{x.op, plan_.slot_of_value[v], x.dtype};
    if (shared != stage.accumulations.end())
      shared->outputs.push_back(result);
    else
      start_accumulation(emitter, stage, x, collect, result);
  }
}

void Lowering::start_accumulation(Emitter& emitter, StagePlan& stage, const Node& x, Collect collect,
                                  const Accumulation::Result& result) {
  LaneShape shape = emitter.shape_of(g_[x.inputs[0]].axes);
  if (x.attr.domain.cols) shape.cols = plan_.extents.cols;
  Accumulation a;
  a.input = x.inputs[0];
  a.domain = x.attr.domain;
  a.collect = collect;
  a.wide = is_wide(g_[x.inputs[0]].dtype) || x.dtype == DType::f64;
  a.integer = x.dtype == DType::i32;
  a.cols = shape.cols;
  a.results = x.attr.domain.cols ? x.attr.domain.groups : shape.cols;
  a.outputs.push_back(result);
  Instruction i;
  i.kind = Kind::accumulate;
  i.index = static_cast<int>(stage.accumulations.size());
  i.source = {emitter.get(a.input, shape, a.wide)};
  emitter.emit(std::move(i));
  stage.accumulations.push_back(std::move(a));
}

// Rows of a block: registers of about a thousand lanes, fewer if many are alive, so that all fit an L1 cache
std::int64_t Lowering::block_rows(const StagePlan& stage) const {
  std::int64_t widest = 1;
  for (const Register& r : stage.tile.registers)
    if (r.shape.rows == LaneShape::block) widest = std::max(widest, r.shape.cols);
  const auto alive = static_cast<std::int64_t>(std::max(4, live_registers(stage.tile)));
  const std::int64_t lanes = std::clamp<std::int64_t>(28 * 1024 / (4 * alive), 256, 1024);
  std::int64_t rows = std::max<std::int64_t>(1, lanes / widest);
  // whole vectors: rows·cols a multiple of 16 where that is near
  const std::int64_t step = 16 / std::gcd<std::int64_t>(16, widest);
  if (rows > step)
    rows -= rows % step;
  else if (step * widest <= 2 * lanes)
    rows = step;
  return std::clamp<std::int64_t>(rows, 1, segment_rows_);
}

void Lowering::lower_stage(std::size_t index) {
  StagePlan& stage = plan_.stages.emplace_back();
  lower_uniform(index, stage);
  lower_tile(index, stage);
  combine_lanes(stage.tile);
  stage.block_rows = block_rows(stage);
  stage.walks_tiles = !stage.tile.instructions.empty();
}

void Lowering::note_last_readers() {
  plan_.operand_stage.assign(plan_.operands.size(), -1);
  for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
    for (const Register& r : plan_.stages[static_cast<std::size_t>(s)].tile.registers) {
      if (r.home == Home::operand) plan_.operand_stage[static_cast<std::size_t>(r.index)] = s;
      if (r.home == Home::accumulator) plan_.accumulator_stage = s;
    }
  }
}

Plan Lowering::run() {
  ir::check_groups(g_, plan_.extents.cols);
  find_operands();
  assign_slots();
  choose_kept();
  lower_leaves();
  plan_.store_stage.assign(g_.stores.size(), 0);
  for (std::size_t s = 0; s < partition_.stages.size(); ++s) lower_stage(s);
  for (StagePlan& stage : plan_.stages) {
    allocate_uniform(stage.uniform, plan_);
    allocate_tile(stage.tile, plan_, stage.block_rows);
  }
  note_last_readers();
  return std::move(plan_);
}

}  // namespace

Plan lower(const Graph& graph, const passes::Partition& partition, const Extents& extents,
           const CompileOptions& options, std::int64_t segment_rows) {
  return Lowering(graph, partition, extents, options, segment_rows).run();
}

}  // namespace unisono::cpu
