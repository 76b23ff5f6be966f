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
      given_.push_back({.name = t.name, .tensor = &t, .shape = extents_of_tensor(t), .type = t.dtype});
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

std::vector<ConstTensorView> DeviceSteps::checked(const Views& inputs) const {
  std::vector<ConstTensorView> all;
  for (const Given& g : given_) {
    const auto found = inputs.find(g.name);
    if (found == inputs.end()) throw UserError(fmt::format("Trainer: the input '{}' is missing", g.name));
    std::vector<DType> types{g.tensor->dtype};
    if (types[0] == DType::f32) types = {DType::f32, DType::bf16, DType::f16};
    ConstTensorView v = network::checked_view(found->second, g.shape, "input", *g.tensor, types);
    if (!lies_row_major(v) && cuda::is_device_memory(device_index_, v.data))
      throw UserError(
          fmt::format("Trainer: the input '{}' is in the GPU's memory with strides ({}); expected ({}), row-major and "
                      "without gaps, or a tensor in the host's memory",
                      g.name, fmt::join(v.strides, ","), fmt::join(row_major_strides(v.shape), ",")));
    all.push_back(std::move(v));
  }
  return all;
}

// Where the inputs of a lane lie, in the types in which they are given
void DeviceSteps::place(const std::vector<ConstTensorView>& inputs) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Given& g = given_[i];
    g.type = inputs[i].dtype, g.bytes = bytes_of_tensor(inputs[i]), g.offset = bytes;
    bytes += at_alignment(g.bytes);
  }
  bytes = std::max(bytes, place_alignment);
  for (Lane& lane : lanes_) {
    lane.staging = std::make_unique<cuda::PinnedMemory>(device_index_, bytes);
    lane.memory = std::make_unique<cuda::DeviceBuffer>(device_index_, bytes, "inputs of a training");
  }
}

void DeviceSteps::bind(const std::vector<ConstTensorView>& inputs) {
  const auto is_same = [&](const Given& g) {
    return g.type == inputs[static_cast<std::size_t>(&g - given_.data())].dtype;
  };
  if (launch_ && std::ranges::all_of(given_, is_same)) return;
  cuda::wait(device_index_, stream_.get());
  launch_.reset();
  place(inputs);
  Views views;
  for (const Given& g : given_)
    views[g.name] = {static_cast<std::byte*>(lanes_[0].memory->data()) + g.offset, g.type, g.shape, {}};
  add_own_inputs(views);
  launch_ = network_->bind(views, outputs(), {});
  launch_->follow(optimiser_.launches(launch_->status()));
  for (Given& g : given_) g.slot = launch_->slot("input " + g.name);
}

void DeviceSteps::copy_from_host(const ConstTensorView& from, const Given& given, Lane& lane) {
  std::byte* const staging = lane.staging->data() + given.offset;
  if (lies_row_major(from))
    std::memcpy(staging, from.data, given.bytes);
  else
    network::copy_strided(size_of(from.dtype), from.shape, from.data, from.strides, staging,
                          row_major_strides(from.shape));
  cuda::copy(device_index_, static_cast<std::byte*>(lane.memory->data()) + given.offset, staging, given.bytes,
             copy_stream_.get());
}

// Those of the host beside the step that runs, those of the GPU behind it
void DeviceSteps::copy_inputs(const std::vector<ConstTensorView>& inputs, Lane& lane) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Given& g = given_[i];
    if (g.bytes == 0) continue;
    std::byte* const to = static_cast<std::byte*>(lane.memory->data()) + g.offset;
    if (cuda::is_device_memory(device_index_, inputs[i].data))
      cuda::copy(device_index_, to, inputs[i].data, g.bytes, stream_.get());
    else
      copy_from_host(inputs[i], g, lane);
    launch_->rebind(g.slot, to);
  }
  lane.ready->record(copy_stream_.get());
  lane.ready->hold(stream_.get());
}

void DeviceSteps::begin(const Views& inputs, DeviceStep step) {
  check_cancelled();
  const std::vector<ConstTensorView> views = checked(inputs);
  bind(views);
  Lane& lane = lanes_[next_lane_];
  step.slot = static_cast<std::uint32_t>(next_lane_);
  copy_inputs(views, lane);
  optimiser_.prepare(step, stream_.get());
  launch_->enqueue(stream_.get());
  lane.done->record(stream_.get());
  begun_.push_back(std::exchange(next_lane_, (next_lane_ + 1) % lanes));
}

std::vector<StepTime> DeviceSteps::profile(const Views& inputs) {
  (void)checked(inputs);
  cuda::wait(device_index_, stream_.get());
  Views views = inputs;
  add_own_inputs(views);
  std::vector<StepTime> steps;
  network_->run(views, outputs(), &steps);
  return steps;
}

UpdateResult DeviceSteps::finish() {
  const std::size_t lane = begun_.front();
  lanes_[lane].done->wait();
  begun_.pop_front();
  return optimiser_.result(static_cast<std::uint32_t>(lane));
}

void DeviceSteps::recover() {
  begun_.clear();
  cuda::wait(device_index_, stream_.get());
  optimiser_.forget_failure(stream_.get());
  launch_->check_faults(stream_.get());
}

}  // namespace unisono::training
