/// Networks on a GPU: plans by input shape, and the binding of the caller's tensors.

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>

#include "network/caller.hpp"
#include "network/cuda/run/captured_runs.hpp"
#include "network/cuda/run/direct_inputs.hpp"
#include "network/cuda/run/launch.hpp"
#include "network/cuda/run/style.hpp"
#include "network/cuda/run/switches.hpp"
#include "network/cuda/run/workspace_pool.hpp"
#include "network/executable_impl.hpp"
#include "network/positions.hpp"
#include "runtime/cuda/range.hpp"
#include "unisono/cancel.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

namespace {

using network::NamedSizes;
using network::Sizes;
using network::gpu::CallerViews;
using network::gpu::check_precision;
using network::gpu::memory_style;
using network::gpu::Plan;
using network::gpu::usable_device;
using network::gpu::Workspace;
using network::gpu::WorkspacePool;

network::Constants constants_of(const Network& n) {
  network::Constants all;
  for (const NetworkTensor& t : n.tensors) all.push_back(network::in_memory_order(t));
  return all;
}

class CudaNetwork final : public NetworkImpl, public std::enable_shared_from_this<CudaNetwork> {
 public:
  CudaNetwork(Network given, const NetworkOptions& options)
      : given_(std::move(given)),
        options_(options),
        device_(usable_device(options)),
        fused_(network::fuse(given_, options.fuse, memory_style(device_, options.precision))),
        report_(network::report(fused_, given_.operators.size())),
        data_(constants_of(fused_.network)),
        constants_(fused_.network, data_, options.precision) {}

  void run(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
           std::vector<StepTime>* profile) override;
  void enqueue(const std::map<std::string, ConstTensorView>& inputs, const std::map<std::string, TensorView>& outputs,
               Stream stream) override;
  std::shared_ptr<NetworkLaunchImpl> bind(const std::map<std::string, ConstTensorView>& inputs,
                                          const std::map<std::string, TensorView>& outputs,
                                          const WorkspaceMemory& workspace) override;
  void write_in_place(std::set<std::string> outputs) override { written_in_place_ = std::move(outputs); }
  std::optional<DirectOrder> direct_order(const std::string& input, const Sizes& shape) override;
  std::size_t workspace_bytes(const NamedSizes& inputs) override;
  NamedSizes output_shapes(const NamedSizes& inputs) const override;
  MemoryReport memory(const NamedSizes& inputs) override;
  std::vector<std::string> host_steps(const NamedSizes& inputs) override {
    return plan(logical_sizes(inputs))->plan()->launches.unserved();
  }
  const Network& given() const override { return given_; }
  const FusionReport& report() const override { return report_; }

 private:
  const Network& net() const { return fused_.network; }
  std::vector<Sizes> logical_sizes(const NamedSizes& inputs) const;
  /// `direct`: Plan::direct; without it as if all weights lie so.
  std::shared_ptr<WorkspacePool> plan(const std::vector<Sizes>& inputs, std::vector<bool> direct);
  std::shared_ptr<WorkspacePool> plan(const std::vector<Sizes>& inputs) {
    return plan(inputs, network::gpu::may_be_direct(fused_, inputs, options_));
  }
  std::shared_ptr<WorkspacePool> cached(const std::vector<Sizes>& inputs, const std::vector<bool>& direct);
  std::vector<DType> dtypes(TensorId id) const;
  std::shared_ptr<WorkspacePool> checked(const std::map<std::string, ConstTensorView>& inputs,
                                         const std::map<std::string, TensorView>& outputs, CallerViews& views);
  /// The same for `caller`, of tensors in the GPU's memory.
  std::shared_ptr<WorkspacePool> checked_on_device(const std::map<std::string, ConstTensorView>& inputs,
                                                   const std::map<std::string, TensorView>& outputs, CallerViews& views,
                                                   const char* caller);

  Network given_;
  NetworkOptions options_;
  plan::Device device_;
  network::FusedNetwork fused_;
  FusionReport report_;
  network::Constants data_;
  network::gpu::DeviceConstants constants_;
  std::set<std::string> written_in_place_;

  std::mutex planning_;                              // one thread plans at a time; guards constants_
  std::mutex cache_;                                 // guards plans_
  std::list<std::shared_ptr<WorkspacePool>> plans_;  // used last first
  network::gpu::CapturedRuns captured_;
};

std::vector<Sizes> CudaNetwork::logical_sizes(const NamedSizes& inputs) const {
  network::check_names(net(), net().inputs, inputs, "input");
  std::vector<Sizes> sizes;
  for (const TensorId id : net().inputs)
    sizes.push_back(network::to_logical(inputs.at(net()[id].name), options_.layout));
  return sizes;
}

NamedSizes CudaNetwork::output_shapes(const NamedSizes& inputs) const {
  const auto shapes = network::concrete_shapes(net(), logical_sizes(inputs));
  NamedSizes result;
  for (const TensorId id : net().outputs) result[net()[id].name] = network::from_logical(shapes[id], options_.layout);
  return result;
}

std::optional<DirectOrder> CudaNetwork::direct_order(const std::string& input, const Sizes& given) {
  const Network& n = net();
  const auto at = std::ranges::find_if(n.inputs, [&](TensorId id) { return n[id].name == input; });
  const Sizes shape = network::to_logical(given, options_.layout);
  const auto number = static_cast<std::size_t>(at - n.inputs.begin());
  if (at == n.inputs.end() || !network::gpu::may_be_direct(fused_, number, shape, options_)) return std::nullopt;
  const Sizes strides = network::logical_strides(shape, network::column_count(shape));
  return DirectOrder{network::gpu::type_of_input(fused_, number, options_),
                     network::from_logical(strides, options_.layout)};
}

// Weights may come so that each is copied
std::size_t CudaNetwork::workspace_bytes(const NamedSizes& inputs) {
  const std::vector<Sizes> sizes = logical_sizes(inputs);
  const std::size_t bytes = plan(sizes)->plan()->bytes;
  if (options_.weights.empty()) return bytes;
  return std::max(bytes, plan(sizes, std::vector<bool>(sizes.size(), false))->plan()->bytes);
}

std::shared_ptr<WorkspacePool> CudaNetwork::cached(const std::vector<Sizes>& inputs, const std::vector<bool>& direct) {
  const std::lock_guard lock(cache_);
  const auto it = std::ranges::find_if(
      plans_, [&](const auto& p) { return p->plan()->inputs == inputs && p->plan()->direct == direct; });
  if (it == plans_.end()) return nullptr;
  plans_.splice(plans_.begin(), plans_, it);
  return plans_.front();
}

std::shared_ptr<WorkspacePool> CudaNetwork::plan(const std::vector<Sizes>& inputs, std::vector<bool> direct) {
  direct.resize(net().inputs.size() + net().outputs.size());  // outputs that nothing is said of are copied
  if (auto p = cached(inputs, direct)) return p;
  const std::lock_guard planning(planning_);
  if (auto p = cached(inputs, direct)) return p;
  const auto made = network::gpu::make_plan(fused_, constants_, device_, inputs, direct, options_);
  network::gpu::load(*made, options_);
  const auto p = std::make_shared<WorkspacePool>(made);
  const std::lock_guard lock(cache_);
  plans_.push_front(p);
  if (plans_.size() > options_.cached_plans) plans_.pop_back();
  return p;
}

// Those of the network as it was given: one of 16 bits is f32 in net(), see with_short_borders()
std::vector<DType> CudaNetwork::dtypes(TensorId id) const {
  const auto given = [&](const std::vector<TensorId>& mine, const std::vector<TensorId>& theirs) {
    const auto at = std::find(mine.begin(), mine.end(), id);
    return at == mine.end() ? std::optional<DType>() : given_[theirs[at - mine.begin()]].dtype;
  };
  const auto as_input = given(net().inputs, given_.inputs), as_output = given(net().outputs, given_.outputs);
  const DType own = as_input ? *as_input : as_output.value_or(net()[id].dtype);
  if (own == DType::f32) return {DType::f32, DType::bf16, DType::f16};
  return {own};
}

std::shared_ptr<WorkspacePool> CudaNetwork::checked(const std::map<std::string, ConstTensorView>& inputs,
                                                    const std::map<std::string, TensorView>& outputs,
                                                    CallerViews& views) {
  network::check_names(net(), net().inputs, inputs, "input");
  network::check_names(net(), net().outputs, outputs, "output");
  const auto add = [&](ConstTensorView v) {
    v.shape = network::to_logical(v.shape, options_.layout);
    v.strides = network::to_logical(v.strides, options_.layout);
    views.push_back(std::move(v));
  };
  std::vector<Sizes> sizes;
  for (const TensorId id : net().inputs) {
    const ConstTensorView& given = inputs.at(net()[id].name);
    add(network::checked_view(given, given.shape, "input", net()[id], dtypes(id)));
    sizes.push_back(views.back().shape);
  }
  const std::vector<bool> direct = network::gpu::direct_inputs(fused_, views, options_);
  // What is written in place is known with the outputs, which must not be planned for twice
  auto p = written_in_place_.empty() ? plan(sizes, direct) : nullptr;
  const std::vector<Sizes> shapes = p ? std::vector<Sizes>() : network::concrete_shapes(net(), sizes);
  std::vector<Sizes> expected;
  for (const TensorId id : net().outputs)
    expected.push_back(network::from_logical(p ? p->plan()->storage.shapes[id] : shapes[id], options_.layout));
  const auto types = [&](TensorId id) { return dtypes(id); };
  for (const TensorView& v : network::checked_outputs(net(), outputs, expected, types)) add(v);
  std::vector<bool> apart = network::gpu::without_written(direct, views);
  if (p && apart == direct) return p;
  const auto written = network::gpu::direct_outputs(fused_, views, written_in_place_, options_.device_index);
  apart.insert(apart.end(), written.begin(), written.end());
  return plan(sizes, std::move(apart));
}

// What the peaks of a GPU allow
double floor_us(const network::gpu::StepText& s, const plan::Device& device) {
  if (s.on_host) return 0;
  return std::max(s.flop / device.tensor_tflops, s.bytes / device.memory_tbps) / 1e6;
}

void CudaNetwork::run(const std::map<std::string, ConstTensorView>& inputs,
                      const std::map<std::string, TensorView>& outputs, std::vector<StepTime>* profile) {
  const cuda::NamedRange range("unisono: run a network");
  check_cancelled();
  cuda::check_usable(options_.device_index);
  CallerViews views;
  const auto p = checked(inputs, outputs, views);
  auto workspace = p->borrow();
  const std::size_t given = net().inputs.size();
  if (profile) {
    const std::vector<double> times = workspace->enqueue_timed(views, given, workspace->stream());
    const auto steps = p->plan()->launches.in_order();
    profile->clear();
    for (std::size_t i = 0; i < times.size(); ++i) {
      const network::gpu::StepText& s = *steps[i];
      profile->push_back({s.name, s.what, times[i], s.how, s.flop, s.bytes, floor_us(s, device_) / 1000});
    }
  } else {
    workspace->enqueue(views, given, workspace->stream());
  }
  workspace->check_faults(p->plan()->launches, workspace->stream());
  workspace->collect(views, given, workspace->stream());
  p->give_back(std::move(workspace));  // after an exception it is freed instead
}

std::shared_ptr<WorkspacePool> CudaNetwork::checked_on_device(const std::map<std::string, ConstTensorView>& inputs,
                                                              const std::map<std::string, TensorView>& outputs,
                                                              CallerViews& views, const char* caller) {
  auto p = checked(inputs, outputs, views);
  for (const auto& v : views)
    if (element_count(v.shape) != 0 && !cuda::is_device_memory(options_.device_index, v.data))
      throw UserError(fmt::format(
          "NetworkExecutable::{} was given the address {}, which is not in the memory of GPU {}; copy the tensor "
          "there, or call run()",
          caller, v.data, options_.device_index));
  return p;
}

void CudaNetwork::enqueue(const std::map<std::string, ConstTensorView>& inputs,
                          const std::map<std::string, TensorView>& outputs, Stream stream) {
  const cuda::NamedRange range("unisono: enqueue a network");
  const bool is_captured = cuda::is_captured(options_.device_index, stream);
  CallerViews views;
  const auto p = checked_on_device(inputs, outputs, views, "enqueue");
  if (is_captured) {
    Workspace& run = captured_.take(p->plan(), stream,
                                    [&] { return std::make_unique<Workspace>(*p->plan(), Workspace::Way::recorded); });
    run.bind(views, net().inputs.size());
    return run.record(stream);
  }
  const std::lock_guard lock(p->streams_mutex);
  p->of_stream(cuda::stream_number(options_.device_index, stream)).enqueue(views, net().inputs.size(), stream);
}

std::shared_ptr<NetworkLaunchImpl> CudaNetwork::bind(const std::map<std::string, ConstTensorView>& inputs,
                                                     const std::map<std::string, TensorView>& outputs,
                                                     const WorkspaceMemory& workspace) {
  cuda::check_usable(options_.device_index);
  CallerViews views;
  const auto p = checked_on_device(inputs, outputs, views, "bind");
  return std::make_shared<network::gpu::CudaNetworkLaunch>(shared_from_this(), p->plan(), std::move(views), workspace);
}

MemoryReport memory_of(const Plan& p) {
  return {.arena = p.workspaces_offset,
          .without_reuse = p.storage.without_reuse + p.launches.scratch_bytes,
          .in_place = p.storage.in_place,
          .free_concats = p.storage.slices};
}

MemoryReport CudaNetwork::memory(const NamedSizes& inputs) {
  MemoryReport m = memory_of(*plan(logical_sizes(inputs))->plan());
  const std::lock_guard planning(planning_);
  m.constants = constants_.bytes();
  m.device_peak = cuda::peak_memory(options_.device_index);
  return m;
}

std::string first_sentence(std::string_view text) { return std::string(text.substr(0, text.find_first_of(":;\n"))); }

// The GPU of the options, or an H200 where there is none, and why
struct PlanningDevice {
  plan::Device device;
  std::string note;
};
PlanningDevice planning_device(const NetworkOptions& options) {
  try {
    return {cuda::open_device(options.device_index), ""};
  } catch (const DeviceError& error) {
    return {{}, first_sentence(error.what())};
  } catch (const Unsupported& error) {
    return {{}, first_sentence(error.what())};
  }
}

}  // namespace

namespace network {
std::shared_ptr<NetworkImpl> build_cuda(Network network, const NetworkOptions& options) {
  check_precision(options);
  gpu::check_weights(network, options);
  return std::make_shared<CudaNetwork>(std::move(network), options);
}
}  // namespace network

namespace network::gpu {

FusedNetwork fuse_for_gpu(const Network& given, const NetworkOptions& options) {
  const plan::Device device = usable_device(options, planning_device(options).device);
  return fuse(given, options.fuse, memory_style(device, options.precision));
}

std::set<std::string> tensors_in_f32(const Network& network, const NetworkOptions& options) {
  const FusedNetwork fused = fuse(network, options.fuse, memory_style(usable_device(options), options.precision));
  std::set<std::string> names, all;
  for (TensorId id = 0; id < fused.network.tensors.size(); ++id) {
    const NetworkTensor& t = fused.network[id];
    all.insert(t.name);
    if (t.dtype == DType::f32 && fused.own_type[id] && !t.is_constant()) names.insert(t.name);
  }
  std::erase_if(names, [&](const std::string& name) { return all.contains(rounded_copy_of(name)); });
  return names;
}

// A plan that is not loaded, and what it was made from
struct Unloaded {
  FusedNetwork fused;
  Constants data;
  DeviceConstants constants;
  std::shared_ptr<Plan> plan;

  Unloaded(const Network& given, const NetworkOptions& options, const NamedSizes& inputs, const plan::Device& device)
      : fused(fuse(given, options.fuse, memory_style(device, options.precision))),
        data(constants_of(fused.network)),
        constants(fused.network, data, options.precision) {
    const Network& n = fused.network;
    check_names(n, n.inputs, inputs, "input");
    std::vector<Sizes> sizes;
    for (const TensorId id : n.inputs) sizes.push_back(to_logical(inputs.at(n[id].name), options.layout));
    plan = make_plan(fused, constants, device, sizes, may_be_direct(fused, sizes, options), options);
  }
};

std::vector<jit::Request> requests(const Network& network, const NetworkOptions& options, const NamedSizes& inputs,
                                   const plan::Device& device) {
  const Unloaded u(network, options, inputs, device);
  std::vector<jit::Request> all;
  for (const auto& step : u.plan->launches.steps)
    if (auto request = step->request()) all.push_back(*std::move(request));
  return all;
}

std::vector<lower::Problem> tuning_problems(const Network& network, const NetworkOptions& options,
                                            const NamedSizes& inputs, const plan::Device& device) {
  const Unloaded u(network, options, inputs, device);
  std::vector<lower::Problem> all;
  for (const auto& step : u.plan->launches.steps)
    if (auto problem = step->problem()) all.push_back(std::move(*problem));
  return all;
}

PlannedReport planned_report(const Network& given, const NetworkOptions& options, const NamedSizes& inputs,
                             const std::optional<plan::Device>& wanted) {
  verify(given);
  check_precision(options);
  check_weights(given, options);
  DeviceReport report;
  PlanningDevice planning = wanted ? PlanningDevice{*wanted, "planned for it by name"} : planning_device(options);
  report.device = planning.device.name, report.device_note = std::move(planning.note);
  const plan::Device device = usable_device(options, planning.device);
  const Unloaded u(given, options, inputs, device);
  report.fusion = network::report(u.fused, given.operators.size());
  for (const StepText* s : u.plan->launches.in_order())
    report.launches.push_back(
        {s->name, s->what, s->how, s->flop, s->bytes, floor_us(*s, device), s->predicted_us, s->on_host});
  report.memory = memory_of(*u.plan);
  report.decisions = u.plan->decisions;
  return {std::move(report), u.constants.planned_bytes(), device};
}

}  // namespace network::gpu

DeviceReport explain_device(const Network& given, const NetworkOptions& options, const NamedSizes& inputs) {
  return network::gpu::planned_report(given, options, inputs).report;
}

}  // namespace unisono
