#include "training/device_steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "network/caller.hpp"
#include "network/strided_copy.hpp"
#include "unisono/cancel.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

namespace {

constexpr std::size_t place_alignment = 256;

std::size_t at_alignment(std::size_t bytes) {
  return (bytes + place_alignment - 1) / place_alignment * place_alignment;
}

std::shared_ptr<NetworkImpl> built(const Network& network, const NetworkOptions& options) {
  verify(network);
  return network::build_cuda(network, options);
}

std::vector<std::int64_t> extents_of_tensor(const NetworkTensor& t) {
  std::vector<std::int64_t> all;
  for (const Dim& d : t.shape) all.push_back(d.value());
  return all;
}

bool lies_row_major(const ConstTensorView& v) {
  const std::vector<std::int64_t> rows = row_major_strides(v.shape);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (v.shape[i] != 1 && v.strides[i] != rows[i]) return false;
  return true;
}

std::size_t bytes_of_tensor(const ConstTensorView& v) {
  return static_cast<std::size_t>(element_count(v.shape)) * size_of(v.dtype);
}

// Whether the views differ in nothing but their address.
bool has_form_of(const ConstTensorView& a, const ConstTensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

void copy_packed(const ConstTensorView& from, std::byte* to) {
  if (lies_row_major(from))
    std::memcpy(to, from.data, bytes_of_tensor(from));
  else
    network::copy_strided(size_of(from.dtype), from.shape, from.data, from.strides, to, row_major_strides(from.shape));
}

[[noreturn]] void refuse_strides(const std::string& name, const ConstTensorView& v) {
  throw UserError(
      fmt::format("Trainer: the input '{}' is in the GPU's memory with strides ({}); expected ({}), row-major and "
                  "without gaps, or a tensor in the host's memory",
                  name, fmt::join(v.strides, ","), fmt::join(row_major_strides(v.shape), ",")));
}

}  // namespace

NetworkOptions with_weights(NetworkOptions options, const GradientNetwork& gradients) {
  for (const NetworkParameter& p : gradients.parameters) options.weights.insert(p.name);
  for (const TensorId id : gradients.network.inputs)
    if (const std::string& name = gradients.network[id].name; is_loss_scale(name)) options.weights.insert(name);
  return options;
}

DeviceSteps::DeviceSteps(const GradientNetwork& gradients, const NetworkOptions& network, const TrainerOptions& options,
                         std::vector<LearntParameter>& parameters, const std::vector<Statistic>& statistics)
    : gradients_(gradients),
      scales_loss_(options.loss_scaling.has_value()),
      device_index_(network.device_index),
      network_(built(gradients.network, with_weights(network, gradients))),
      parameters_(parameters),
      orders_(direct_orders()),
      device_orders_(device_orders()),
      stream_(device_index_),
      copy_stream_(device_index_),
      optimiser_(device_index_, options.optimiser, options.loss_scaling, options.statistics_momentum, parameters,
                 device_orders_, statistics) {
  for (const Statistic& s : statistics) statistic_counts_.push_back(s.values->size());
  for (Lane& lane : lanes_)
    lane.ready = std::make_unique<cuda::Event>(device_index_), lane.done = std::make_unique<cuda::Event>(device_index_);
  for (const TensorId id : gradients_.network.inputs) {
    const NetworkTensor& t = gradients_.network[id];
    const auto is_it = [&](const LearntParameter& p) { return p.name == t.name; };
    if (!is_loss_scale(t.name) && std::ranges::none_of(parameters_, is_it))
      given_.push_back(
          {.name = t.name, .tensor = &t, .shape = extents_of_tensor(t), .from = {}, .view = {}, .type = t.dtype});
  }
  std::set<std::string> in_place;
  for (const NetworkParameter& p : gradients_.parameters) in_place.insert(p.gradient);
  network_->write_in_place(std::move(in_place));
  upload();
}

std::vector<std::optional<DirectOrder>> DeviceSteps::direct_orders() const {
  std::vector<std::optional<DirectOrder>> all;
  for (const LearntParameter& p : parameters_) all.push_back(network_->direct_order(p.name, p.shape));
  return all;
}

std::vector<DeviceOrder> DeviceSteps::device_orders() const {
  std::vector<DeviceOrder> all;
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    DeviceOrder& order = all.emplace_back();
    order.is_rounded = orders_[i] && size_of(orders_[i]->dtype) == sizeof(std::uint16_t);
    order.is_f16 = order.is_rounded && orders_[i]->dtype == DType::f16;
    const std::vector<std::int64_t>& s = parameters_[i].shape;
    if (s.size() != 4) continue;
    order.channels = static_cast<std::size_t>(s[1]), order.taps = static_cast<std::size_t>(s[2] * s[3]);
  }
  return all;
}

// Channels last, as kernels read and write tensors of rank 4
std::vector<std::int64_t> DeviceSteps::strides_of(std::size_t parameter) const {
  const std::vector<std::int64_t>& s = parameters_[parameter].shape;
  return s.size() == 4 ? std::vector<std::int64_t>{s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]} : row_major_strides(s);
}

ConstTensorView DeviceSteps::values(std::size_t i, bool averaged) const {
  return {averaged ? optimiser_.average(i) : optimiser_.values(i), DType::f32, parameters_[i].shape, strides_of(i)};
}

// Where kernels read it: the copy, or the parameter itself, of which they have one made if it is not as they read it
ConstTensorView DeviceSteps::parameter_view(std::size_t i) const {
  if (!device_orders_[i].is_rounded) return values(i, false);
  return {optimiser_.rounded(i), orders_[i]->dtype, parameters_[i].shape, orders_[i]->strides};
}

void DeviceSteps::add_own_inputs(Views& views) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) views[parameters_[i].name] = parameter_view(i);
  for (std::size_t i = 0; scales_loss_ && i < loss_scale_inputs.size(); ++i)
    views[loss_scale_inputs[i]] = {&optimiser_.loss_scale()->factors[i], DType::f32, {}, {}};
}

std::map<std::string, TensorView> DeviceSteps::outputs() const {
  std::map<std::string, TensorView> all;
  all["loss"] = {optimiser_.loss(), DType::f32, {}, {}};
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    all[gradients_.parameters[i].gradient] = {optimiser_.gradient(i), DType::f32, parameters_[i].shape, strides_of(i)};
  for (std::size_t i = 0; i < statistic_counts_.size(); ++i) {
    const BatchStatistics& s = gradients_.statistics[i / 2];
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(statistic_counts_[i])};
    all[i % 2 == 0 ? s.mean_output : s.variance_output] = {optimiser_.batch_statistic(i), DType::f32, shape, {}};
  }
  return all;
}

void DeviceSteps::check(const Views& inputs) {
  for (Given& g : given_) {
    const auto found = inputs.find(g.name);
    if (found == inputs.end()) throw UserError(fmt::format("Trainer: the input '{}' is missing", g.name));
    const ConstTensorView& from = found->second;
    if (!g.from || from.data == nullptr || !has_form_of(from, *g.from)) {
      std::vector<DType> types{g.tensor->dtype};
      if (types[0] == DType::f32) types = {DType::f32, DType::bf16, DType::f16};
      g.view = network::checked_view(from, g.shape, "input", *g.tensor, types);
      g.from = from;
    }
    g.view.data = from.data;
  }
}

// Lays out a lane's memory for inputs that the host has, in the types in which they are given.
void DeviceSteps::place() {
  std::size_t bytes = 0;
  for (Given& g : given_) {
    g.type = g.view.dtype, g.bytes = bytes_of_tensor(g.view), g.offset = bytes;
    bytes += at_alignment(g.bytes);
  }
  bytes = std::max(bytes, place_alignment);
  for (Lane& lane : lanes_) {
    lane.staging = std::make_unique<cuda::PinnedMemory>(device_index_, bytes);
    lane.memory = std::make_unique<cuda::DeviceBuffer>(device_index_, bytes, "inputs of a training");
    lane.places.clear();
    for (const Given& g : given_) lane.places.push_back(static_cast<std::byte*>(lane.memory->data()) + g.offset);
  }
}

void DeviceSteps::bind() {
  if (lanes_.back().launch && std::ranges::all_of(given_, [](const Given& g) { return g.type == g.view.dtype; }))
    return;
  cuda::wait(device_index_, stream_.get());
  for (Lane& lane : lanes_) lane.launch.reset();
  place();
  for (std::size_t k = 0; k < lanes; ++k) {
    Lane& lane = lanes_[k];
    Views views;
    for (std::size_t i = 0; i < given_.size(); ++i)
      views[given_[i].name] = {lane.places[i], given_[i].type, given_[i].shape, {}};
    add_own_inputs(views);
    lane.launch = network_->bind(views, outputs(), k == 0 ? WorkspaceMemory{} : lanes_[0].launch->memory());
    lane.launch->follow(optimiser_.launches(lane.launch->status(), static_cast<std::uint32_t>(k)));
  }
  for (Given& g : given_) g.slot = lanes_[0].launch->slot("input " + g.name);
}

// Kernels read it at this place from now on.
void DeviceSteps::give(const Given& given, const void* place, Lane& lane) const {
  const void*& known = lane.places[static_cast<std::size_t>(&given - given_.data())];
  if (known == place) return;
  if (place == given.view.data)
    cuda::check_lies_on(device_index_, place, given.bytes, "the input '" + given.name + "'");
  lane.launch->rebind(given.slot, place);
  known = place;
}

// Inputs in the host's memory go over in one copy while the previous step runs; those in the GPU's are read in place.
void DeviceSteps::give_inputs(Lane& lane) {
  std::size_t begin = lane.memory->bytes(), end = 0;
  auto* const memory = static_cast<std::byte*>(lane.memory->data());
  for (const Given& g : given_) {
    if (g.bytes == 0) continue;
    if (cuda::is_device_memory(device_index_, g.view.data)) {
      if (!lies_row_major(g.view)) refuse_strides(g.name, g.view);
      give(g, g.view.data, lane);
      continue;
    }
    copy_packed(g.view, lane.staging->data() + g.offset);
    give(g, memory + g.offset, lane);
    begin = std::min(begin, g.offset), end = g.offset + g.bytes;
  }
  if (end == 0) return;
  cuda::copy(device_index_, memory + begin, lane.staging->data() + begin, end - begin, copy_stream_.get());
  lane.ready->record(copy_stream_.get());
  lane.ready->hold(stream_.get());
}

void DeviceSteps::begin(const Views& inputs, DeviceStep step) {
  check_cancelled();
  check(inputs);
  bind();
  Lane& lane = lanes_[next_lane_];
  step.slot = static_cast<std::uint32_t>(next_lane_);
  give_inputs(lane);
  optimiser_.prepare(step, stream_.get());
  lane.launch->enqueue(stream_.get());
  lane.done->record(stream_.get());
  next_lane_ = (next_lane_ + 1) % lanes, ++begun_;
}

std::vector<StepTime> DeviceSteps::profile(const Views& inputs) {
  check(inputs);
  cuda::wait(device_index_, stream_.get());
  Views views = inputs;
  add_own_inputs(views);
  std::vector<StepTime> steps;
  network_->run(views, outputs(), &steps);
  return steps;
}

UpdateResult DeviceSteps::finish() {
  const std::size_t lane = (next_lane_ + lanes - begun_) % lanes;
  lanes_[lane].done->wait();
  --begun_;
  return optimiser_.result(static_cast<std::uint32_t>(lane));
}

void DeviceSteps::recover() {
  begun_ = 0;
  cuda::wait(device_index_, stream_.get());
  optimiser_.forget_failure(stream_.get());
  lanes_[0].launch->check_faults(stream_.get());
}

}  // namespace unisono::training
