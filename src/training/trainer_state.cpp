/// The state of a training, out of a trainer and into it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "training/trainer_impl.hpp"
#include "unisono/error.hpp"

namespace unisono {

TrainerState TrainerImpl::state() {
  fetch();
  TrainerState state{.steps = steps_, .updates = updates_, .values = {}, .shapes = {}};
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
      throw UserError(fmt::format("the state has no '{}': it is of another network, or of another optimiser", name));
    const auto at = state.shapes.find(name);
    const bool same_shape =
        at == state.shapes.end() || at->second == std::vector<std::int64_t>(shape.begin(), shape.end());
    if (given->second.size() != values.size() || !same_shape)
      throw UserError(
          fmt::format("the state's '{}' has {} elements{}; expected shape ({})", name, given->second.size(),
                      at == state.shapes.end() ? "" : fmt::format(" of shape ({})", fmt::join(at->second, ",")),
                      fmt::join(shape, ",")));
  });
  for (const auto& [name, values] : state.values)
    if (!known.contains(name))
      throw UserError(
          fmt::format("the state has '{}', which this network and optimiser do not: it is of others", name));
  if (state.steps < 0 || state.updates != state.steps / options_.optimiser.accumulate)
    throw UserError(fmt::format("the state has {} steps and {} updates, which do not fit an update each {} steps",
                                state.steps, state.updates, options_.optimiser.accumulate));
  for_values(*this, [&](const std::string& name, std::vector<float>& values, const auto&) {
    values.assign(state.values.at(name).begin(), state.values.at(name).end());
  });
  steps_ = state.steps, updates_ = state.updates;
  if (device_) device_->upload();
}

}  // namespace unisono
