#pragma once
/// The steps of a network for one set of input shapes, and how they find their tensors.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "network/regions.hpp"
#include "network/storage.hpp"
#include "runtime/cpu/epilogue.hpp"
#include "runtime/cpu/ops/image.hpp"
#include "runtime/cpu/scratch.hpp"
#include "support/machine_memory.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

/// Elements of a constant, channels last where of rank 4; no data for what is no constant.
struct ConstantData {
  std::shared_ptr<const void> data;
  std::size_t bytes = 0;
};
using Constants = std::vector<ConstantData>;  ///< by tensor

/// Elements of a constant in the network's own order of memory; nothing of what is none.
ConstantData in_memory_order(const NetworkTensor& tensor);

/// What the memory of one run is.
struct Bindings {
  std::byte* arena = nullptr;
  cpu::OperatorScratch scratch;         ///< for the operator that runs by itself
  std::vector<ConstTensorView> inputs;  ///< by position; shapes in logical order
  std::vector<TensorView> outputs;
};

struct Plan;

/// The tensors of a run.
class Tensors {
 public:
  Tensors(const Plan& plan, const Bindings& bindings) : plan_(plan), bindings_(bindings) {}
  float* write(TensorId id) const { return const_cast<float*>(read(id)); }
  const float* read(TensorId id) const { return static_cast<const float*>(data(id)); }
  const void* data(TensorId id) const;  ///< whatever the dtype
  const Bindings& bindings() const { return bindings_; }
  const cpu::OperatorScratch& scratch() const { return bindings_.scratch; }

 private:
  const Plan& plan_;
  const Bindings& bindings_;
};

/// A region ready to be bound to memory.
struct RegionStep {
  std::size_t scratch_bytes = 0;
  double flop = 0;            ///< the operations of its contraction
  bool reads_caller = false;  ///< whether an argument is the caller's memory, which may be elsewhere in the next run
  std::function<std::unique_ptr<cpu::BoundRegion>(const Tensors&, std::byte* scratch)> bind;
};

/// An operator ready to run by itself.
struct OperatorStep {
  template <std::invocable<const Tensors&> F>
  OperatorStep(F body) : run(std::move(body)) {}

  std::function<void(const Tensors&)> run;
  std::size_t scratch_bytes = 0;  ///< that Tensors::scratch() must have
};

struct Step {
  std::string name, what;
  std::function<void(const Tensors&)> run;  ///< what an operator by itself does; empty for regions
  RegionStep region;
};

/// By step; null for steps without one.
using BoundRegions = std::vector<std::unique_ptr<cpu::BoundRegion>>;

/// Tensors of the caller's, and the regions that read or write these.
struct CallerBindings {
  Bindings bindings;
  std::vector<ConstTensorView> given;  ///< inputs, then outputs
  BoundRegions regions;
};

/// Memory of one run, and the regions bound to it. Callers that allocate results at each run give memory that they gave
/// before: the last few sets of tensors stay bound.
struct Workspace {
  static constexpr std::size_t most_callers = 4;

  cpu::AlignedBuffer arena, scratch;
  std::vector<std::unique_ptr<CallerBindings>> callers;  ///< the one of the next run first
  BoundRegions regions;                                  ///< those that only know the arena and constants

  const Bindings& bindings() const { return callers.front()->bindings; }
  cpu::BoundRegion* region(std::size_t step) const {
    return regions[step] ? regions[step].get() : callers.front()->regions[step].get();
  }
  /// Makes the first set for which `is_same(given)` holds that of the next run. False if there is none.
  template <class IsSame>
  bool choose(const IsSame& is_same) {
    const auto found = std::ranges::find_if(callers, [&](const auto& c) { return is_same(c->given); });
    if (found == callers.end()) return false;
    std::rotate(callers.begin(), found, found + 1);
    return true;
  }
};

/// Everything for one set of input shapes. Immutable but for the workspaces that no run uses.
struct Plan {
  PlanKey key;
  StoragePlan storage;
  Constants constants;
  std::vector<Step> steps;
  std::size_t scratch_bytes = 0;  ///< the most that a region or an operator which runs by itself needs
  int threads = 1;                ///< that work at a step at a time

  /// A workspace for one run, with its regions bound; goes back when the run is over. `given`: what the caller gave,
  /// inputs ahead of outputs.
  std::unique_ptr<Workspace> borrow(Bindings bindings, std::vector<ConstTensorView> given) const;
  /// One whose last run was given the very same, which needs nothing else; or null.
  template <class IsSame>
  std::unique_ptr<Workspace> borrow_again(const IsSame& is_same) const {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(idle.begin(), idle.end(), [&](const auto& w) { return w->choose(is_same); });
    if (found == idle.end()) return nullptr;
    std::swap(*found, idle.back());
    std::unique_ptr<Workspace> w = std::move(idle.back());
    idle.pop_back();
    return w;
  }
  void give_back(std::unique_ptr<Workspace> workspace) const;

  /// What one run takes beside constants, inputs and outputs.
  std::array<support::MemoryUse, 2> memory() const;

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Workspace>> idle;
};

/// Makes the plan, compiling the regions. Throws UserError for sizes that do not fit, Unsupported for what no kernel
/// serves.
std::shared_ptr<const Plan> make_plan(const FusedNetwork& fused, const Constants& constants, PlanKey key,
                                      const NetworkOptions& options);

/// One step for a region of kind single.
OperatorStep single_step(const FusedNetwork& fused, const Operator& op, const StoragePlan& storage,
                         const cpu::Parallel& parallel, int threads);

/// The same for the operators of unisono/network/tensor_operators.hpp.
OperatorStep tensor_step(const Network& network, const Operator& op, const StoragePlan& storage,
                         const cpu::Parallel& parallel, int threads);

/// The same for those of unisono/network/index_operators.hpp.
OperatorStep index_step(const Network& network, const Operator& op, const StoragePlan& storage,
                        const cpu::Parallel& parallel, int threads);

/// One step for a region of kind contraction or epilogue.
RegionStep region_step(const FusedNetwork& fused, const Region& region, const Plan& plan,
                       const NetworkOptions& options);

/// Threads for this many in the options.
int thread_count(int threads);

/// Loops over the process's threads.
cpu::Parallel make_parallel(int threads);

}  // namespace unisono::network
