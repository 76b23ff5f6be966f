#pragma once
/// Trains a network on the CPU or on a GPU.
///
///     unisono::Trainer trainer(unisono::load_onnx("unet.onnx"), unisono::mean_squared_error(),
///                              {.extents = {{"batch", 8}}, .optimiser = {.weight_decay = 0.02}});
///     for (…) trainer.step({{"image", images}, {"target", targets}}, learning_rate);
///     unisono::Network trained = trainer.network();

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/gradients.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// Settings for some of the parameters.
struct ParameterGroup {
  std::string names = "*";   ///< a pattern: * matches any characters, ? one
  double weight_decay = 0;   ///< replaces Optimiser::weight_decay
  double learning_rate = 1;  ///< multiplies the step's learning rate
};

/// How parameters are updated. Parameters and states are f32.
struct Optimiser {
  enum class Kind : std::uint8_t {
    adamw,  ///< I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019; as PyTorch's AdamW
    sgd,    ///< with momentum; as PyTorch's SGD, dampening 0
  };
  Kind kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< adamw
  double momentum = 0.9;                          ///< sgd; 0: none
  bool nesterov = false;                          ///< sgd
  double weight_decay = 0.01;                     ///< adamw: decoupled; sgd: added to the gradient
  std::vector<ParameterGroup> groups = {};        ///< the first that matches a parameter applies
  double clip_norm = 0;  ///< gradients are scaled down to this norm over all of them; 0: no clipping
  int accumulate = 1;    ///< number of steps whose gradients are averaged for one update
  double average =
      0;  ///< a moving average (EMA) of the parameters: average·this + parameter·(1 − this) at each update; 0: none
};

/// The loss's gradient is multiplied by a scale, so that f16 holds the small gradients of tensors, and gradients of
/// parameters are divided by it. An update whose loss or gradients are not finite is skipped and lowers the scale; a
/// number of updates in a row raises it. As PyTorch's torch.amp.GradScaler.
struct LossScaling {
  double initial = 65536;
  double growth = 2;     ///< factor after `interval` updates in a row; larger than 1
  double backoff = 0.5;  ///< factor after a skipped update; between 0 and 1
  int interval = 2000;
};

struct TrainerOptions {
  std::map<std::string, std::int64_t> extents = {};         ///< GradientOptions::extents
  std::optional<std::vector<std::string>> parameters = {};  ///< GradientOptions::parameters
  Optimiser optimiser = {};
  std::optional<LossScaling> loss_scaling = {};
  double statistics_momentum = 0.1;  ///< weight of a step in running statistics of batch normalisations
  int threads = 0;                   ///< CPU threads, or threads of the GPU's compiler; 0: one per core
  /// cuda: tensors between kernels are bf16 or f16. Parameters in f32, states and running statistics stay in the GPU's
  /// memory, and a step is one CUDA graph, unless an operator has no kernel (docs/networks-running.md#host-steps).
  Device device = Device::cpu;
  int device_index = 0;           ///< NetworkOptions::device_index
  DType precision = DType::bf16;  ///< NetworkOptions::precision: on a GPU, bf16 or f16
};

/// The result of a step.
struct StepResult {
  double loss = 0;
  double gradient_norm = 0;  ///< over all parameters, before clipping; 0 unless `updated`
  bool updated = false;      ///< false while gradients are accumulated (Optimiser::accumulate), and if `skipped`
  bool skipped = false;      ///< with loss scaling: the loss or a gradient is not finite, and no parameter has changed
  double loss_scale = 1;     ///< the factor of the step's gradients
};

/// The state of LossScaling.
struct LossScaleState {
  double scale = 0;
  std::int64_t good = 0;     ///< updates in a row since the scale changed
  std::int64_t skipped = 0;  ///< updates that were skipped
  bool spoilt = false;       ///< a gradient of the update that is being accumulated was not finite
  bool operator==(const LossScaleState&) const = default;
};

/// The complete state of a training, as in a checkpoint.
struct TrainerState {
  std::int64_t steps = 0;    ///< calls of step()
  std::int64_t updates = 0;  ///< number of parameter updates
  /// Parameters and running statistics by their names; "optimiser.m:NAME" and "optimiser.v:NAME" (adamw) or
  /// "optimiser.momentum:NAME" (sgd), "average:NAME" (EMA), and "accumulated:NAME" between updates.
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< by the same names
  std::optional<LossScaleState> loss_scale = {};            ///< with TrainerOptions::loss_scaling
};

class TrainerImpl;

/// Trains a network with parameters in f32 (TrainerOptions::device). Not safe for concurrent calls. The same calls give
/// the same bits with the same number of threads, or on the same kind of GPU.
///
/// On a GPU step() waits for the step, and begin_step() does not, so that the next inputs are prepared and copied
/// meanwhile:
///
///     for (…)
///       if (const auto before = trainer.begin_step({{"image", images}, …}, rate)) report(before->loss);
///     report(trainer.finish_step()->loss);
class Trainer {
 public:
  /// Throws as gradients() and compile() do, UserError for options outside their ranges and for a group that matches no
  /// parameter.
  Trainer(Network network, const Loss& loss, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Runs one step: forward, loss, backward, update. `inputs` are those of the network and of the loss, by name. Throws
  /// UserError as NetworkExecutable::run, and if the loss or a gradient is not finite; parameters and states are then
  /// unchanged. With loss scaling such a step is skipped instead, unless the scale would fall below 2^-14.
  StepResult step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);

  /// Begins a step and returns the result of the previous one, unless finish_step() has already returned it. On a GPU
  /// this waits for the previous step only; the new one runs asynchronously. On the CPU the new step is complete on
  /// return. Inputs in the host's memory have been read on return; those in the GPU's must be complete, row-major, and
  /// stay as they are until the result of the step is returned. Throws as step(). If the previous step failed, this
  /// call throws its error and begins no step; the trainer is in its state from before the failed step.
  std::optional<StepResult> begin_step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);

  /// Waits for the last step that was begun and returns its result; nothing if it was already returned, or there was no
  /// step. Throws UserError if the step failed; the trainer is then in its state from before it. The functions below
  /// also wait, and keep the result or failure for the next call of finish_step() or begin_step().
  std::optional<StepResult> finish_step();

  /// Returns the loss without a step, with running statistics in batch normalisations and, if `averaged`, with the
  /// average of the parameters. Throws UserError as NetworkExecutable::run, and if there is no average.
  double evaluate(const std::map<std::string, ConstTensorView>& inputs, bool averaged = false);

  /// Runs forward, loss and backward once without an update, and returns the time of each step of gradient_network().
  /// Throws UserError as NetworkExecutable::run.
  std::vector<StepTime> profile(const std::map<std::string, ConstTensorView>& inputs);

  /// The network of gradients that a step runs, and the options that it is compiled with.
  const Network& gradient_network() const;
  NetworkOptions network_options() const;

  /// Returns the given network with the current parameters and running statistics or, if `averaged`, with the average
  /// of the parameters. Throws UserError if there is no average.
  Network network(bool averaged = false) const;

  /// Names and shapes of the inputs of step().
  std::map<std::string, std::vector<std::int64_t>> input_shapes() const;
  /// Element types of these.
  std::map<std::string, DType> input_types() const;
  /// Names, shapes and initial values of the parameters.
  const std::vector<NetworkParameter>& parameters() const;

  TrainerState state() const;
  /// Continues from a state. Throws UserError naming the tensor if the state is of another network or optimiser; the
  /// trainer is then unchanged.
  void set_state(const TrainerState& state);

 private:
  std::unique_ptr<TrainerImpl> impl_;
};

/// Writes a state as a safetensors file, with `metadata` in addition to "unisono.steps", "unisono.updates" and
/// those of the loss's scale. An earlier file is replaced completely or not at all. Throws UserError if the file cannot
/// be written.
void save_checkpoint(const std::string& path, const TrainerState& state,
                     const std::map<std::string, std::string>& metadata = {});

struct Checkpoint {
  TrainerState state;
  std::map<std::string, std::string> metadata;
};

/// Reads a checkpoint. Throws UserError for a file that is damaged or not a checkpoint.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace unisono
