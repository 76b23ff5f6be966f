#pragma once
/// Makes a network that computes a loss and its gradients from a network and the loss.
///
///     unisono::Network model = unisono::load_onnx("unet.onnx");
///     unisono::GradientNetwork g =
///         unisono::gradients(model, unisono::mean_squared_error(), {.extents = {{"batch", 8}}});
///     unisono::NetworkExecutable step = unisono::compile(g.network);
///
/// The result is a network like any other.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/network.hpp"

namespace unisono {

// ---- Losses ----

/// Tensors of the network by name. Outputs take precedence over other tensors of the same name.
class NamedTensors {
 public:
  NamedTensors(std::map<std::string, NetworkValue> tensors, std::vector<std::string> outputs)
      : tensors_(std::move(tensors)), outputs_(std::move(outputs)) {}
  /// Returns the tensor of this name; an empty name stands for the only output. Throws UserError for an unknown name.
  NetworkValue at(const std::string& name) const;
  const std::vector<std::string>& outputs() const { return outputs_; }

 private:
  std::map<std::string, NetworkValue> tensors_;
  std::vector<std::string> outputs_;
};

/// A function that appends a loss to the network and returns it, a tensor of one f32 element. It may add inputs, such
/// as targets.
using Loss = std::function<NetworkValue(NetworkBuilder& net, const NamedTensors& tensors)>;

/// The tensors that the losses below compare.
struct LossTensors {
  std::string prediction = {};    ///< a tensor of the network; empty: its only output
  std::string target = "target";  ///< the input that the loss adds
};

/// The mean of (prediction − target)². The target has the shape of the prediction.
Loss mean_squared_error(LossTensors tensors = {});

/// The mean of softplus(x) − x·target: binary cross-entropy of logits x and a target from 0 to 1 of their shape.
Loss binary_cross_entropy(LossTensors tensors = {});

/// The mean of log Σ exp(x) − x[target] over classes: cross-entropy of logits x (N,classes,…) and an i64 target (N,…)
/// of class indices. Negative ones count from the end. An index outside the classes is a UserError of the run.
Loss cross_entropy(LossTensors tensors = {});

/// The mean over images and channels of 1 − (2·Σ p·t + smooth)/(Σ p + Σ t + smooth), where p is the sigmoid of logits
/// (N,C,…), t the target of their shape, and sums run over the other axes.
Loss dice_loss(LossTensors tensors = {}, double smooth = 1);

/// Penalty-reduced focal loss of heatmaps (X. Zhou et al., "Objects as Points", 2019, equation 1, alpha 2, beta 4), of
/// logits and a target of their shape that is exactly 1 at centres, divided by the number of centres, at least 1.
Loss heatmap_focal_loss(LossTensors tensors = {});

// ---- Gradients ----

struct GradientOptions {
  /// Values of the symbols in the shapes of the network's inputs. All extents must be known.
  std::map<std::string, std::int64_t> extents = {};
  /// Names of the f32 constants that are parameters. Defaults to trainable_constants().
  std::optional<std::vector<std::string>> parameters = {};
  /// Inputs of the network whose gradients are computed, too.
  std::vector<std::string> inputs = {};
  /// Tensors of the network that become outputs of the result.
  std::vector<std::string> outputs = {};
  /// Whether batch normalisations use the statistics of the batch (training) or the stored ones.
  bool batch_statistics = true;
  /// If not empty, adds two f32 inputs of one element that multiply all gradients, but not the loss: "NAME.loss", where
  /// the gradients of the loss begin, and "NAME.network", where they enter the network. A scale too large for f16 can
  /// thus be given as a product of two numbers that f16 holds.
  std::string loss_scale = {};
  /// Compute the loss only. No derivatives are needed.
  bool loss_only = false;
};

/// A constant of the network that is an input of the gradient network.
struct NetworkParameter {
  std::string name;     ///< the constant's, and the input's
  TensorId constant{};  ///< in the given network
  std::vector<std::int64_t> shape;
  std::shared_ptr<const std::vector<float>> values;  ///< in the given network
  std::string gradient;                              ///< the output that is its gradient; empty with loss_only
};

/// Statistics of a batch normalisation: outputs of shape (C), and the constants that hold the stored ones.
struct BatchStatistics {
  std::string name;                          ///< the operator's
  TensorId mean{}, variance{};               ///< in the given network
  std::string mean_name, variance_name;      ///< the names of these constants
  std::string mean_output, variance_output;  ///< outputs: those of the batch; the variance is biased
  std::int64_t count = 1;                    ///< elements per channel
};

struct GradientNetwork {
  /// Inputs: those of the network and of the loss, and the parameters. Outputs: "loss", a scalar; the gradients; batch
  /// statistics; GradientOptions::outputs.
  Network network;
  std::vector<NetworkParameter> parameters;
  std::map<std::string, std::string> input_gradients;  ///< outputs by the names of inputs
  std::vector<BatchStatistics> statistics;             ///< those whose stored values are constants
};

/// Returns the names of a network's parameters, in the order in which operators read them: filters, weights and biases
/// of convolutions and products, scales and shifts of normalisations, tables of embeddings (a Gather along axis 0),
/// weights of recurrent layers, and vectors that multiply, or are added to, the result of a product or normalisation.
/// If operators compute such a tensor from constants, these constants are the parameters. Constants that share a name
/// are called "name@operator", after the first operator that reads them.
std::vector<std::string> trainable_constants(const Network& network);

/// Appends the loss and its gradients to a copy of the network. Throws UserError for unknown names, unknown extents, a
/// loss that is not a single f32, and duplicate parameters; Unsupported, naming the node and its operator, if an
/// operator between the loss and a parameter (or an input whose gradient is requested) has no derivative.
GradientNetwork gradients(const Network& network, const Loss& loss, const GradientOptions& options = {});

/// Returns the network with other values for some f32 constants. Throws UserError for a tensor that is not such a
/// constant, and for a wrong number of values.
Network with_constants(Network network, const std::map<TensorId, std::vector<float>>& values);

}  // namespace unisono
