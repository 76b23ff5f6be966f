#pragma once
/// What a trainer holds.

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training/device_steps.hpp"
#include "training/loss_scale.hpp"
#include "training/optimiser.hpp"
#include "unisono/training.hpp"

namespace unisono {

class TrainerImpl {
 public:
  TrainerImpl(Network network, const Loss& loss, const TrainerOptions& options);

  StepResult step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);
  std::optional<StepResult> begin_step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);
  std::optional<StepResult> finish_step();
  double evaluate(const std::map<std::string, ConstTensorView>& inputs, bool averaged);
  std::vector<StepTime> profile(const std::map<std::string, ConstTensorView>& inputs);
  NetworkOptions network_options() const;
  Network network(bool averaged);
  TrainerState state();
  void set_state(const TrainerState& state);

  const GradientNetwork& gradients() const { return gradients_; }
  /// Inputs of the gradient network that are no parameters.
  const std::vector<const NetworkTensor*>& given() const { return given_; }

 private:
  using Views = std::map<std::string, ConstTensorView>;

  /// Running statistics of a batch normalisation.
  struct Running {
    BatchStatistics of;
    std::vector<float> mean, variance;              // as they are
    std::vector<float> batch_mean, batch_variance;  // of the last step
  };

  /// A step in flight.
  struct Begun {
    std::int64_t steps = 0;  // before it
    bool updates_parameters = false;
  };

  std::vector<const NetworkTensor*> inputs_but_parameters() const;
  void begin_on_cpu();
  std::vector<training::Statistic> statistics();
  void check_given(const Views& inputs) const;
  void check_counts(const TrainerState& state) const;
  void add_parameters(Views& inputs, bool averaged) const;
  void require_average(bool averaged) const;
  void run_on_cpu(const Views& inputs, std::vector<StepTime>* steps);
  StepResult step_on_cpu(const Views& inputs, double learning_rate);
  /// The result of the first step in flight. Throws UserError, and goes back to before it, if it failed.
  StepResult finish_on_device();
  /// Waits for the step in flight and keeps its result, or why it failed.
  void settle();
  /// The same, and brings the host's copies up to date.
  void fetch();
  void compile_evaluation();
  void unscale_gradients();
  bool skips(double own_norm, bool is_update) const;
  double norm_of_means() const;
  void accumulate_gradients();
  void drop_gradients();
  bool scales_loss() const { return options_.loss_scaling.has_value(); }
  GradientOptions gradient_options() const;
  void move_statistics();
  /// Calls f(name, values, shape) for all that a state has; values may be assigned.
  template <class Self, class F>
  static void for_values(Self& self, const F& f);

  Network network_;
  TrainerOptions options_;
  GradientNetwork gradients_;
  std::vector<const NetworkTensor*> given_;
  Loss loss_;
  std::optional<NetworkExecutable> executable_;  // on the CPU
  std::optional<NetworkExecutable> evaluation_;  // compiled when it is first asked for
  std::vector<training::LearntParameter> parameters_;
  std::vector<std::vector<float>> gradient_values_;  // on the CPU, by parameter
  std::vector<Running> running_;
  float loss_value_ = 0;
  std::map<std::string, TensorView> outputs_;      // of the executable
  std::int64_t steps_ = 0, updates_ = 0;           // begun, and known to be done
  UpdateScale scale_{};                            // behind the last step that is known to be done
  std::unique_ptr<training::DeviceSteps> device_;  // on a GPU; parameters_ and running_ are then copies of what it has
  std::deque<Begun> begun_;                        // steps in flight there
  // The result of the step that was begun last, or why it failed, until somebody asks
  std::optional<StepResult> done_;
  std::exception_ptr failure_;
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
