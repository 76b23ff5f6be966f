#include "network/cuda/run/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "network/strided_copy.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

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

Workspace::Workspace(const Plan& plan, Way way, void* memory)
    : device_index_(plan.device_index),
      table_(std::make_unique<cuda::DeviceBuffer>(device_index_,
                                                  std::max<std::size_t>(1, plan.callers.size() * sizeof(CallerTensor)),
                                                  "the table of a network's tensors")),
      names_(plan.callers),
      callers_(plan.callers.size()),
      staging_(plan.callers.size()),
      on_host_(plan.callers.size(), false) {
  if (memory == nullptr) {
    memory_ =
        std::make_unique<cuda::DeviceBuffer>(device_index_, plan.bytes, "the tensors between a network's kernels");
    memory = memory_->data();
  }
  auto* const base = static_cast<std::byte*>(memory);
  bases_ = {base, base + plan.scratch_offset, base + plan.kept_offset, static_cast<std::byte*>(table_->data())};
  make_launches(plan);
  if (way == Way::recorded) return;
  stream_.emplace(device_index_);
  std::vector<std::string> names;
  for (const auto& step : plan.launches.steps) names.push_back(fmt::format("{}: {}", step->name, step->what));
  if (!launches_.empty())
    replay_ = std::make_unique<cuda::Replay>(device_index_, launches_, std::move(names), cuda::graph_by(),
                                             plan.launches.after);
}

void Workspace::make_launches(const Plan& plan) {
  Bases bases = bases_;
  for (std::size_t i = 0; i < plan.launches.steps.size(); ++i) {
    bases.workspace = bases_.arena + plan.workspace_offsets.at(i);
    launches_.push_back(plan.launches.steps[i]->bind(bases));
  }
}

void check_element_alignment(const void* data, DType dtype, const std::string& what) {
  if (const auto address = reinterpret_cast<std::uintptr_t>(data); address % size_of(dtype) != 0)
    throw UserError(fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes, as its dtype is {}",
                                what, address, size_of(dtype), to_string(dtype)));
}

CallerTensor Workspace::staged(const ConstTensorView& view, std::size_t position, bool input, Stream stream) {
  CallerTensor t{};
  t.type = type_number(view.dtype);
  set_strides(t, view.strides);
  on_host_[position] = false;
  if (element_count(view.shape) == 0) return t;
  t.memory = const_cast<void*>(view.data);
  if (cuda::is_device_memory(device_index_, view.data)) {
    check_element_alignment(view.data, view.dtype, names_.at(position));
    return t;
  }
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

void Workspace::stage(const CallerViews& views, std::size_t inputs, Stream stream) {
  std::vector<CallerTensor> callers;
  for (std::size_t i = 0; i < views.size(); ++i) callers.push_back(staged(views[i], i, i < inputs, stream));
  if (callers.empty() || (written_ && std::memcmp(callers.data(), callers_.data(), table_bytes()) == 0)) return;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (!on_host_[i]) check_extent(device_index_, views[i], names_.at(i));
  callers_ = std::move(callers);
  written_ = false;
}

void Workspace::write_table(Stream stream) {
  if (written_ || callers_.empty()) return;
  replay_->copy_ahead(bases_.callers, callers_.data(), table_bytes(), stream);
  written_ = true;
}

void Workspace::enqueue(const CallerViews& views, std::size_t inputs, Stream stream) {
  stage(views, inputs, stream);
  replay(stream);
}

std::vector<double> Workspace::enqueue_timed(const CallerViews& views, std::size_t inputs, Stream stream) {
  stage(views, inputs, stream);
  if (!replay_) return {};
  write_table(stream);
  return replay_->time_each(stream);
}

void Workspace::bind(const CallerViews& views, std::size_t inputs) { stage(views, inputs, nullptr); }

void Workspace::rebind(std::size_t position, const void* data) {
  CallerTensor& t = callers_.at(position);
  if (t.memory == nullptr || t.memory == data) return;  // null: without elements
  t.memory = const_cast<void*>(data);
  written_ = false;
}

void Workspace::replay(Stream stream) {
  if (!replay_) return;
  write_table(stream);
  replay_->enqueue(stream);
}

void Workspace::record(Stream stream) {
  if (!callers_.empty()) table_->upload(callers_.data());
  for (const Launch& l : launches_) l.enqueue(stream);
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

}  // namespace unisono::network::gpu
