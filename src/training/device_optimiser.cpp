#include "training/device_optimiser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "jit/jit.hpp"
#include "lower/request.hpp"

namespace unisono::training {

namespace {

constexpr std::uint32_t update_threads = 256;  // tensor::kTeamThreads

std::string kernel_of(const std::string& entry, const std::string& function) {
  return fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({})\n{}(const __grid_constant__ unisono::UpdateParams p) {{\n"
      "    using namespace unisono;\n    begin();\n    update::{}(p);\n}}\n",
      update_threads, entry, function);
}

const std::string& update_source() {
  static const std::string source =
      "// What moves the parameters of a training.\n#include <unisono/update/update.cuh>\n" +
      kernel_of("unisono_square_gradients", "square_gradients") +
      kernel_of("unisono_update_adamw", "update<update::Adamw>") +
      kernel_of("unisono_update_sgd", "update<update::Sgd>") + kernel_of("unisono_round_values", "round_values");
  return source;
}

std::uint64_t padded(std::uint64_t count) { return (count + kUpdatePad - 1) / kUpdatePad * kUpdatePad; }

// Places of tensors in the arrays; the last is the end of these
std::vector<std::uint64_t> places_of(const std::vector<std::size_t>& counts) {
  std::vector<std::uint64_t> places{0};
  for (const std::size_t count : counts) places.push_back(places.back() + padded(count));
  return places;
}

void add_parts(std::vector<UpdatePart>& parts, std::uint64_t first, std::uint64_t count, std::uint32_t tensor,
               float factor) {
  UpdatePart of{};
  of.tensor = tensor, of.factor = factor;
  for (std::uint64_t i = 0; i < count; i += kUpdatePart) {
    of.first = first + i, of.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(kUpdatePart, count - i));
    parts.push_back(of);
  }
}

template <class T>
std::unique_ptr<cuda::DeviceBuffer> table_of(int device_index, const std::vector<T>& rows) {
  return rows.empty() ? nullptr
                      : std::make_unique<cuda::DeviceBuffer>(device_index, rows.data(), rows.size() * sizeof(T));
}

template <class T>
const T* rows_of(const std::unique_ptr<cuda::DeviceBuffer>& table) {
  return table == nullptr ? nullptr : static_cast<const T*>(table->data());
}

UpdateNumbers numbers_of(const Optimiser& o, double statistics_momentum) {
  return {.beta1_rest = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .beta2_rest = static_cast<float>(1 - o.beta2),
          .eps = static_cast<float>(o.eps),
          .momentum = static_cast<float>(o.momentum),
          .nesterov = o.nesterov ? 1u : 0u,
          .average = static_cast<float>(o.average),
          .average_rest = static_cast<float>(1 - o.average),
          .accumulated = static_cast<float>(o.accumulate),
          .statistics = static_cast<float>(statistics_momentum),
          .clip = o.clip_norm};
}

}  // namespace

DeviceOptimiser::DeviceOptimiser(int device_index, const Optimiser& o, const std::optional<LossScaling>& scaling,
                                 double statistics_momentum, std::vector<LearntParameter>& parameters,
                                 std::vector<DeviceOrder> orders, std::vector<Statistic> statistics)
    : device_index_(device_index),
      options_(o),
      scaling_(scaling),
      statistics_momentum_(statistics_momentum),
      parameters_(parameters),
      orders_(std::move(orders)),
      running_(std::move(statistics)) {
  place();
  place_statistics();
  const auto buffer = [&](std::size_t bytes, const char* what) {
    return std::make_unique<cuda::DeviceBuffer>(device_index_, bytes, what);
  };
  step_ = buffer(sizeof(UpdateStep) + kUpdateChoices * groups_.size() * sizeof(UpdateRates), "what a step is told");
  sums_ = buffer(std::size_t{kUpdateBuckets} * 2 * sizeof(double), "sums of a norm");
  loss_ = buffer(sizeof(float), "the loss");
  failed_ = buffer(sizeof(std::uint32_t), "whether a step failed");
  for (Buffer* b : {&scale_, &next_scale_}) *b = scaling ? buffer(sizeof(UpdateScale), "the loss's scale") : nullptr;
  if (scaling) set_scale(first_scale(*scaling));
  told_.emplace(device_index_, slots * step_->bytes());
  results_.emplace(device_index_, slots * sizeof(UpdateResult));
  load_kernels();
}

std::uint32_t DeviceOptimiser::group_of(const LearntParameter& p) {
  const Group group{p.weight_decay, p.learning_rate};
  const auto at = std::ranges::find(groups_, group);
  const auto number = static_cast<std::uint32_t>(at - groups_.begin());
  if (at == groups_.end()) groups_.push_back(group);
  return number;
}

void DeviceOptimiser::place() {
  std::vector<std::size_t> counts;
  for (const LearntParameter& p : parameters_) counts.push_back(p.values.size());
  firsts_ = places_of(counts);
  const auto array = [&](bool exists, const char* what, std::size_t element = sizeof(float)) {
    return exists ? std::make_unique<cuda::DeviceBuffer>(device_index_, firsts_.back() * element, what) : nullptr;
  };
  const LearntParameter& any = parameters_.front();
  values_ = array(true, "parameters"), gradients_ = array(true, "gradients");
  first_ = array(!any.first.empty(), "an optimiser's states");
  second_ = array(!any.second.empty(), "an optimiser's states");
  average_ = array(!any.average.empty(), "an average of parameters");
  accumulated_ = array(!any.accumulated.empty(), "accumulated gradients");
  const bool rounds = std::ranges::any_of(orders_, [](const DeviceOrder& o) { return o.is_rounded; });
  rounded_ = array(rounds, "parameters in 16 bits", sizeof(std::uint16_t));
  std::vector<UpdateTensor> tensors;
  std::vector<UpdatePart> parts;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    UpdateTensor t{};
    t.first = firsts_[i], t.group = group_of(parameters_[i]);
    t.is_f16 = orders_[i].is_f16 ? 1 : 0;
    if (orders_[i].is_rounded) t.rounded = static_cast<u16*>(rounded(i));
    tensors.push_back(t);
    add_parts(parts, firsts_[i], counts[i], static_cast<std::uint32_t>(i), 1);
  }
  parts_ = static_cast<std::uint32_t>(parts.size());
  tensors_table_ = table_of(device_index_, tensors), parts_table_ = table_of(device_index_, parts);
}

void DeviceOptimiser::place_statistics() {
  std::vector<std::size_t> counts;
  for (const Statistic& s : running_) counts.push_back(s.values->size());
  statistic_firsts_ = places_of(counts);
  if (running_.empty()) return;
  for (Buffer* b : {&statistics_, &batch_statistics_})
    *b = std::make_unique<cuda::DeviceBuffer>(device_index_, statistic_firsts_.back() * sizeof(float), "statistics");
  std::vector<UpdatePart> parts;
  for (std::size_t i = 0; i < running_.size(); ++i)
    add_parts(parts, statistic_firsts_[i], counts[i], 0, running_[i].factor);
  statistic_parts_ = static_cast<std::uint32_t>(parts.size());
  statistic_parts_table_ = table_of(device_index_, parts);
}

void DeviceOptimiser::load_kernels() {
  static jit::Jit shared;
  const bool is_adamw = options_.kind == Optimiser::Kind::adamw;
  std::vector<jit::Request> requests;
  for (const char* entry :
       {"unisono_square_gradients", is_adamw ? "unisono_update_adamw" : "unisono_update_sgd", "unisono_round_values"})
    requests.push_back({.source = update_source(),
                        .headers = lower::device_headers(),
                        .entry = entry,
                        .title = "moves the parameters of a training",
                        .arch = cuda::open_device(device_index_).arch()});
  const std::vector<jit::Binary> binaries = shared.compile(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    kernels_[requests[i].entry] = cuda::load_plain(device_index_, binaries[i], requests[i].entry, sizeof(UpdateParams));
}

UpdateParams DeviceOptimiser::parameters_of_launch(const void* status, std::uint32_t slot) const {
  UpdateParams p{};
  p.values = floats(values_, 0), p.gradients = floats(gradients_, 0);
  p.first = floats(first_, 0), p.second = floats(second_, 0);
  p.average = floats(average_, 0), p.accumulated = floats(accumulated_, 0);
  p.statistics = floats(statistics_, 0), p.batch_statistics = floats(batch_statistics_, 0);
  p.tensors = rows_of<UpdateTensor>(tensors_table_);
  p.parts = rows_of<UpdatePart>(parts_table_), p.statistic_parts = rows_of<UpdatePart>(statistic_parts_table_);
  p.told = reinterpret_cast<const u32*>(told(slot)), p.told_words = static_cast<u32>(step_->bytes() / sizeof(u32));
  p.step = static_cast<UpdateStep*>(step_->data()), p.rates = reinterpret_cast<const UpdateRates*>(p.step + 1);
  p.loss = loss(), p.status = static_cast<const TensorStatus*>(status);
  p.failed = static_cast<u32*>(failed_->data()), p.sums = static_cast<double*>(sums_->data());
  p.results = reinterpret_cast<UpdateResult*>(results_->data());
  p.scale = rows_of<UpdateScale>(scale_);
  if (scaling_) p.next_scale = static_cast<UpdateScale*>(next_scale_->data()), p.scaling = rule_of(*scaling_);
  p.numbers = numbers_of(options_, statistics_momentum_);
  p.part_count = parts_, p.statistic_part_count = statistic_parts_, p.buckets = std::clamp(parts_, 1u, kUpdateBuckets);
  return p;
}

Launch DeviceOptimiser::launch(const std::string& entry, std::uint32_t ctas, const UpdateParams& p) const {
  return cuda::bind_plain(kernels_.at(entry), {ctas, update_threads}, std::as_bytes(std::span(&p, 1)), entry);
}

std::vector<Launch> DeviceOptimiser::launches(const void* status, std::uint32_t slot) const {
  constexpr std::uint32_t ctas_of_an_sm = 8;
  const UpdateParams p = parameters_of_launch(status, slot);
  const auto most = ctas_of_an_sm * static_cast<std::uint32_t>(cuda::open_device(device_index_).sms);
  const bool is_adamw = options_.kind == Optimiser::Kind::adamw;
  return {launch("unisono_square_gradients", p.buckets, p),
          launch(is_adamw ? "unisono_update_adamw" : "unisono_update_sgd",
                 std::min(std::max(p.part_count, p.statistic_part_count), most), p)};
}

void DeviceOptimiser::prepare(const DeviceStep& step, Stream stream) {
  const UpdateStep head{.root = {root_of(options_, step.update), root_of(options_, step.update + 1)},
                        .update = static_cast<u64>(step.update),
                        .is_update = step.is_update ? 1u : 0u,
                        .slot = step.slot};
  std::byte* const bytes = told(step.slot);
  std::memcpy(bytes, &head, sizeof head);
  for (std::size_t i = 0; i < kUpdateChoices * groups_.size(); ++i) {
    const Group& group = groups_[i / kUpdateChoices];
    const Rates r = rates_of(options_, group.weight_decay, group.learning_rate, step.learning_rate,
                             step.update + static_cast<std::int64_t>(i % kUpdateChoices));
    const UpdateRates row{r.decay, r.rate};
    std::memcpy(bytes + sizeof head + i * sizeof row, &row, sizeof row);
  }
  if (scaling_) cuda::copy(device_index_, scale_->data(), next_scale_->data(), scale_->bytes(), stream);
}

void DeviceOptimiser::set_scale(const UpdateScale& scale) {
  for (const Buffer* b : {&scale_, &next_scale_}) (*b)->upload(&scale);
}

const UpdateResult& DeviceOptimiser::result(std::uint32_t slot) const {
  return reinterpret_cast<const UpdateResult*>(results_->data())[slot];
}

void DeviceOptimiser::forget_failure(Stream stream) {
  cuda::clear(device_index_, failed_->data(), failed_->bytes(), stream);
}

std::size_t DeviceOptimiser::place_of(std::size_t parameter, std::size_t element) const {
  const std::size_t channels = orders_[parameter].channels, taps = orders_[parameter].taps, of_filter = channels * taps;
  const std::size_t filter = element / of_filter, channel = element % of_filter / taps, tap = element % taps;
  return (filter * taps + tap) * channels + channel;
}

std::vector<float> DeviceOptimiser::in_order(std::size_t parameter, const std::vector<float>& values) const {
  std::vector<float> ordered(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) ordered[place_of(parameter, i)] = values[i];
  return ordered;
}

template <class F>
void DeviceOptimiser::for_arrays(const F& f) {
  const auto each = [&](const Buffer& buffer, std::vector<float> LearntParameter::*member) {
    if (buffer == nullptr) return;
    std::vector<std::vector<float>*> values;
    for (LearntParameter& p : parameters_) values.push_back(&(p.*member));
    f(*buffer, values, firsts_, true);
  };
  each(values_, &LearntParameter::values), each(first_, &LearntParameter::first);
  each(second_, &LearntParameter::second), each(average_, &LearntParameter::average);
  each(accumulated_, &LearntParameter::accumulated);
  if (statistics_ == nullptr) return;
  std::vector<std::vector<float>*> values;
  for (const Statistic& s : running_) values.push_back(s.values);
  f(*statistics_, values, statistic_firsts_, false);
}

void DeviceOptimiser::upload(Stream stream) {
  for_arrays([&](cuda::DeviceBuffer& buffer, const auto& values, const auto& firsts, bool parameters) {
    std::vector<float> all(buffer.bytes() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i)
      std::ranges::copy(parameters ? in_order(i, *values[i]) : *values[i],
                        all.begin() + static_cast<std::ptrdiff_t>(firsts[i]));
    buffer.upload(all.data());
  });
  if (rounded_ == nullptr) return;
  launch("unisono_round_values", std::min(parts_, 1024u), parameters_of_launch(nullptr, 0)).enqueue(stream);
}

void DeviceOptimiser::download() {
  for_arrays([&](const cuda::DeviceBuffer& buffer, const auto& values, const auto& firsts, bool parameters) {
    std::vector<float> all(buffer.bytes() / sizeof(float));
    buffer.download(all.data());
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t k = 0; k < values[i]->size(); ++k)
        (*values[i])[k] = all[firsts[i] + (parameters ? place_of(i, k) : k)];
  });
}

}  // namespace unisono::training
