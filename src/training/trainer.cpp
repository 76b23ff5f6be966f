#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "training/trainer_impl.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

TrainerOptions checked(TrainerOptions options) {
  training::check(options.optimiser);
  if (options.loss_scaling) training::check(*options.loss_scaling);
  if (!(options.statistics_momentum >= 0 && options.statistics_momentum <= 1))
    throw UserError(fmt::format("Trainer: statistics_momentum is {}; expected 0 to 1", options.statistics_momentum));
  return options;
}

NetworkOptions compiled_with(const TrainerOptions& options) {
  return {.device = options.device,
          .threads = options.threads,
          .device_index = options.device_index,
          .precision = options.precision};
}

// Variances are stored unbiased, as PyTorch has them
float unbiased_factor(std::int64_t count) {
  const auto n = static_cast<double>(count);
  return static_cast<float>(n > 1 ? n / (n - 1) : 1);
}

[[noreturn]] void refuse_numbers(std::int64_t step, double loss, double norm, const std::string& scale) {
  throw UserError(fmt::format(
      "Trainer: in step {} the loss is {} and the norm of its gradients {}{}; lower the learning rate, clip "
      "gradients (Optimiser::clip_norm), or look for such numbers among the inputs",
      step, loss, norm, scale));
}

// What an error says of a scale that cannot be lowered any more
std::string scale_text(const UpdateScale& s) {
  return fmt::format(", at a loss scale of {} after {} skipped updates", s.scale, s.skipped);
}

std::vector<std::int64_t> numbers(const Shape& shape) {
  std::vector<std::int64_t> all;
  for (const Dim& d : shape) all.push_back(d.value());
  return all;
}

}  // namespace

TrainerImpl::TrainerImpl(Network network, const Loss& loss, const TrainerOptions& options)
    : network_(std::move(network)),
      options_(checked(options)),
      gradients_(unisono::gradients(network_, loss, gradient_options())),
      given_(inputs_but_parameters()),
      loss_(loss),
      parameters_(training::learnt_parameters(gradients_.parameters, options.optimiser)) {
  if (parameters_.empty()) throw UserError("Trainer: the network has no parameters");
  for (const BatchStatistics& s : gradients_.statistics) {
    for (const NetworkParameter& p : gradients_.parameters)
      if (p.constant == s.mean || p.constant == s.variance)
        throw UserError(fmt::format("Trainer: '{}' is a stored statistic of batch normalisation '{}', and no parameter",
                                    p.name, s.name));
    const auto &mean = *network_[s.mean].constant, &variance = *network_[s.variance].constant;
    running_.push_back({s, mean, variance, std::vector<float>(mean.size()), std::vector<float>(variance.size())});
  }
  if (options_.loss_scaling) scale_ = training::first_scale(*options_.loss_scaling);
  if (options_.device == Device::cpu)
    begin_on_cpu();
  else
    device_ = std::make_unique<training::DeviceSteps>(gradients_, compiled_with(options_), options_, parameters_,
                                                      statistics());
}

GradientOptions TrainerImpl::gradient_options() const {
  return {.extents = options_.extents,
          .parameters = options_.parameters,
          .loss_scale = scales_loss() ? training::loss_scale_name : ""};
}

void TrainerImpl::begin_on_cpu() {
  executable_ = compile(gradients_.network, compiled_with(options_));
  for (const training::LearntParameter& p : parameters_) gradient_values_.emplace_back(p.values.size());
  outputs_["loss"] = {&loss_value_, DType::f32, {}, {}};
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    outputs_[gradients_.parameters[i].gradient] = {gradient_values_[i].data(), DType::f32, parameters_[i].shape, {}};
  for (Running& r : running_) {
    const auto channels = static_cast<std::int64_t>(r.mean.size());
    outputs_[r.of.mean_output] = {r.batch_mean.data(), DType::f32, {channels}, {}};
    outputs_[r.of.variance_output] = {r.batch_variance.data(), DType::f32, {channels}, {}};
  }
}

std::vector<training::Statistic> TrainerImpl::statistics() {
  std::vector<training::Statistic> all;
  for (Running& r : running_) {
    all.push_back({&r.mean, 1});
    all.push_back({&r.variance, unbiased_factor(r.of.count)});
  }
  return all;
}

std::vector<const NetworkTensor*> TrainerImpl::inputs_but_parameters() const {
  std::vector<const NetworkTensor*> tensors;
  for (const TensorId id : gradients_.network.inputs) {
    const NetworkTensor& t = gradients_.network[id];
    const auto is_it = [&](const NetworkParameter& p) { return p.name == t.name; };
    if (!training::is_loss_scale(t.name) &&
        std::none_of(gradients_.parameters.begin(), gradients_.parameters.end(), is_it))
      tensors.push_back(&t);
  }
  return tensors;
}

void TrainerImpl::check_given(const Views& inputs) const {
  for (const auto& [name, view] : inputs) {
    if (std::ranges::find(given_, name, &NetworkTensor::name) != given_.end()) continue;
    std::vector<std::string> expected;
    for (const NetworkTensor* t : given_) expected.push_back(t->name);
    throw UserError(fmt::format("Trainer: '{}' is not an input; expected {}", name, fmt::join(expected, ", ")));
  }
}

void TrainerImpl::add_parameters(Views& inputs, bool averaged) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const training::LearntParameter& p = parameters_[i];
    const float* const values = averaged ? p.average.data() : p.values.data();
    inputs[p.name] = device_ ? device_->values(i, averaged) : ConstTensorView{values, DType::f32, p.shape, {}};
  }
}

void TrainerImpl::require_average(bool averaged) const {
  if (averaged && options_.optimiser.average == 0)
    throw UserError("Trainer: there is no average of the parameters; set Optimiser::average");
}

StepResult TrainerImpl::step(const Views& inputs, double learning_rate) {
  finish_step();
  begin_step(inputs, learning_rate);
  return *finish_step();
}

std::optional<StepResult> TrainerImpl::begin_step(const Views& inputs, double learning_rate) {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
    throw UserError(fmt::format("Trainer: the learning rate is {}; expected a number of at least 0", learning_rate));
  check_given(inputs);
  if (!device_) {
    const StepResult result = step_on_cpu(inputs, learning_rate);
    return std::exchange(done_, result);
  }
  const bool updates = (steps_ + 1) % options_.optimiser.accumulate == 0;
  const bool is_sure = !scales_loss() && !begun_.empty() && begun_.front().updates_parameters;
  device_->begin(inputs,
                 {.learning_rate = learning_rate, .update = updates_ + (is_sure ? 2 : 1), .is_update = updates});
  begun_.push_back({steps_, updates});
  ++steps_;
  if (begun_.size() > 1) done_ = finish_on_device();
  return std::exchange(done_, std::nullopt);
}

std::optional<StepResult> TrainerImpl::finish_step() {
  settle();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return std::exchange(done_, std::nullopt);
}

StepResult TrainerImpl::finish_on_device() {
  const Begun begun = begun_.front();
  const UpdateResult result = device_->finish();
  begun_.pop_front();
  if (result.outcome == kMoved || result.outcome == kSkipped) {
    StepResult step{.loss = result.loss, .skipped = result.outcome == kSkipped};
    step.updated = begun.updates_parameters && !step.skipped;
    if (step.updated) step.gradient_norm = result.norm, ++updates_;
    if (scales_loss()) step.loss_scale = scale_.scale, scale_ = result.scale;
    return step;
  }
  begun_.clear();
  steps_ = begun.steps;
  device_->recover();
  refuse_numbers(steps_ + 1, result.loss, result.own_norm, scales_loss() ? scale_text(scale_) : "");
}

void TrainerImpl::settle() {
  if (begun_.empty()) return;
  try {
    done_ = finish_on_device();
  } catch (const UserError&) {
    failure_ = std::current_exception();
  }
}

void TrainerImpl::fetch() {
  settle();
  if (device_) device_->download();
}

void TrainerImpl::run_on_cpu(const Views& inputs, std::vector<StepTime>* steps) {
  Views all = inputs;
  add_parameters(all, false);
  for (std::size_t i = 0; scales_loss() && i < training::loss_scale_inputs.size(); ++i)
    all[training::loss_scale_inputs[i]] = {&scale_.factors[i], DType::f32, {}, {}};
  executable_->run(all, outputs_, steps);
}

// Whether the step moves nothing but the loss's scale
bool TrainerImpl::skips(double own_norm, bool is_update) const {
  const bool is_finite = std::isfinite(loss_value_) && std::isfinite(own_norm) &&
                         (!scales_loss() || !is_update || std::isfinite(norm_of_means()));
  const auto refuse = [&](const std::string& scale) { refuse_numbers(steps_ + 1, loss_value_, own_norm, scale); };
  if (!scales_loss()) {
    if (!is_finite) refuse("");
    return false;
  }
  if (!is_skipped(scale_, is_finite, is_update)) return false;
  if (backed_off(scale_, training::rule_of(*options_.loss_scaling)) < kLeastScale) refuse(scale_text(scale_));
  return true;
}

StepResult TrainerImpl::step_on_cpu(const Views& inputs, double learning_rate) {
  run_on_cpu(inputs, nullptr);
  if (scales_loss()) unscale_gradients();
  const Optimiser& o = options_.optimiser;
  const bool is_update = (steps_ + 1) % o.accumulate == 0;
  const double own_norm = training::norm_of(gradient_values_);
  StepResult result{.loss = loss_value_, .loss_scale = scales_loss() ? scale_.scale : 1};
  result.skipped = skips(own_norm, is_update);
  ++steps_;
  if (scales_loss()) scale_ = after_step(scale_, training::rule_of(*options_.loss_scaling), result.skipped, is_update);
  if (result.skipped && is_update) drop_gradients();
  if (result.skipped) return result;
  move_statistics();
  accumulate_gradients();
  result.updated = is_update;
  if (!result.updated) return result;
  result.gradient_norm = training::norm_of(gradient_values_);
  const bool clips = o.clip_norm > 0 && result.gradient_norm > o.clip_norm;
  const double scale = clips ? o.clip_norm / result.gradient_norm : 1;
  ++updates_;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    training::update(parameters_[i], gradient_values_[i], scale, o, learning_rate, updates_);
  return result;
}

void TrainerImpl::unscale_gradients() {
  const float factor = inverse_of(scale_);
  for (auto& gradient : gradient_values_)
    for (float& x : gradient) x *= factor;
}

// The norm of what an update with this step is made from
double TrainerImpl::norm_of_means() const {
  const int steps = options_.optimiser.accumulate;
  if (steps == 1) return training::norm_of(gradient_values_);
  std::vector<std::vector<float>> means = gradient_values_;
  for (std::size_t i = 0; i < means.size(); ++i)
    for (std::size_t k = 0; k < means[i].size(); ++k)
      means[i][k] = (parameters_[i].accumulated[k] + means[i][k]) / static_cast<float>(steps);
  return training::norm_of(means);
}

void TrainerImpl::drop_gradients() {
  for (training::LearntParameter& p : parameters_) std::ranges::fill(p.accumulated, 0.0f);
}

// With several steps an update: adds, and takes the mean of them in the last one
void TrainerImpl::accumulate_gradients() {
  const int steps = options_.optimiser.accumulate;
  if (steps == 1) return;
  const bool is_last = steps_ % steps == 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& sum = parameters_[i].accumulated;
    auto& g = gradient_values_[i];
    for (std::size_t k = 0; k < g.size(); ++k) {
      sum[k] += g[k];
      if (is_last) g[k] = sum[k] / static_cast<float>(steps), sum[k] = 0;
    }
  }
}

void TrainerImpl::move_statistics() {
  const auto part = static_cast<float>(options_.statistics_momentum);
  for (Running& r : running_) {
    const float unbiased = unbiased_factor(r.of.count);
    for (std::size_t i = 0; i < r.mean.size(); ++i) {
      r.mean[i] += part * (r.batch_mean[i] - r.mean[i]);
      r.variance[i] += part * (r.batch_variance[i] * unbiased - r.variance[i]);
    }
  }
}

void TrainerImpl::compile_evaluation() {
  GradientOptions options{.extents = options_.extents, .batch_statistics = false, .loss_only = true};
  std::vector<std::string>& names = options.parameters.emplace();
  for (const training::LearntParameter& p : parameters_) names.push_back(p.name);
  for (const Running& r : running_) names.insert(names.end(), {r.of.mean_name, r.of.variance_name});
  evaluation_ = compile(unisono::gradients(network_, loss_, options).network, compiled_with(options_));
}

double TrainerImpl::evaluate(const Views& inputs, bool averaged) {
  require_average(averaged);
  check_given(inputs);
  settle();
  if (!evaluation_) compile_evaluation();
  Views all = inputs;
  add_parameters(all, averaged);
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Running& r = running_[i];
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(r.mean.size())};
    all[r.of.mean_name] = {device_ ? device_->statistic(2 * i) : r.mean.data(), DType::f32, shape, {}};
    all[r.of.variance_name] = {device_ ? device_->statistic(2 * i + 1) : r.variance.data(), DType::f32, shape, {}};
  }
  float loss = 0;
  evaluation_->run(all, {{"loss", {&loss, DType::f32, {}, {}}}});
  return loss;
}

// The results are written where those of a step are, which the next one writes again
std::vector<StepTime> TrainerImpl::profile(const Views& inputs) {
  check_given(inputs);
  settle();
  if (device_) return device_->profile(inputs);
  std::vector<StepTime> steps;
  run_on_cpu(inputs, &steps);
  return steps;
}

NetworkOptions TrainerImpl::network_options() const {
  const NetworkOptions options = compiled_with(options_);
  return device_ ? training::with_weights(options, gradients_) : options;
}

Network TrainerImpl::network(bool averaged) {
  require_average(averaged);
  fetch();
  std::map<TensorId, std::vector<float>> values;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    values[gradients_.parameters[i].constant] = averaged ? parameters_[i].average : parameters_[i].values;
  for (const Running& r : running_) values[r.of.mean] = r.mean, values[r.of.variance] = r.variance;
  return with_constants(network_, values);
}

Trainer::Trainer(Network network, const Loss& loss, const TrainerOptions& options)
    : impl_(std::make_unique<TrainerImpl>(std::move(network), loss, options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

StepResult Trainer::step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate) {
  return impl_->step(inputs, learning_rate);
}
std::optional<StepResult> Trainer::begin_step(const std::map<std::string, ConstTensorView>& inputs,
                                              double learning_rate) {
  return impl_->begin_step(inputs, learning_rate);
}
std::optional<StepResult> Trainer::finish_step() { return impl_->finish_step(); }
double Trainer::evaluate(const std::map<std::string, ConstTensorView>& inputs, bool averaged) {
  return impl_->evaluate(inputs, averaged);
}
std::vector<StepTime> Trainer::profile(const std::map<std::string, ConstTensorView>& inputs) {
  return impl_->profile(inputs);
}
const Network& Trainer::gradient_network() const { return impl_->gradients().network; }
NetworkOptions Trainer::network_options() const { return impl_->network_options(); }
Network Trainer::network(bool averaged) const { return impl_->network(averaged); }
TrainerState Trainer::state() const { return impl_->state(); }
void Trainer::set_state(const TrainerState& state) { impl_->set_state(state); }

std::map<std::string, std::vector<std::int64_t>> Trainer::input_shapes() const {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const NetworkTensor* t : impl_->given()) shapes[t->name] = numbers(t->shape);
  return shapes;
}

std::map<std::string, DType> Trainer::input_types() const {
  std::map<std::string, DType> types;
  for (const NetworkTensor* t : impl_->given()) types[t->name] = t->dtype;
  return types;
}

const std::vector<NetworkParameter>& Trainer::parameters() const { return impl_->gradients().parameters; }

}  // namespace unisono
