#include "network/cuda/run/workspace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/pieces.hpp"
#include "network/cuda/run/host_copies.hpp"
#include "network/strided_copy.hpp"
#include "tensors/fault.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::uintptr_t direct_alignment = 256;  // of the arena's tensors, by which launches choose words

// Strides along image, line, pixel and channel; of a tensor with its own axes along these
void set_strides(CallerTensor& t, const Sizes& strides) {
  std::fill_n(t.strides, kCallerAxes, 0);
  if (strides.size() > 4) {
    std::copy(strides.begin(), strides.end(), t.strides);
    return;
  }
  if (strides.size() == 4) {
    t.strides[0] = strides[0], t.strides[1] = strides[2], t.strides[2] = strides[3], t.strides[3] = strides[1];
    return;
  }
  for (std::size_t i = 0; i < strides.size(); ++i) t.strides[4 - strides.size() + i] = strides[i];
}

// A tensor on the GPU as kernels find it. Floats with more than four axes are their rows
CallerTensor row_of(const ConstTensorView& v) {
  CallerTensor row{};
  row.memory = const_cast<void*>(v.data);
  row.type = codegen::element_code(v.dtype);
  const bool as_rows = v.shape.size() > 4 && !has_own_axes(v.shape.size(), v.dtype);
  set_strides(row, as_rows ? Sizes{v.shape.back(), 1} : v.strides);
  return row;
}

std::size_t rows_of_table(const Plan& plan) {
  std::size_t rows = plan.callers.size();
  for (const HostStep& step : plan.launches.host)
    for (const auto* list : {&step.inputs, &step.outputs})
      for (const HostTensor& t : *list) rows += t.staged ? 1 : 0;
  return rows;
}

bool is_row_major(const ConstTensorView& v) {
  const Sizes rows = row_major_strides(v.shape);
  for (std::size_t i = 0; i < v.shape.size(); ++i)
    if (v.shape[i] != 1 && v.strides[i] != rows[i]) return false;
  return true;
}

// Whether kernels can read or write a copy of the memory as it is
bool is_copied_whole(const ConstTensorView& v) {
  return is_dense(v) && (v.shape.size() <= 4 || has_own_axes(v.shape.size(), v.dtype) || is_row_major(v));
}

bool is_same_place(const ConstTensorView& a, const ConstTensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.strides == b.strides;
}

std::size_t bytes_of_view(const ConstTensorView& v) {
  return static_cast<std::size_t>(element_count(v.shape)) * size_of(v.dtype);
}

// All bytes of a device's tensor are the caller's
void check_extent(int device_index, const ConstTensorView& v, const std::string& name) {
  if (element_count(v.shape) == 0) return;
  const ViewExtent extent = extent_of(v);
  const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
  cuda::check_lies_on(device_index, static_cast<const std::byte*>(v.data) + extent.lowest * bytes,
                      static_cast<std::size_t>(extent.count * bytes), name);
}

void check_rows(const ConstTensorView& v, const std::string& name) {
  if (v.shape.size() > 4 && !has_own_axes(v.shape.size(), v.dtype) && !is_row_major(v))
    throw UserError(
        fmt::format("{} has {} axes and strides ({}); kernels take floats of more than four axes row-major "
                    "and without gaps, ({})",
                    name, v.shape.size(), fmt::join(v.strides, ","), fmt::join(row_major_strides(v.shape), ",")));
}

void copy_view(const ConstTensorView& from, const Sizes& from_strides, void* to, const Sizes& to_strides) {
  copy_strided(size_of(from.dtype), from.shape, from.data, from_strides, to, to_strides);
}

}  // namespace

Workspace::Workspace(const Plan& plan, Way way, void* memory)
    : plan_(plan),
      way_(way),
      device_index_(plan.device_index),
      table_(std::make_unique<cuda::DeviceBuffer>(device_index_,
                                                  std::max<std::size_t>(1, rows_of_table(plan) * sizeof(CallerTensor)),
                                                  "the table of a network's tensors")),
      names_(plan.callers),
      host_only_(plan.host_only),
      callers_(rows_of_table(plan)),
      staging_(plan.callers.size()),
      on_host_(plan.callers.size(), false) {
  if (memory == nullptr) {
    memory_ =
        std::make_unique<cuda::DeviceBuffer>(device_index_, plan.bytes, "the tensors between a network's kernels");
    memory = memory_->data();
  }
  auto* const base = static_cast<std::byte*>(memory);
  bases_ = {base, base + plan.scratch_offset, base + plan.kept_offset, static_cast<std::byte*>(table_->data())};
  bases_.given.resize(plan.direct.size());
  place_host_tensors(plan);
  if (way == Way::replayed) stream_.emplace(device_index_);
  if (std::ranges::find(plan.direct, true) == plan.direct.end()) make_launches();
}

void Workspace::place_host_tensors(const Plan& plan) {
  std::byte* const staging = bases_.arena + plan.staging_offset;
  for (const HostStep& step : plan.launches.host)
    for (const auto* list : {&step.inputs, &step.outputs})
      for (const HostTensor& t : *list)
        if (t.staged)
          callers_.at(t.staged->position) = row_of({staging + t.staged->offset, t.type, t.shape, t.strides});
}

void Workspace::make_launches() {
  Bases bases = bases_;
  launches_.clear();
  for (std::size_t i = 0; i < plan_.launches.steps.size(); ++i) {
    bases.workspace = bases_.arena + plan_.workspace_offsets.at(i);
    launches_.push_back(plan_.launches.steps[i]->bind(bases));
  }
  if (way_ == Way::replayed) segments_.emplace(plan_, launches_, bases_.arena + plan_.staging_offset, following_);
  is_launched_ = true;
}

void Workspace::follow(std::vector<Launch> launches) {
  following_ = std::move(launches);
  if (way_ == Way::replayed) is_launched_ = false;  // they are part of its graph
}

void Workspace::launch_given(Stream stream) {
  bool is_launched = is_launched_;
  for (std::size_t i = 0; i < plan_.direct.size(); ++i)
    if (plan_.direct[i])
      is_launched &= std::exchange(bases_.given[i], const_cast<void*>(views_.at(i).data)) == views_[i].data;
  if (is_launched) return;
  if (segments_) cuda::wait(device_index_, stream);  // for what is replayed still
  segments_.reset();
  is_launched_ = false;
  make_launches();
}

void check_element_alignment(const void* data, DType dtype, const std::string& what) {
  if (const auto address = reinterpret_cast<std::uintptr_t>(data); address % size_of(dtype) != 0)
    throw UserError(fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes, as its dtype is {}",
                                what, address, size_of(dtype), to_string(dtype)));
}

bool is_directly_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % direct_alignment == 0; }

void check_direct_alignment(const void* data, const std::string& what) {
  if (!is_directly_aligned(data))
    throw UserError(
        fmt::format("{} was given the address {}; expected a multiple of {} bytes, as kernels read it there", what,
                    data, direct_alignment));
}

ConstTensorView Workspace::staged(const ConstTensorView& view, std::size_t position, bool input, Stream stream) {
  ConstTensorView there = view;
  on_host_[position] = false;
  if (element_count(view.shape) == 0) {
    there.data = nullptr;
    return there;
  }
  const bool by_kernels = !host_only_.contains(position);
  if (cuda::is_device_memory(device_index_, view.data)) {
    check_element_alignment(view.data, view.dtype, names_.at(position));
    if (by_kernels) check_rows(view, names_.at(position));
    return there;
  }
  on_host_[position] = true;
  if (!by_kernels) return there;
  const std::size_t bytes = bytes_of_view(view);
  auto& buffer = staging_[position];
  if (!buffer || buffer->bytes() < bytes) {
    buffer.reset();
    buffer = std::make_unique<cuda::DeviceBuffer>(device_index_, bytes, "a tensor of the host");
  }
  there.data = buffer->data();
  if (!is_copied_whole(view)) there.strides = row_major_strides(view.shape);
  if (input) copy_there(view, there, stream);
  return there;
}

void Workspace::copy_there(const ConstTensorView& view, const ConstTensorView& there, Stream stream) {
  void* const to = const_cast<void*>(there.data);
  const std::size_t bytes = bytes_of_view(view);
  if (is_copied_whole(view)) return cuda::copy(device_index_, to, view.data, bytes, stream);
  std::vector<std::byte> packed(bytes);
  copy_view(view, view.strides, packed.data(), there.strides);
  cuda::copy(device_index_, to, packed.data(), bytes, stream);
  cuda::wait(device_index_, stream);
}

void Workspace::stage(const CallerViews& views, std::size_t inputs, Stream stream) {
  CallerViews there;
  for (std::size_t i = 0; i < views.size(); ++i) there.push_back(staged(views[i], i, i < inputs, stream));
  if (there.empty() || (written_ && std::ranges::equal(there, views_, is_same_place))) return;
  for (std::size_t i = 0; i < views.size(); ++i)
    if (!on_host_[i]) check_extent(device_index_, views[i], names_.at(i));
  std::ranges::transform(there, callers_.begin(), row_of);
  views_ = std::move(there);
  written_ = false;
}

void Workspace::write_table(Stream stream) {
  if (written_ || callers_.empty()) return;
  segments_->copy_ahead(bases_.callers, callers_.data(), table_bytes(), stream);
  written_ = true;
}

void Workspace::enqueue(const CallerViews& views, std::size_t inputs, Stream stream) {
  stage(views, inputs, stream);
  replay(stream);
}

std::vector<double> Workspace::enqueue_timed(const CallerViews& views, std::size_t inputs, Stream stream) {
  stage(views, inputs, stream);
  launch_given(stream);
  write_table(stream);
  return segments_->time_each(views_, stream);
}

void Workspace::bind(const CallerViews& views, std::size_t inputs) {
  stage(views, inputs, nullptr);
  launch_given(nullptr);
}

void Workspace::rebind(std::size_t position, const void* data) {
  ConstTensorView& view = views_.at(position);
  if (view.data == nullptr || view.data == data) return;  // null: without elements
  view.data = data;
  callers_.at(position).memory = const_cast<void*>(data);
  written_ = false;
}

void Workspace::replay(Stream stream) {
  launch_given(stream);
  write_table(stream);
  segments_->replay(views_, stream);
}

void Workspace::record(Stream stream) {
  if (!callers_.empty()) table_->upload(callers_.data());
  for (const auto* list : {&launches_, &following_})
    for (const Launch& l : *list) l.enqueue(stream);
}

void Workspace::check_faults(const LaunchSequence& launches, Stream stream) const {
  if (!launches.status) return;
  TensorStatus status{};
  cuda::copy(device_index_, &status, address(*launches.status, bases_), sizeof status, stream);
  cuda::wait(device_index_, stream);
  if (const std::string fault = tensors::text_of(status); !fault.empty())
    throw UserError(fmt::format("{}: {}", launches.may_fail.at(status.launch), fault));
}

void Workspace::forget_faults(const LaunchSequence& launches, Stream stream) const {
  if (launches.status) cuda::clear(device_index_, address(*launches.status, bases_), sizeof(TensorStatus), stream);
}

const void* Workspace::status(const LaunchSequence& launches) const {
  return launches.status ? address(*launches.status, bases_) : nullptr;
}

void Workspace::collect(const CallerViews& views, std::size_t inputs, Stream stream) {
  for (std::size_t i = inputs; i < views.size(); ++i) {
    if (!on_host_[i] || host_only_.contains(i)) continue;
    const ConstTensorView& v = views[i];
    const std::size_t bytes = bytes_of_view(v);
    void* const to = const_cast<void*>(v.data);
    if (is_copied_whole(v)) {
      cuda::copy(device_index_, to, views_[i].data, bytes, stream);
      continue;
    }
    std::vector<std::byte> packed(bytes);
    cuda::copy(device_index_, packed.data(), views_[i].data, bytes, stream);
    cuda::wait(device_index_, stream);
    copy_view({packed.data(), v.dtype, v.shape, {}}, row_major_strides(v.shape), to, v.strides);
  }
  cuda::wait(device_index_, stream);
}

}  // namespace unisono::network::gpu
