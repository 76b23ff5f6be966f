#include "runtime/cpu/tiled_executable.hpp"

#include <algorithm>
#include <functional>

#include "runtime/common/names.hpp"
#include "runtime/cpu/registers.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/fork.hpp"
#include "unisono/cancel.hpp"

namespace unisono::cpu {

/// One worker of one stage.
struct TiledExecutable::Worker {
  std::unique_ptr<Machine> machine;  // made when the worker has its first strip
  std::byte* memory = nullptr;
  std::int64_t image = -1;  // whose uniform values the replicated registers hold
};

/// Arguments in place; may be executed more than once.
struct TiledExecutable::Run {
  Run(const TiledExecutable& executable, const Arguments& a, std::byte* scratch);

  const Arguments& arguments;
  BoundArguments bound;
  std::byte* memory;
  RegisterMemory accumulator;   // for the whole space; base null: each worker has a tile
  RegisterMemory second;        // likewise of a dual product's second
  Arguments second_arguments;   // what that multiplies
  bool computes = false;        // the source still has to fill it
  const float* bias = nullptr;  // that the source adds
  int accumulator_output = -1;  // the store in whose memory it stands
  std::unique_ptr<Machine> leaves;
  std::vector<std::unique_ptr<Machine>> uniform;  // by stage
  std::vector<std::vector<Worker>> workers;       // by stage
};

class TiledExecutable::Bound final : public BoundRegion {
 public:
  Bound(const TiledExecutable& executable, const Arguments& arguments, std::byte* scratch)
      : executable_(executable), arguments_(arguments), run_(executable, arguments_, scratch) {}
  void run() override { executable_.execute(run_); }

 private:
  const TiledExecutable& executable_;
  Arguments arguments_;
  Run run_;
};

namespace {

std::size_t rows_bytes(std::int64_t rows, std::int64_t cols, bool wide) {
  return aligned_size(static_cast<std::size_t>(rows * cols) * (wide ? sizeof(double) : sizeof(float)));
}

// The register that store `s` reads, if it is computed for the tile in float lanes: then it may stand in the output
bool can_be_output(const Program& p, int reg) {
  const Register& r = p.registers[static_cast<std::size_t>(reg)];
  return r.home == Home::scratch && !r.wide && r.shape.rows == LaneShape::block;
}

// Channels first in memory: written in runs of pixels, so it waits for more rows than a block has
bool wants_groups(const BoundTensor& out, const Register& reg) {
  return out.dtype == DType::f32 && out.strides.pixel == 1 && reg.shape.cols > 1;
}

// Index `i` of a loop over `count`, with the part of each of its threads turned round (as WorkerPool cuts it)
std::int64_t backwards(std::int64_t i, std::int64_t count, std::int64_t threads) {
  const std::int64_t parts = std::min(count, threads), part = ((i + 1) * parts - 1) / count;
  return part * count / parts + (part + 1) * count / parts - 1 - i;
}

// Rows of an output that are collected before they are written with the channels first: runs of 4 cache lines for 64
// channels
constexpr std::int64_t group_bytes = 16 << 10, least_group = 32;

}  // namespace

TiledExecutable::TiledExecutable(Parts parts) : parts_(std::move(parts)) {
  plan_memory();
  find_early_outputs();
}

// Run: uniform values | source | kept accumulators | kept values | partial results | workers.
// Worker: tile | registers | segments | groups | source.
void TiledExecutable::plan_memory() {
  const Plan& plan = parts_.plan;
  const Extents& e = plan.extents;
  std::size_t at = aligned_size(plan.uniform_bytes);
  const auto take = [&at](std::size_t bytes) {
    const std::size_t offset = at;
    at += aligned_size(bytes);
    return offset;
  };
  source_offset_ = take(parts_.source ? parts_.source->run_scratch() : 0);
  second_offset_ = take(parts_.second ? parts_.second->run_scratch() : 0);
  const std::size_t whole = whole_accumulators() ? rows_bytes(e.rows(), e.cols, false) : 0;
  accumulator_offset_ = take(parts_.second ? 2 * whole : whole);
  for (const KeptBuffer& b : plan.kept) kept_offset_.push_back(take(rows_bytes(e.rows(), b.cols, b.wide)));
  std::size_t registers = 0, segments = 0, groups = 0;
  for (const StagePlan& stage : plan.stages) {
    auto& offsets = partial_offset_.emplace_back();
    std::size_t bytes = 0;
    for (const Accumulation& a : stage.accumulations) {
      offsets.push_back(take(static_cast<std::size_t>(parts_.tiling.segments() * a.results) * sizeof(Partial)));
      bytes += SegmentAccumulator::bytes(a, stage.block_rows);
    }
    segments = std::max(segments, bytes);
    registers = std::max(registers, stage.tile.scratch_bytes);
    groups = std::max(groups, group_buffers(stage));
  }
  workers_offset_ = run_bytes_ = at;

  at = 0;
  const bool tiles = plan.accumulator_stage >= 0 && !whole_accumulators();
  const std::size_t tile = tiles ? rows_bytes(parts_.tiling.strip_rows(), e.cols, false) : 0;
  take(tile);
  second_tile_offset_ = take(parts_.second ? tile : 0);
  registers_offset_ = take(registers);
  segments_offset_ = take(segments);
  groups_offset_ = take(groups);
  source_scratch_offset_ = take(std::max(parts_.source ? parts_.source->worker_scratch() : 0,
                                         parts_.second ? parts_.second->worker_scratch() : 0));
  worker_bytes_ = aligned_size(at) + AlignedBuffer::alignment;
}

// An output may be written when its value is computed if the accumulator, whose memory it may be, is not read later
void TiledExecutable::find_early_outputs() {
  early_output_.assign(parts_.plan.graph.stores.size(), false);
  for (const StagePlan& stage : parts_.plan.stages) {
    const auto& code = stage.tile.instructions;
    for (const Instruction& store : code) {
      if (store.kind != Kind::store) continue;
      int defined = -1, read = -1;
      for (int i = 0; i < static_cast<int>(code.size()); ++i) {
        const Instruction& x = code[static_cast<std::size_t>(i)];
        if (x.result == store.source[0] && defined < 0) defined = i;
        for (const int s : x.source)
          if (stage.tile.registers[static_cast<std::size_t>(s)].home == Home::accumulator) read = i;
      }
      early_output_[static_cast<std::size_t>(store.index)] = defined >= 0 && defined < read;
    }
  }
}

// The accumulators stand where the caller has them, in an output that is written when they are done with, in memory of
// their own if a later stage reads them, or else tile by tile
void TiledExecutable::choose_accumulator_memory(Run& run) const {
  const Plan& plan = parts_.plan;
  if (plan.accumulator_stage < 0) return;
  const auto pitch = plan.extents.cols * static_cast<std::int64_t>(sizeof(float));
  if (const float* there = parts_.source->in_memory(run.arguments)) {
    // only read: an output in the same memory is written element by element when they have been
    run.accumulator = {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(there)), pitch, 0};
    return;
  }
  run.computes = true;
  if (parts_.second) {  // both have memory of their own
    if (!whole_accumulators()) return;
    run.accumulator = {run.memory + accumulator_offset_, pitch, 0};
    run.second = {run.accumulator.base + rows_bytes(plan.extents.rows(), plan.extents.cols, false), pitch, 0};
    return;
  }
  for (std::size_t s = 0; s < plan.graph.stores.size(); ++s) {
    const Node& value = plan.graph[plan.graph.stores[s].value];
    const BoundTensor& out = run.bound.outputs[s];
    const bool usable = value.axes == axes::mn && out.lane_by_lane && !run.bound.shares_memory[s] &&
                        plan.store_stage[s] >= plan.accumulator_stage;
    if (!usable || !(whole_accumulators() || value.op == Op::acc)) continue;
    run.accumulator_output = static_cast<int>(s);
    run.accumulator = {static_cast<std::byte*>(out.target), pitch, 0};
    if (value.op == Op::acc) return;  // the best: it is the output
  }
  if (run.accumulator_output < 0 && whole_accumulators())
    run.accumulator = {run.memory + accumulator_offset_, pitch, 0};
}

// Checks everything before anything runs
TiledExecutable::Run::Run(const TiledExecutable& executable, const Arguments& a, std::byte* scratch)
    : arguments(a), memory(scratch) {
  const Parts& parts = executable.parts_;
  runtime::check_factors(a, parts.space.is_product, parts.space.is_dual);
  if (parts.source) parts.source->check(a);
  (parts.space.is_product ? second_arguments.left : second_arguments.image) = parts.space.is_product ? a.left : a.image;
  (parts.space.is_product ? second_arguments.right : second_arguments.filter) = a.right1;
  if (parts.second) parts.second->check(second_arguments);
  bound = bind_arguments(parts.plan, a, parts.space, parts.operand_names);
  executable.choose_accumulator_memory(*this);
  const auto machine = [&](const Program& program) {
    return std::make_unique<Machine>(*parts.unit, parts.plan, program, bound, memory, nullptr);
  };
  leaves = machine(parts.plan.leaves);
  if (parts.bias >= 0) {
    const int slot = parts.plan.slot_of_value[static_cast<std::size_t>(parts.bias)];
    bias = reinterpret_cast<const float*>(memory + parts.plan.slots[static_cast<std::size_t>(slot)].offset);
  }
  for (const StagePlan& stage : parts.plan.stages) {
    uniform.push_back(machine(stage.uniform));
    workers.emplace_back(static_cast<std::size_t>(parts.threads));
  }
}

std::size_t TiledExecutable::scratch_bytes() const {
  return run_bytes_ + static_cast<std::size_t>(parts_.threads) * worker_bytes_;
}

void TiledExecutable::run(const Arguments& arguments) const {
  check_cancelled();
  const support::NoFork no_fork;
  const auto lease = ScratchPool::shared().borrow(scratch_bytes());
  const std::optional<Arguments> lifted = with_batch(parts_.plan, arguments, parts_.space);
  Run run(*this, lifted ? *lifted : arguments, lease.data());
  execute(run);
}

std::unique_ptr<BoundRegion> TiledExecutable::bind_region(const Arguments& arguments, std::byte* scratch) const {
  return std::make_unique<Bound>(*this, arguments, scratch);
}

void TiledExecutable::execute(Run& run) const {
  if (run.computes) parts_.source->prepare(run.arguments, run.memory + source_offset_);
  if (run.computes && parts_.second) parts_.second->prepare(run.second_arguments, run.memory + second_offset_);
  run.leaves->run({});
  if (run.computes && by_columns()) compute_columns(run);
  for (std::size_t s = 0; s < parts_.plan.stages.size(); ++s) run_stage(run, s);
}

void TiledExecutable::compute_columns(Run& run) const {
  auto *acc = reinterpret_cast<float*>(run.accumulator.base), *acc1 = reinterpret_cast<float*>(run.second.base);
  const std::int64_t first = parts_.source->column_parts(), second = parts_.second ? parts_.second->column_parts() : 0;
  const auto part_of_worker = [&](std::int64_t part, int w) {
    auto* own = run.memory + workers_offset_ + static_cast<std::size_t>(w) * worker_bytes_ + source_scratch_offset_;
    if (part < first)
      parts_.source->compute_part(run.arguments, part, run.bias, acc, run.memory + source_offset_, own);
    else
      parts_.second->compute_part(run.second_arguments, part - first, nullptr, acc1, run.memory + second_offset_, own);
  };
  WorkerPool::shared().for_each(parts_.threads, first + second, std::cref(part_of_worker));
}

void TiledExecutable::run_stage(Run& run, std::size_t index) const {
  const Plan& plan = parts_.plan;
  const StagePlan& stage = plan.stages[index];
  run.uniform[index]->run({});
  if (stage.walks_tiles || (index == 0 && run.computes && !by_columns())) {
    std::vector<Worker>& workers = run.workers[index];
    for (Worker& w : workers) w.image = -1;  // the registers' memory was anyone's since the last run
    const std::int64_t strips = parts_.tiling.strips();
    const auto strip_of_worker = [&](std::int64_t i, int worker) {
      // every other stage goes backwards through a worker's part: what was written last is still in a cache
      const std::int64_t strip = index % 2 == 0 ? i : backwards(i, strips, parts_.threads);
      Worker& w = workers[static_cast<std::size_t>(worker)];
      if (!w.machine) {
        w.memory = run.memory + workers_offset_ + static_cast<std::size_t>(worker) * worker_bytes_;
        w.machine = make_machine(run, index, w.memory);
      }
      run_strip(run, index, strip, w);
    };
    WorkerPool::shared().for_each(parts_.threads, strips, std::cref(strip_of_worker));
  }
  for (std::size_t a = 0; a < stage.accumulations.size(); ++a)
    merge_segments(stage.accumulations[a], plan, parts_.tiling,
                   reinterpret_cast<const Partial*>(run.memory + partial_offset_[index][a]), run.memory);
  for (const int s : stage.uniform_stores) {
    const int slot = plan.slot_of_value[plan.graph.stores[static_cast<std::size_t>(s)].value];
    const BoundTensor& out = run.bound.outputs[static_cast<std::size_t>(s)];
    store_uniform(*parts_.unit, plan, plan.slots[static_cast<std::size_t>(slot)], run.memory, out);
  }
}

std::unique_ptr<Machine> TiledExecutable::make_machine(const Run& run, std::size_t index, std::byte* memory) const {
  const Plan& plan = parts_.plan;
  const StagePlan& stage = plan.stages[index];
  auto m = std::make_unique<Machine>(*parts_.unit, plan, stage.tile, run.bound, run.memory, memory + registers_offset_);
  for (std::size_t k = 0; k < plan.kept.size(); ++k) {
    const KeptBuffer& b = plan.kept[k];
    const auto lane = static_cast<std::int64_t>(b.wide ? sizeof(double) : sizeof(float));
    m->place(Home::kept, static_cast<int>(k), {run.memory + kept_offset_[k], b.cols * lane, 0});
  }
  for (std::size_t o = 0; o < plan.operands.size(); ++o) {
    const BoundTensor& t = run.bound.operands[o];
    const std::int64_t cols = plan.operands[o].axes.col == ColAxis::n ? plan.extents.cols : 1;
    if (t.lane_by_lane)  // only read
      m->place(
          Home::operand, static_cast<int>(o),
          {static_cast<std::byte*>(const_cast<void*>(t.data)), cols * static_cast<std::int64_t>(sizeof(float)), 0});
  }
  if (run.accumulator.base) m->place(Home::accumulator, 0, run.accumulator);
  if (run.second.base) m->place(Home::accumulator, 1, run.second);
  bind_outputs(run, index, *m, memory + groups_offset_);
  std::byte* segment = memory + segments_offset_;
  for (const Accumulation& a : stage.accumulations) {
    m->accumulators().emplace_back(a, stage.block_rows, segment);
    segment += SegmentAccumulator::bytes(a, stage.block_rows);
  }
  return m;
}

std::int64_t TiledExecutable::group_rows(const StagePlan& stage) const {
  const std::int64_t row_bytes = static_cast<std::int64_t>(sizeof(float)) * parts_.plan.extents.cols;
  const std::int64_t segment = parts_.tiling.segment_height() * parts_.plan.extents.width;
  const std::int64_t rows = std::min(std::max(group_bytes / row_bytes, least_group), segment);
  return std::max<std::int64_t>(1, rows / stage.block_rows) * stage.block_rows;
}

std::size_t TiledExecutable::group_buffer(const StagePlan& stage, std::int64_t cols) const {
  return rows_bytes(group_rows(stage) + cache_line_floats, cols, false);
}

// The buffers of all stores of a stage
std::size_t TiledExecutable::group_buffers(const StagePlan& stage) const {
  std::size_t bytes = 0;
  for (const Instruction& i : stage.tile.instructions)
    if (i.kind == Kind::store)
      bytes += group_buffer(stage, stage.tile.registers[static_cast<std::size_t>(i.source[0])].shape.cols);
  return bytes;
}

// Lets values be computed right where they are stored, or wait for a whole group
void TiledExecutable::bind_outputs(const Run& run, std::size_t index, Machine& machine, std::byte* groups) const {
  const StagePlan& stage = parts_.plan.stages[index];
  const Program& program = stage.tile;
  std::vector<int> taken;
  for (const Instruction& i : program.instructions) {
    if (i.kind != Kind::store) continue;
    const auto s = static_cast<std::size_t>(i.index);
    const Register& reg = program.registers[static_cast<std::size_t>(i.source[0])];
    const BoundTensor& out = run.bound.outputs[s];
    const bool is_accumulator = reg.home == Home::accumulator && run.accumulator_output == i.index;
    const bool computed_here = can_be_output(program, i.source[0]) && !run.bound.shares_memory[s] &&
                               !(run.accumulator_output == i.index && early_output_[s]);
    const bool free = std::find(taken.begin(), taken.end(), i.source[0]) == taken.end();
    if (!free) continue;
    const std::int64_t pitch = reg.shape.cols * static_cast<std::int64_t>(sizeof(float));
    if (out.lane_by_lane && (is_accumulator || computed_here)) {
      machine.bind_output(i.index, {static_cast<std::byte*>(out.target), pitch, 0});
    } else if (wants_groups(out, reg) && computed_here) {
      machine.defer_output(i.index, groups);
      groups += group_buffer(stage, reg.shape.cols);
    } else {
      continue;
    }
    taken.push_back(i.source[0]);
  }
}

void TiledExecutable::run_strip(Run& run, std::size_t index, std::int64_t strip_index, Worker& worker) const {
  const Plan& plan = parts_.plan;
  const Strip strip = parts_.tiling.strip(strip_index);
  const std::int64_t first = (strip.image * plan.extents.height + strip.first) * plan.extents.width;
  if (index == 0 && run.computes && !by_columns()) {
    const auto rows_of = [&](RegisterMemory tile, int product, std::byte* own) {
      if (!tile.base) {
        tile = {own, plan.extents.cols * static_cast<std::int64_t>(sizeof(float)), first};
        worker.machine->place(Home::accumulator, product, tile);
      }
      return reinterpret_cast<float*>(tile.base + (first - tile.origin) * tile.pitch);
    };
    std::byte* const scratch = worker.memory + source_scratch_offset_;
    parts_.source->compute(run.arguments, strip, run.bias, rows_of(run.accumulator, 0, worker.memory),
                           run.memory + source_offset_, scratch);
    if (parts_.second)
      parts_.second->compute(run.second_arguments, strip, nullptr,
                             rows_of(run.second, 1, worker.memory + second_tile_offset_), run.memory + second_offset_,
                             scratch);
  }
  if (!plan.stages[index].walks_tiles) return;
  if (worker.image != strip.image) {
    worker.machine->fill(plan.stages[index].fills, strip.image, plan.stages[index].block_rows);
    worker.image = strip.image;
  }
  run_segments(run, index, strip, *worker.machine);
}

void TiledExecutable::run_segments(Run& run, std::size_t index, const Strip& strip, Machine& machine) const {
  const Tiling& tiling = parts_.tiling;
  const StagePlan& stage = parts_.plan.stages[index];
  const std::int64_t width = tiling.extents().width, height = tiling.segment_height(), rows = group_rows(stage);
  const std::int64_t last = (strip.first + strip.height) * width;
  machine.start_strip(strip.image, strip.first * width);
  for (std::int64_t p = strip.first; p < strip.first + strip.height; p += height) {
    const std::int64_t segment = p / height;
    const std::int64_t end = p * width + tiling.segment_rows(segment);
    for (SegmentAccumulator& a : machine.accumulators()) a.start();
    for (std::int64_t group = p * width; group < end; group += rows) {
      const std::int64_t group_end = std::min(group + rows, end);
      for (std::int64_t row = group; row < group_end; row += stage.block_rows)
        machine.run({strip.image, row, std::min(stage.block_rows, group_end - row)});
      machine.finish_group(strip.image, group_end, group_end == last);
    }
    for (std::size_t a = 0; a < stage.accumulations.size(); ++a) {
      auto* partials = reinterpret_cast<Partial*>(run.memory + partial_offset_[index][a]);
      const std::int64_t at = strip.image * tiling.segments_per_image() + segment;
      machine.accumulators()[a].finish(partials + at * stage.accumulations[a].results);
    }
  }
}

}  // namespace unisono::cpu
