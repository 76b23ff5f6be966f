/// The state of a training, out of a trainer and into it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "training/trainer_impl.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

constexpr const char* own_trainer =
    "give the trainer the network, parameters and Optimiser that the state was saved with, or train from the beginning";

}  // namespace

TrainerState TrainerImpl::state() {
  fetch();
  TrainerState state{.steps = steps_, .updates = updates_, .values = {}, .shapes = {}};
  if (scales_loss()) state.loss_scale = training::state_of(scale_);
  for_values(*this, [&](const std::string& name, const std::vector<float>& values, const auto& shape) {
    state.values[name] = values;
    state.shapes[name] = shape;
  });
  return state;
}

void TrainerImpl::set_state(const TrainerState& state) {
  settle();
  std::set<std::string> known;
  for_values(*this, [&](const std::string& name, const std::vector<float>& values, const auto& shape) {
    known.insert(name);
    const auto given = state.values.find(name);
    if (given == state.values.end())
      throw UserError(
          fmt::format("the state has no '{}', which this network and optimiser have; {}", name, own_trainer));
    const auto at = state.shapes.find(name);
    const bool same_shape =
        at == state.shapes.end() || at->second == std::vector<std::int64_t>(shape.begin(), shape.end());
    if (given->second.size() != values.size() || !same_shape)
      throw UserError(
          fmt::format("the state's '{}' has {} elements{}; expected shape ({}): {}", name, given->second.size(),
                      at == state.shapes.end() ? "" : fmt::format(" of shape ({})", fmt::join(at->second, ",")),
                      fmt::join(shape, ","), own_trainer));
  });
  for (const auto& [name, values] : state.values)
    if (!known.contains(name))
      throw UserError(
          fmt::format("the state has '{}', which this network and optimiser do not have; {}", name, own_trainer));
  check_counts(state);
  for_values(*this, [&](const std::string& name, std::vector<float>& values, const auto&) {
    values.assign(state.values.at(name).begin(), state.values.at(name).end());
  });
  steps_ = state.steps, updates_ = state.updates;
  if (state.loss_scale) scale_ = training::scale_of(*state.loss_scale, updates_);
  if (device_) device_->upload();
  if (device_ && scales_loss()) device_->set_scale(scale_);
}

void TrainerImpl::check_counts(const TrainerState& state) const {
  if (scales_loss() != state.loss_scale.has_value())
    throw UserError(
        fmt::format("the state was saved with{} loss scaling, and this training is with{} it; {} "
                    "TrainerOptions::loss_scaling, as when the state was saved",
                    scales_loss() ? "out" : "", scales_loss() ? "" : "out", scales_loss() ? "leave out" : "set"));
  const LossScaleState s = state.loss_scale.value_or(LossScaleState{.scale = 1});
  const bool is_scale = s.scale > 0 && std::isfinite(static_cast<float>(s.scale)) && s.good >= 0 && s.skipped >= 0;
  if (!is_scale)
    throw UserError(
        fmt::format("the state's loss scale is {}, with {} good and {} skipped updates; expected a positive "
                    "number of f32, and numbers of at least 0. The checkpoint is damaged; take an earlier one",
                    s.scale, s.good, s.skipped));
  if (state.steps < 0 || state.updates < 0 || state.updates + s.skipped != state.steps / options_.optimiser.accumulate)
    throw UserError(
        fmt::format("the state has {} steps, {} updates and {} skipped ones, which does not fit one update every {} "
                    "steps; set Optimiser::accumulate as when the state was saved",
                    state.steps, state.updates, s.skipped, options_.optimiser.accumulate));
}

}  // namespace unisono
