#include "network/cuda/plan.hpp"

#include <fmt/format.h>

#include <cstring>

#include "network/cuda/decide/passes.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/strided_copy.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t most_streams = 64;  // that have a workspace of a plan

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

int type_number(DType t) { return t == DType::f32 ? 0 : t == DType::bf16 ? 1 : 2; }

// Strides along image, line, pixel and channel
void set_strides(CallerTensor& t, const Sizes& strides) {
  std::fill_n(t.strides, 4, 0);
  if (strides.size() == 4) {
    t.strides[0] = strides[0], t.strides[1] = strides[2], t.strides[2] = strides[3], t.strides[3] = strides[1];
    return;
  }
  for (std::size_t i = 0; i < strides.size(); ++i) t.strides[4 - strides.size() + i] = strides[i];
}

std::size_t bytes_of_view(const ConstTensorView& v) {
  return static_cast<std::size_t>(element_count(v.shape)) * size_of(v.dtype);
}

// Whether the elements fill their memory, in whichever order: then they can be copied as they are
bool is_dense(const ConstTensorView& v) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < v.shape.size(); ++i) {
    if (v.strides[i] < 0) return false;
    last += (v.shape[i] - 1) * v.strides[i];
  }
  return last + 1 == element_count(v.shape);
}

// All bytes of a device's tensor are the caller's. Strides of any sign
void check_extent(int device_index, const ConstTensorView& v, const std::string& name) {
  if (element_count(v.shape) == 0) return;
  std::int64_t lowest = 0, highest = 0;
  for (std::size_t i = 0; i < v.shape.size(); ++i)
    (v.strides[i] < 0 ? lowest : highest) += (v.shape[i] - 1) * v.strides[i];
  const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
  cuda::check_lies_on(device_index, static_cast<const std::byte*>(v.data) + lowest * bytes,
                      static_cast<std::size_t>((highest - lowest + 1) * bytes), name);
}

void copy_view(const ConstTensorView& from, const Sizes& from_strides, void* to, const Sizes& to_strides) {
  copy_strided(size_of(from.dtype), from.shape, from.data, from_strides, to, to_strides);
}

}  // namespace

// ---- Workspaces

Workspace::Workspace(const Plan& plan, int device_index)
    : device_index_(device_index),
      memory_(
          std::make_unique<cuda::DeviceBuffer>(device_index, plan.bytes, "the tensors between a network's kernels")),
      names_(plan.callers),
      callers_(plan.callers.size()),
      staging_(plan.callers.size()),
      on_host_(plan.callers.size(), false),
      stream_(device_index) {
  auto* const base = static_cast<std::byte*>(memory_->data());
  bases_ = {base, base + plan.scratch_offset, base + plan.kept_offset, base + plan.callers_offset};
  std::vector<Launch> launches;
  std::vector<std::string> names;
  for (const auto& step : plan.launches.steps) {
    launches.push_back(step->bind(bases_));
    names.push_back(fmt::format("{}: {}", step->name, step->what));
  }
  if (!launches.empty())
    replay_ = std::make_unique<cuda::Replay>(device_index, std::move(launches), std::move(names), cuda::graph_by(),
                                             plan.launches.after);
}

CallerTensor Workspace::staged(const ConstTensorView& view, std::size_t position, bool input, Stream stream) {
  CallerTensor t{};
  t.type = type_number(view.dtype);
  set_strides(t, view.strides);
  on_host_[position] = false;
  if (element_count(view.shape) == 0) return t;
  t.memory = const_cast<void*>(view.data);
  if (cuda::is_device_memory(device_index_, view.data)) return t;
  on_host_[position] = true;
  const std::size_t bytes = bytes_of_view(view);
  auto& buffer = staging_[position];
  if (!buffer || buffer->bytes() < bytes) {
    buffer.reset();
    buffer = std::make_unique<cuda::DeviceBuffer>(device_index_, bytes, "a tensor of the host");
  }
  t.memory = buffer->data();
  const bool dense = is_dense(view);
  if (!dense) set_strides(t, row_major_strides(view.shape));
  if (!input) return t;
  if (dense) {
    cuda::copy(device_index_, t.memory, view.data, bytes, stream);
  } else {
    std::vector<std::byte> packed(bytes);
    copy_view(view, view.strides, packed.data(), row_major_strides(view.shape));
    cuda::copy(device_index_, t.memory, packed.data(), bytes, stream);
    cuda::wait(device_index_, stream);
  }
  return t;
}

void Workspace::bind(const CallerViews& views, std::size_t inputs, Stream stream) {
  std::vector<CallerTensor> callers;
  for (std::size_t i = 0; i < views.size(); ++i) callers.push_back(staged(views[i], i, i < inputs, stream));
  if (callers.empty() || std::memcmp(callers.data(), callers_.data(), callers.size() * sizeof(CallerTensor)) == 0)
    return;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (!on_host_[i]) check_extent(device_index_, views[i], names_.at(i));
  callers_ = std::move(callers);
  cuda::copy(device_index_, bases_.callers, callers_.data(), callers_.size() * sizeof(CallerTensor), stream);
}

void Workspace::enqueue(const CallerViews& views, std::size_t inputs, Stream stream) {
  bind(views, inputs, stream);
  if (replay_) replay_->enqueue(stream);
}

std::vector<double> Workspace::enqueue_timed(const CallerViews& views, std::size_t inputs, Stream stream) {
  bind(views, inputs, stream);
  return replay_ ? replay_->time_each(stream) : std::vector<double>{};
}

void Workspace::collect(const CallerViews& views, std::size_t inputs, Stream stream) {
  for (std::size_t i = inputs; i < views.size(); ++i) {
    if (!on_host_[i]) continue;
    const ConstTensorView& v = views[i];
    const std::size_t bytes = bytes_of_view(v);
    void* const to = const_cast<void*>(v.data);
    if (is_dense(v)) {
      cuda::copy(device_index_, to, callers_[i].memory, bytes, stream);
      continue;
    }
    std::vector<std::byte> packed(bytes);
    cuda::copy(device_index_, packed.data(), callers_[i].memory, bytes, stream);
    cuda::wait(device_index_, stream);
    copy_view({packed.data(), v.dtype, v.shape, {}}, row_major_strides(v.shape), to, v.strides);
  }
  cuda::wait(device_index_, stream);
}

// ---- Plans

std::unique_ptr<Workspace> Plan::borrow() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto w = std::move(idle_.back());
      idle_.pop_back();
      return w;
    }
  }
  return std::make_unique<Workspace>(*this, device_index);
}

void Plan::give_back(std::unique_ptr<Workspace> workspace) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

Workspace& Plan::of_stream(unsigned long long number) const {
  if (const auto found = by_stream_.find(number); found != by_stream_.end()) return *found->second;
  if (by_stream_.size() >= most_streams) by_stream_.clear();  // waits for the GPU
  return *by_stream_.emplace(number, std::make_unique<Workspace>(*this, device_index)).first->second;
}

std::shared_ptr<Plan> make_plan(const FusedNetwork& fused, DeviceConstants& constants, const plan::Device& device,
                                std::vector<Sizes> inputs, const NetworkOptions& options) {
  auto plan = std::make_shared<Plan>();
  const Network& n = fused.network;
  plan->inputs = std::move(inputs);
  plan->device_index = options.device_index;
  for (const TensorId id : n.inputs) plan->callers.push_back("input " + n[id].name);
  for (const TensorId id : n.outputs) plan->callers.push_back("output " + n[id].name);
  const std::vector<bool> none_in(n.inputs.size(), false), none_out(n.outputs.size(), false);
  plan->storage = plan_storage(fused, {plan->inputs, none_in, none_out, none_in, none_out}, options.reuse_memory);
  const PlanningInput in{fused, plan->storage, device, constants, options.precision, options.tuned};
  plan->launches = emit(in, decide(in));
  plan->scratch_offset = aligned(plan->storage.arena_bytes);
  plan->kept_offset = plan->scratch_offset + aligned(plan->launches.scratch_bytes);
  plan->callers_offset = plan->kept_offset + aligned(plan->launches.kept_bytes);
  plan->bytes = plan->callers_offset + aligned(plan->callers.size() * sizeof(CallerTensor));
  return plan;
}

void load(Plan& plan, const NetworkOptions& options) {
  static jit::Jit shared;
  std::vector<jit::Request> requests;
  for (const auto& step : plan.launches.steps) requests.push_back(step->request());
  jit::Settings settings;
  settings.jobs = options.threads;
  std::vector<jit::Binary> binaries =
      options.threads == 0 ? shared.compile(requests) : jit::Jit(settings).compile(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    plan.launches.steps[i]->load(plan.device_index, std::move(binaries[i]));
    for (const auto& constant : plan.launches.steps[i]->constants) constant->load(plan.device_index);
  }
}

}  // namespace unisono::network::gpu
