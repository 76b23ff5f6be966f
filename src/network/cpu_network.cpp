/// Networks on the CPU: plans by input shape, and the binding of the caller's tensors.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <set>

#include "network/caller.hpp"
#include "network/executable_impl.hpp"
#include "network/joined_convolutions.hpp"
#include "network/regions.hpp"
#include "network/steps.hpp"
#include "runtime/common/views.hpp"
#include "runtime/cpu/worker_pool.hpp"
#include "support/fork.hpp"
#include "support/interned.hpp"
#include "unisono/cancel.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

namespace {

using network::Bindings;
using network::check_names;
using network::checked_view;
using network::from_logical;
using network::NamedSizes;
using network::Plan;
using network::PlanKey;
using network::Sizes;
using network::to_logical;

// Whether a view (strides along logical axes) is dense and in the network's own order
bool in_own_order(const Sizes& sizes, const Sizes& strides) {
  const Sizes own = network::logical_strides(sizes, network::column_count(sizes));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && strides[i] != own[i]) return false;
  return true;
}

// Whether a view (strides along logical axes) is dense with the channels first
bool planar(const ConstTensorView& v) {
  const Sizes rows = row_major_strides(v.shape);
  for (std::size_t i = 0; i < v.shape.size(); ++i)
    if (v.shape[i] != 1 && v.strides[i] != rows[i]) return false;
  return true;
}

// Networks with the same weights, such as those of a program for several sizes, have them once
void share_constants(Network& network) {
  for (NetworkTensor& t : network.tensors) {
    if (t.constant) t.constant = support::interned(t.constant, std::as_bytes(std::span(*t.constant)));
    if (t.bytes) t.bytes = support::interned(t.bytes, std::span(*t.bytes));
  }
}

// Whether an output shares memory with no other view. Regions write only such where the caller has them: others are
// copied there when everything has been read.
bool is_alone(std::size_t output, const Bindings& b) {
  const ConstTensorView written = b.outputs[output];
  const auto shares = [&](const ConstTensorView& x) {
    return runtime::may_overlap(written, written.strides, x, x.strides);
  };
  for (std::size_t i = 0; i < b.outputs.size(); ++i)
    if (i != output && shares(b.outputs[i])) return false;
  return std::none_of(b.inputs.begin(), b.inputs.end(), shares);
}

}  // namespace

class CpuNetwork final : public NetworkImpl {
 public:
  CpuNetwork(Network given, const NetworkOptions& options) : given_(std::move(given)), options_(options) {
    const support::NoFork no_fork;
    share_constants(given_);
    fused_ = network::fuse(options.fuse ? network::join_convolutions(given_) : given_, options.fuse);
    share_constants(fused_.network);
    report_ = network::report(fused_, given_.operators.size());
    for (const NetworkTensor& t : fused_.network.tensors) constants_.push_back(network::in_memory_order(t));
  }

  void run(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
           std::vector<StepTime>* profile) override;
  NamedSizes output_shapes(const NamedSizes& inputs) const override;
  MemoryReport memory(const NamedSizes& inputs) override;

  const Network& given() const override { return given_; }
  const FusionReport& report() const override { return report_; }

 private:
  const Network& net() const { return fused_.network; }
  std::vector<Sizes> logical_sizes(const NamedSizes& inputs) const;
  std::shared_ptr<const Plan> plan(PlanKey key);
  std::shared_ptr<const Plan> cached(const PlanKey& key);
  std::shared_ptr<const Plan> cached_for(const std::vector<Sizes>& inputs);
  struct Ready {
    std::shared_ptr<const Plan> plan;
    std::unique_ptr<network::Workspace> workspace;
  };
  using Inputs = std::map<std::string, ConstTensorView>;
  using Outputs = std::map<std::string, TensorView>;
  Ready as_before(const Inputs& inputs, const Outputs& outputs);
  Ready bound_to(const Inputs& inputs, const Outputs& outputs);
  void bind_inputs(const std::map<std::string, ConstTensorView>& given, Bindings& bindings, PlanKey& key) const;
  void bind_outputs(const std::map<std::string, TensorView>& given, Bindings& bindings, PlanKey& key);

  Network given_;
  NetworkOptions options_;
  network::FusedNetwork fused_;
  FusionReport report_;
  network::Constants constants_;

  std::mutex planning_;                           // one thread plans at a time
  std::mutex cache_;                              // guards plans_
  std::list<std::shared_ptr<const Plan>> plans_;  // used last first
};

std::vector<Sizes> CpuNetwork::logical_sizes(const NamedSizes& inputs) const {
  check_names(net(), net().inputs, inputs, "input");
  std::vector<Sizes> sizes;
  for (const TensorId id : net().inputs) sizes.push_back(to_logical(inputs.at(net()[id].name), options_.layout));
  return sizes;
}

NamedSizes CpuNetwork::output_shapes(const NamedSizes& inputs) const {
  const auto shapes = network::concrete_shapes(net(), logical_sizes(inputs));
  NamedSizes result;
  for (const TensorId id : net().outputs) result[net()[id].name] = from_logical(shapes[id], options_.layout);
  return result;
}

std::shared_ptr<const Plan> CpuNetwork::cached(const PlanKey& key) {
  const std::lock_guard lock(cache_);
  const auto it = std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return p->key == key; });
  if (it == plans_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, it);
  return plans_.front();
}

// Some plan for these sizes, whatever the memory order of the arguments: it knows the shapes of all tensors
std::shared_ptr<const Plan> CpuNetwork::cached_for(const std::vector<Sizes>& inputs) {
  const std::lock_guard lock(cache_);
  const auto it = std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return p->key.inputs == inputs; });
  return it == plans_.end() ? nullptr : *it;
}

std::shared_ptr<const Plan> CpuNetwork::plan(PlanKey key) {
  if (auto p = cached(key)) return p;
  const std::lock_guard planning(planning_);
  if (auto p = cached(key)) return p;
  auto p = network::make_plan(fused_, constants_, std::move(key), options_);
  const std::lock_guard lock(cache_);
  plans_.push_front(p);
  if (plans_.size() > options_.cached_plans) plans_.pop_back();
  return p;
}

MemoryReport CpuNetwork::memory(const NamedSizes& inputs) {
  const support::NoFork no_fork;
  PlanKey key;
  key.inputs = logical_sizes(inputs);
  const auto shapes = network::concrete_shapes(net(), key.inputs);
  const auto direct = [&](TensorId id) {
    const Sizes memory = from_logical(shapes[id], options_.layout);
    return in_own_order(shapes[id], to_logical(row_major_strides(memory), options_.layout));
  };
  for (const TensorId id : net().inputs) {
    key.direct_inputs.push_back(direct(id));
    key.planar_inputs.push_back(options_.layout == Layout::nchw);
  }
  for (const TensorId id : net().outputs) {
    key.direct_outputs.push_back(direct(id));
    key.planar_outputs.push_back(options_.layout == Layout::nchw);
  }
  const auto p = plan(std::move(key));
  MemoryReport m{.arena = p->storage.arena_bytes,
                 .without_reuse = p->storage.without_reuse,
                 .in_place = p->storage.in_place,
                 .free_concats = p->storage.slices};
  std::set<const void*> counted;
  for (const auto& c : constants_)
    if (c.data && counted.insert(c.data.get()).second) m.constants += c.bytes;
  return m;
}

void CpuNetwork::bind_inputs(const std::map<std::string, ConstTensorView>& given, Bindings& bindings,
                             PlanKey& key) const {
  for (const TensorId id : net().inputs) {
    const ConstTensorView& view = given.at(net()[id].name);
    ConstTensorView v = checked_view(view, view.shape, "input", net()[id], {net()[id].dtype});
    v.shape = to_logical(v.shape, options_.layout);
    v.strides = to_logical(v.strides, options_.layout);
    key.inputs.push_back(v.shape);
    key.direct_inputs.push_back(in_own_order(v.shape, v.strides));
    key.planar_inputs.push_back(planar(v));
    bindings.inputs.push_back(std::move(v));
  }
}

// After the inputs, whose sizes say what the outputs must have
void CpuNetwork::bind_outputs(const std::map<std::string, TensorView>& given, Bindings& bindings, PlanKey& key) {
  // inference over all operators would take as long as a small network's run
  const auto known = cached_for(key.inputs);
  const auto shapes = known ? std::vector<Sizes>() : network::concrete_shapes(net(), key.inputs);
  const auto shape_of = [&](TensorId id) -> const Sizes& { return known ? known->storage.shapes[id] : shapes[id]; };
  std::vector<Sizes> expected;
  for (const TensorId id : net().outputs) expected.push_back(from_logical(shape_of(id), options_.layout));
  const auto own_type = [&](TensorId id) { return std::vector{net()[id].dtype}; };
  for (TensorView& v : network::checked_outputs(net(), given, expected, own_type)) {
    v.shape = to_logical(v.shape, options_.layout);
    v.strides = to_logical(v.strides, options_.layout);
    bindings.outputs.push_back(std::move(v));
  }
  for (std::size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorView& v = bindings.outputs[i];
    const bool alone = is_alone(i, bindings);
    key.direct_outputs.push_back(alone && in_own_order(v.shape, v.strides));
    key.planar_outputs.push_back(alone && planar(v));
  }
}

// A plan and a workspace of a run that was given the very same tensors, wherever they are: nothing is looked at but
// that, and no memory is taken
CpuNetwork::Ready CpuNetwork::as_before(const Inputs& inputs, const Outputs& outputs) {
  const auto is_given = [&](const auto& views, TensorId id, const ConstTensorView& before) {
    const auto now = views.find(net()[id].name);
    return now != views.end() && now->second.data == before.data && now->second.dtype == before.dtype &&
           now->second.shape == before.shape && now->second.strides == before.strides;
  };
  const std::vector<TensorId>&in = net().inputs, &out = net().outputs;
  if (inputs.size() != in.size() || outputs.size() != out.size()) return {};
  const auto is_same = [&](const std::vector<ConstTensorView>& before) {
    for (std::size_t i = 0; i < before.size(); ++i)
      if (i < in.size() ? !is_given(inputs, in[i], before[i]) : !is_given(outputs, out[i - in.size()], before[i]))
        return false;
    return before.size() == in.size() + out.size();
  };
  const std::lock_guard lock(cache_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it)
    if (auto workspace = (*it)->borrow_again(is_same)) {
      plans_.splice(plans_.begin(), plans_, it);
      return {plans_.front(), std::move(workspace)};
    }
  return {};
}

CpuNetwork::Ready CpuNetwork::bound_to(const Inputs& inputs, const Outputs& outputs) {
  check_names(net(), net().inputs, inputs, "input");
  check_names(net(), net().outputs, outputs, "output");
  PlanKey key;
  Bindings bindings;
  bind_inputs(inputs, bindings, key);
  bind_outputs(outputs, bindings, key);
  std::vector<ConstTensorView> given;
  for (const TensorId id : net().inputs) given.push_back(inputs.at(net()[id].name));
  for (const TensorId id : net().outputs) given.push_back(outputs.at(net()[id].name));
  Ready ready{plan(std::move(key)), nullptr};
  ready.workspace = ready.plan->borrow(std::move(bindings), std::move(given));
  return ready;
}

void CpuNetwork::run(const Inputs& inputs, const Outputs& outputs, std::vector<StepTime>* profile) {
  const support::NoFork no_fork;
  Ready ready = as_before(inputs, outputs);
  if (!ready.workspace) ready = bound_to(inputs, outputs);
  const auto& [p, workspace] = ready;
  cpu::WorkerPool::shared().start(network::thread_count(options_.threads));  // last: threads take what memory is left
  const network::Tensors tensors(*p, workspace->bindings());
  if (profile) profile->clear();
  const cpu::WorkerPool::Series series(cpu::WorkerPool::shared());
  for (std::size_t i = 0; i < p->steps.size(); ++i) {
    const network::Step& step = p->steps[i];
    check_cancelled();
    const auto start = std::chrono::steady_clock::now();
    if (cpu::BoundRegion* const region = workspace->region(i))
      region->run();
    else
      step.run(tensors);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (profile) profile->push_back({step.name, step.what, time.count(), {}, step.region.flop});
  }
  p->give_back(std::move(ready.workspace));  // after an exception it is freed instead
}

namespace network {
std::shared_ptr<NetworkImpl> build_cpu(Network network, const NetworkOptions& options) {
  return std::make_shared<CpuNetwork>(std::move(network), options);
}
}  // namespace network

}  // namespace unisono
