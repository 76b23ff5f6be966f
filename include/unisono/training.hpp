#pragma once
/// Training a network in C++.
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

/// Parameters that learn otherwise than the rest.
struct ParameterGroup {
  std::string names = "*";   ///< which: a pattern, in which * stands for any characters and ? for one
  double weight_decay = 0;   ///< instead of Optimiser::weight_decay
  double learning_rate = 1;  ///< a factor of the step's
};

/// How parameters are moved. All states, and the parameters themselves, are f32.
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
  std::vector<ParameterGroup> groups = {};        ///< the first that names a parameter counts
  double clip_norm = 0;  ///< gradients are scaled to at most this norm over all of them; 0: not
  int accumulate = 1;    ///< steps whose gradients are averaged for one update
  double average =
      0;  ///< a moving average (EMA) of the parameters: average·this + parameter·(1 − this) at each update; 0: none
};

struct TrainerOptions {
  std::map<std::string, std::int64_t> extents = {};         ///< GradientOptions::extents
  std::optional<std::vector<std::string>> parameters = {};  ///< GradientOptions::parameters
  Optimiser optimiser = {};
  double statistics_momentum = 0.1;  ///< part that a step has in running statistics of batch normalisations
  int threads = 0;                   ///< CPU threads; 0: one a core
  Device device = Device::cpu;
};

/// What a step found.
struct StepResult {
  double loss = 0;
  double gradient_norm = 0;  ///< over all parameters, ahead of clipping; 0 unless `updated`
  bool updated = false;      ///< false: its gradients wait for those of further steps (Optimiser::accumulate)
};

/// The whole state of a training: what a checkpoint holds.
struct TrainerState {
  std::int64_t steps = 0;    ///< calls of step()
  std::int64_t updates = 0;  ///< how often the parameters were moved
  /// Parameters and running statistics by their names; "optimiser.m:NAME" and "optimiser.v:NAME" (adamw) or
  /// "optimiser.momentum:NAME" (sgd), "average:NAME" (EMA), and "accumulated:NAME" between updates.
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< by the same names
};

class TrainerImpl;

/// Trains a network on the CPU, in f32. One thread calls it at a time. The same calls give the same bits with the same
/// number of threads.
class Trainer {
 public:
  /// Throws as gradients() and compile() do, UserError for options outside their ranges and a pattern of a group that
  /// names no parameter, and Unsupported for a GPU.
  Trainer(Network network, const Loss& loss, const TrainerOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// One step: forward, loss, backward, and an update of the parameters. `inputs`: those of the network, and what the
  /// loss adds, by name. Throws UserError as NetworkExecutable::run, and for a loss or gradients that are not finite;
  /// parameters and states are then as they were.
  StepResult step(const std::map<std::string, ConstTensorView>& inputs, double learning_rate);

  /// The loss of these inputs, without a step: batch normalisations by running statistics. `averaged`: by the average
  /// of the parameters. Throws UserError as NetworkExecutable::run, and where there is no average.
  double evaluate(const std::map<std::string, ConstTensorView>& inputs, bool averaged = false);

  /// The network that was given, with parameters and running statistics as they are now; `averaged`: with the average
  /// of the parameters (UserError where there is none).
  Network network(bool averaged = false) const;

  /// Names and shapes of what step() takes.
  std::map<std::string, std::vector<std::int64_t>> input_shapes() const;
  /// Element types of these.
  std::map<std::string, DType> input_types() const;
  /// The parameters: names, shapes, and the values that they began with.
  const std::vector<NetworkParameter>& parameters() const;

  TrainerState state() const;
  /// Goes on from a state. Throws UserError, which names the tensor, for one of another network or optimiser; the
  /// trainer is then as it was.
  void set_state(const TrainerState& state);

 private:
  std::unique_ptr<TrainerImpl> impl_;
};

/// Writes a state as a safetensors file, with `metadata` next to its own ("unisono.steps", "unisono.updates"). An
/// earlier file is replaced as a whole, or stays. Throws UserError if it cannot be written.
void save_checkpoint(const std::string& path, const TrainerState& state,
                     const std::map<std::string, std::string>& metadata = {});

struct Checkpoint {
  TrainerState state;
  std::map<std::string, std::string> metadata;
};

/// Reads one back. Throws UserError for a file that is damaged or no checkpoint.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace unisono
