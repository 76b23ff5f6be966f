/// Makes the steps of a network for one set of input shapes.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/steps.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/room.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/cancellation.hpp"
#include "support/machine_memory.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

const void* Tensors::data(TensorId id) const {
  const Memory& m = plan_.storage.memory[id];
  switch (m.where) {
    case Memory::Where::arena: return bindings_.arena + m.index + m.offset;
    case Memory::Where::constant: return static_cast<const std::byte*>(plan_.constants[m.index].data.get()) + m.offset;
    case Memory::Where::input: return static_cast<const std::byte*>(bindings_.inputs[m.index].data) + m.offset;
    case Memory::Where::output: return static_cast<const std::byte*>(bindings_.outputs[m.index].data) + m.offset;
  }
  throw InternalError("a tensor lies nowhere");
}

namespace {

std::unique_ptr<Workspace> new_workspace(const Plan& plan) {
  auto w = std::make_unique<Workspace>();
  const auto parts = plan.memory();
  support::require_memory(parts);
  try {
    w->arena = cpu::AlignedBuffer(plan.storage.arena_bytes);
    w->scratch = cpu::AlignedBuffer(plan.scratch_bytes);
  } catch (const std::bad_alloc&) {
    support::refuse_memory(parts);
  }
  w->regions.resize(plan.steps.size());
  return w;
}

}  // namespace

std::array<support::MemoryUse, 2> Plan::memory() const {
  return {{{"intermediates", storage.arena_bytes}, {"steps at work", scratch_bytes}}};
}

std::unique_ptr<Workspace> Plan::borrow(Bindings bindings, std::vector<ConstTensorView> given) const {
  std::unique_ptr<Workspace> w;
  {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      w = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!w) w = new_workspace(*this);
  bindings.arena = w->arena.data();
  bindings.scratch = {w->scratch.data(), threads};
  const auto lies_there = [&](const std::vector<ConstTensorView>& before) {
    return std::ranges::equal(given, before, {}, &ConstTensorView::data, &ConstTensorView::data);
  };
  if (!w->choose(lies_there)) {
    if (w->callers.size() == Workspace::most_callers) w->callers.pop_back();
    w->callers.insert(w->callers.begin(), std::make_unique<CallerBindings>());
    w->callers.front()->regions.resize(steps.size());
  }
  CallerBindings& caller = *w->callers.front();
  caller.bindings = std::move(bindings);
  caller.given = std::move(given);
  const Tensors tensors(*this, caller.bindings);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const RegionStep& r = steps[i].region;
    auto& bound = (r.reads_caller ? caller.regions : w->regions)[i];
    if (r.bind && !bound) bound = r.bind(tensors, w->scratch.data());
  }
  return w;
}

void Plan::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(mutex);
  idle.push_back(std::move(workspace));
}

int thread_count(int threads) {
  return std::min(threads == 0 ? cpu::available_cores() : threads, cpu::WorkerPool::most_threads);
}

namespace {

// In one piece, or, where somebody may end the run, in pieces of some 5 ms, by the time of the piece before
void in_pieces(std::int64_t begin, std::int64_t end, cpu::RangeBody body) {
  if (support::current_cancellation() == nullptr) return body(begin, end);
  constexpr std::chrono::duration<double> wanted = std::chrono::milliseconds(5);
  double length = static_cast<double>(end - begin) / 64;
  while (begin < end) {
    check_cancelled();
    const double rest = static_cast<double>(end - begin);
    const std::int64_t last =
        length < rest ? begin + std::max<std::int64_t>(1, static_cast<std::int64_t>(length)) : end;
    const auto start = std::chrono::steady_clock::now();
    body(begin, last);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    length = static_cast<double>(last - begin) * std::min(wanted / std::max(time, wanted / 1000), 64.0);
    begin = last;
  }
}

}  // namespace

cpu::Parallel make_parallel(int threads) {
  const int n = thread_count(threads);
  return [n](std::int64_t count, cpu::RangeBody body) {
    if (count <= 0) return;
    const std::int64_t tasks = std::min<std::int64_t>(count, n == 1 ? 1 : 4 * n);
    if (tasks == 1) return in_pieces(0, count, body);
    cpu::WorkerPool::shared().for_each(
        n, tasks, [&](std::int64_t i, int) { in_pieces(count * i / tasks, count * (i + 1) / tasks, body); });
  };
}

namespace {

// The caller's tensor into the network's own order of memory, or back
Step change_of_layout(const Plan& plan, TensorId id, std::size_t position, bool input, const NetworkTensor& tensor,
                      const cpu::Parallel& parallel) {
  const std::string& name = tensor.name;
  const std::size_t size = size_of(tensor.dtype);
  const Sizes& sizes = plan.storage.shapes[id];
  const Sizes own = logical_strides(sizes, plan.storage.memory[id].row_stride);
  Step step{fmt::format("{} {}", input ? "input" : "output", name), "change of layout", {}, {}};
  if (input) {
    step.run = [=](const Tensors& t) {
      const ConstTensorView& v = t.bindings().inputs[position];
      cpu::copy_elements(size, sizes, v.data, v.strides, t.write(id), own, parallel);
    };
  } else {
    step.run = [=](const Tensors& t) {
      const TensorView& v = t.bindings().outputs[position];
      cpu::copy_elements(size, sizes, t.data(id), own, v.data, v.strides, parallel);
    };
  }
  return step;
}

bool is_empty(const Sizes& s) { return std::find(s.begin(), s.end(), 0) != s.end(); }

}  // namespace

std::shared_ptr<const Plan> make_plan(const FusedNetwork& fused, const Constants& constants, PlanKey key,
                                      const NetworkOptions& options) {
  const Network& n = fused.network;
  auto plan = std::make_shared<Plan>();
  plan->key = std::move(key);
  plan->storage = plan_storage(fused, plan->key, options.reuse_memory);
  plan->constants = constants;
  const cpu::Parallel parallel = make_parallel(options.threads);
  plan->threads = thread_count(options.threads);
  const cpu::CallsOfThreads calls(plan->threads);
  const auto used = [&](TensorId id) { return !plan->storage.memory[id].unused; };
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    if (!plan->key.direct_inputs[i] && !plan->storage.memory[n.inputs[i]].planar && used(n.inputs[i]))
      plan->steps.push_back(change_of_layout(*plan, n.inputs[i], i, true, n[n.inputs[i]], parallel));
  for (const Region& r : fused.regions) {
    const Operator& first = n.operators[r.operators[0]];
    if (r.kind == RegionReport::Kind::free || is_empty(plan->storage.shapes[first.output])) continue;
    Step step{n[r.outputs[0].tensor].name, describe(n, first), {}, {}};
    if (r.kind == RegionReport::Kind::single) {
      OperatorStep alone = single_step(fused, first, plan->storage, parallel, plan->threads);
      plan->scratch_bytes = std::max(plan->scratch_bytes, alone.scratch_bytes);
      step.run = std::move(alone.run);
    } else {
      step.region = region_step(fused, r, *plan, options);
      plan->scratch_bytes = std::max(plan->scratch_bytes, step.region.scratch_bytes);
    }
    plan->steps.push_back(std::move(step));
  }
  for (std::size_t i = 0; i < n.outputs.size(); ++i)
    if (!plan->key.direct_outputs[i] && !plan->storage.memory[n.outputs[i]].planar)
      plan->steps.push_back(change_of_layout(*plan, n.outputs[i], i, false, n[n.outputs[i]], parallel));
  return plan;
}

}  // namespace unisono::network
