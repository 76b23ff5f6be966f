#pragma once
/// What a trainer holds.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "training/optimiser.hpp"
#include "unisono/training.hpp"

namespace unisono {

class TrainerImpl {
 public:
  TrainerImpl(Network network, const Loss& loss, const TrainerOptions& options);

  StepResult step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);
  double evaluate(const std::map<std::string, ConstTensorView>& inputs, bool averaged);
  Network network(bool averaged) const;
  TrainerState state() const;
  void set_state(const TrainerState& state);

  const GradientNetwork& gradients() const { return gradients_; }
  /// Inputs of the gradient network that are no parameters.
  std::vector<const NetworkTensor*> given() const;

 private:
  using Views = std::map<std::string, ConstTensorView>;

  /// Running statistics of a batch normalisation.
  struct Running {
    BatchStatistics of;
    std::vector<float> mean, variance;              // as they are
    std::vector<float> batch_mean, batch_variance;  // of the last step
  };

  void check_given(const Views& inputs) const;
  void add_parameters(Views& inputs, bool averaged) const;
  void require_average(bool averaged) const;
  void accumulate_gradients();
  void move_statistics();
  /// Calls f(name, values, shape) for all that a state has; values may be assigned.
  template <class Self, class F>
  static void for_values(Self& self, const F& f);

  Network network_;
  TrainerOptions options_;
  GradientNetwork gradients_;
  Loss loss_;
  NetworkExecutable executable_;
  std::optional<NetworkExecutable> evaluation_;  // compiled when it is first asked for
  std::vector<training::LearntParameter> parameters_;
  std::vector<std::vector<float>> gradient_values_;  // by parameter
  std::vector<Running> running_;
  float loss_value_ = 0;
  std::map<std::string, TensorView> outputs_;  // of the executable
  std::int64_t steps_ = 0, updates_ = 0;
};

template <class Self, class F>
void TrainerImpl::for_values(Self& self, const F& f) {
  const bool is_adamw = self.options_.optimiser.kind == Optimiser::Kind::adamw;
  for (auto& p : self.parameters_) {
    f(p.name, p.values, p.shape);
    if (!p.first.empty()) f((is_adamw ? "optimiser.m:" : "optimiser.momentum:") + p.name, p.first, p.shape);
    if (!p.second.empty()) f("optimiser.v:" + p.name, p.second, p.shape);
    if (!p.average.empty()) f("average:" + p.name, p.average, p.shape);
    if (!p.accumulated.empty()) f("accumulated:" + p.name, p.accumulated, p.shape);
  }
  for (auto& r : self.running_) {
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(r.mean.size())};
    f(r.of.mean_name, r.mean, shape);
    f(r.of.variance_name, r.variance, shape);
  }
}

}  // namespace unisono
