#include "runtime/cpu/strips/program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "coda/error.hpp"
#include "ir/op_table.hpp"
#include "runtime/cpu/scratch.hpp"
#include "runtime/cpu/strips/program_builder.hpp"

namespace coda::cpu {

namespace {

// Lanes of a block: a handful of registers of this size stay in a first-level cache of 32 KiB
constexpr std::int64_t block_lanes = 1536;

// A mean alone is a sum, which is right for infinities too; beside a variance it comes from the moments
Collect collect_of(Op op, bool beside_variance) {
  switch (op) {
    case Op::sum: return Collect::sum;
    case Op::sum_squares: return Collect::sum_squares;
    case Op::mean: return beside_variance ? Collect::moments : Collect::sum;
    case Op::variance: return Collect::moments;
    case Op::reduce_max: return Collect::largest;
    case Op::reduce_min: return Collect::smallest;
    default: throw InternalError(fmt::format("{} is no reduction", to_string(op)));
  }
}

}  // namespace

ProgramBuilder::ProgramBuilder(const Graph& graph, const passes::Partition& partition, const Tiling& tiling,
                               const Operands& operands, const VectorUnit& unit, Program& program)
    : g_(graph),
      partition_(partition),
      tiling_(tiling),
      operands_(operands),
      unit_(unit),
      p_(program),
      uses_(graph.nodes.size(), 0) {
  for (const Node& x : g_.nodes)
    for (const ValueId in : x.inputs) ++uses_[in];
  for (const Store& s : g_.stores) ++uses_[s.value];
}

std::int64_t ProgramBuilder::width_of(const Axes& a) const {
  return a.col == ColAxis::none ? 1 : a.col == ColAxis::g ? a.groups : p_.extents.cols;
}

void ProgramBuilder::build() {
  const std::int64_t cols = p_.extents.cols;
  p_.block_rows = std::clamp<std::int64_t>(block_lanes / cols, 1, 512);
  plan_kept();
  plan_reductions();
  for (std::size_t s = 0; s < partition_.stages.size(); ++s) build_stage(s);
}

void ProgramBuilder::plan_kept() {
  for (std::size_t s = 0; s < partition_.stages.size(); ++s) {
    for (const ValueId v : partition_.stages[s].values) home_stage_[v] = s;
    for (const ValueId v : partition_.stages[s].kept) {
      if (kept_.contains(v)) continue;
      KeptValue k{v, p_.kept_bytes, width_of(node(v).axes), is_wide(node(v).dtype)};
      kept_[v] = p_.kept.size();
      if (node(v).op == Op::acc) p_.kept_acc = static_cast<int>(p_.kept.size());
      p_.kept_bytes += aligned_size(static_cast<std::size_t>(p_.extents.rows() * k.width) * (k.wide ? 8 : 4));
      p_.kept.push_back(k);
    }
  }
}

// Reductions with the same input and the same way to collect share one accumulation if they agree in shape; each has
// its own result.
void ProgramBuilder::plan_reductions() {
  std::map<std::tuple<ValueId, Collect, std::int64_t>, std::size_t> shared;
  for (const passes::Stage& stage : partition_.stages) {
    for (const ValueId v : stage.reductions) {
      const Node& x = node(v);
      const Node& in = node(x.inputs[0]);
      RowReduction r;
      r.value = v;
      const bool beside_variance = std::any_of(stage.reductions.begin(), stage.reductions.end(), [&](ValueId other) {
        return node(other).op == Op::variance && node(other).inputs == x.inputs &&
               node(other).attr.domain == x.attr.domain;
      });
      r.collect = collect_of(x.op, beside_variance);
      r.input_width = x.attr.domain.cols ? p_.extents.cols : width_of(in.axes);
      r.width = width_of(x.axes);
      r.wide_input = is_wide(in.dtype);
      r.wide = is_wide(x.dtype);
      r.integral = in.dtype == DType::i32 && x.dtype == DType::i32;
      const auto [it, fresh] = shared.try_emplace({x.inputs[0], r.collect, r.input_width}, p_.partial_bytes);
      r.partial_offset = it->second;
      if (fresh) p_.partial_bytes += aligned_size(static_cast<std::size_t>(tiling_.segments()) * r.partial_bytes());
      const std::int64_t run = r.width == 1 ? static_cast<std::int64_t>(scalar_lanes) : r.width;
      const std::int64_t results = x.attr.domain.per_image ? p_.extents.images : 1;
      r.result_offset = p_.reduced_bytes;
      p_.reduced_bytes += aligned_size(static_cast<std::size_t>(results * run) * (r.wide ? 8 : 4));
      reduction_[v] = p_.reductions.size();
      p_.reductions.push_back(r);
    }
  }
}

// A subtraction that the multiply-add after it takes in needs no register of its own
bool ProgramBuilder::can_skip(ValueId v) const {
  if (node(v).op != Op::sub || uses_[v] != 1 || node(v).dtype != DType::f32 || !per_row(node(v).axes)) return false;
  for (ValueId u = v + 1; u < g_.nodes.size(); ++u) {
    const Node& x = node(u);
    if (std::find(x.inputs.begin(), x.inputs.end(), v) == x.inputs.end()) continue;
    if (x.dtype != DType::f32 || !(x.axes == node(v).axes)) return false;
    const auto stage = home_stage_.find(u);
    if (stage == home_stage_.end() || stage->second != stage_) return false;
    return (x.op == Op::fma || x.op == Op::mul) && (x.inputs[0] == v || x.inputs[1] == v) && x.inputs[0] != x.inputs[1];
  }
  return false;
}

void ProgramBuilder::build_stage(std::size_t index) {
  stage_ = index;
  p_.stages.emplace_back();
  out_ = &p_.stages.back();
  registers_.clear();
  top_ = 0;
  const passes::Stage& stage = partition_.stages[index];
  std::map<std::size_t, bool> accumulated;
  for (const ValueId v : stage.values) {
    const auto r = reduction_.find(v);
    if (r == reduction_.end()) {
      const bool once =
          node(v).op == Op::call && !per_row(node(v).axes) && !g_.functions.at(node(v).attr.name)->returns_value;
      if (!once && !can_skip(v)) compute(v);  // effects without rows wait for the end of the stage
      continue;
    }
    out_->reductions.push_back(r->second);
    if (accumulated.try_emplace(p_.reductions[r->second].partial_offset, true).second)
      accumulate(v, p_.reductions[r->second]);
  }
  for (const ValueId v : stage.kept)
    if (node(v).op == Op::acc) out_->reads_acc = true;
  for (const std::size_t s : stage.stores)
    if (per_row(node(g_.stores[s].value).axes)) store(s);
  p_.register_bytes = std::max(p_.register_bytes, top_);
  finish_stores(stage, *out_);
  p_.register_bytes = std::max(p_.register_bytes, top_);
}

// Outputs without rows are written once the stage is done; what they are computed from is computed again there, which
// costs one run of lanes an image
void ProgramBuilder::finish_stores(const passes::Stage& stage, StageProgram& out) {
  StageProgram finish;
  bool any = false;
  for (const std::size_t s : stage.stores) any |= !per_row(node(g_.stores[s].value).axes);
  for (const std::size_t e : stage.effects) any |= !per_row(node(g_.effects[e]).axes);
  if (!any) return;
  registers_.clear();
  out_ = &finish;
  for (const ValueId v : stage.values)
    if (!per_row(node(v).axes) && !reduction_.contains(v) && node(v).op != Op::call) compute(v);
  // calls without rows: one for each element of their own axes
  for (const ValueId v : stage.values)
    if (!per_row(node(v).axes) && node(v).op == Op::call) compute(v);
  for (const std::size_t s : stage.stores)
    if (!per_row(node(g_.stores[s].value).axes)) store(s);
  out.finish = std::move(finish.per_strip);
  out_ = &out;
}

void make_program(Program& program, const Graph& graph, const passes::Partition& partition, const Tiling& tiling,
                  const Operands& operands, const VectorUnit& unit) {
  program.extents = tiling.extents();
  ProgramBuilder(graph, partition, tiling, operands, unit, program).build();
}

}  // namespace coda::cpu
