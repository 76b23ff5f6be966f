#pragma once
/// Gradients: from a network and a loss, a network that computes the loss and its gradients.
///
///     unisono::Network model = unisono::load_onnx("unet.onnx");
///     unisono::GradientNetwork g = unisono::gradients(model, unisono::mean_squared_error(), {.extents = {{"batch",
///     8}}}); unisono::NetworkExecutable step = unisono::compile(g.network);
///
/// The result is a network like any other: it is fused, planned and run as others are.

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

/// Tensors of the network by name, outputs ahead of others of the same name.
class NamedTensors {
 public:
  NamedTensors(std::map<std::string, NetworkValue> tensors, std::vector<std::string> outputs)
      : tensors_(std::move(tensors)), outputs_(std::move(outputs)) {}
  /// Throws UserError for a name that no tensor has. An empty name stands for the only output.
  NetworkValue at(const std::string& name) const;
  const std::vector<std::string>& outputs() const { return outputs_; }

 private:
  std::map<std::string, NetworkValue> tensors_;
  std::vector<std::string> outputs_;
};

/// Appends a loss to the network and returns it: a tensor of one f32 element. It may add inputs, such as targets. A
/// function of your own is a loss of your own.
using Loss = std::function<NetworkValue(NetworkBuilder& net, const NamedTensors& tensors)>;

/// What the losses below compare.
struct LossTensors {
  std::string prediction = {};    ///< a tensor of the network; empty: its only output
  std::string target = "target";  ///< the input that the loss adds
};

/// The mean of (prediction − target)². The target has the shape of the prediction.
Loss mean_squared_error(LossTensors tensors = {});

/// The mean of softplus(x) − x·target: binary cross-entropy of logits x and a target from 0 to 1 of their shape.
Loss binary_cross_entropy(LossTensors tensors = {});

/// The mean of log Σ exp(x) − x[target] over classes: cross-entropy of logits x (N,classes,…) and a target (N,…) of i64
/// that names classes. A target outside the classes is a UserError of the run; negative ones count from the end.
Loss cross_entropy(LossTensors tensors = {});

/// The mean over images and channels of 1 − (2·Σ p·t + smooth)/(Σ p + Σ t + smooth), where p is the sigmoid of logits
/// (N,C,…), t the target of their shape, and sums run over the other axes.
Loss dice_loss(LossTensors tensors = {}, double smooth = 1);

/// Penalty-reduced focal loss of heatmaps (X. Zhou et al., "Objects as Points", 2019, equation 1, alpha 2, beta 4): of
/// logits and a target of their shape that is exactly 1 at centres. Divided by the number of these, at least 1.
Loss heatmap_focal_loss(LossTensors tensors = {});

// ---- Gradients ----

struct GradientOptions {
  /// Numbers for the symbols in the shapes of the network's inputs: all extents must be known.
  std::map<std::string, std::int64_t> extents = {};
  /// Names of f32 constants that are parameters. Absent: trainable_constants().
  std::optional<std::vector<std::string>> parameters = {};
  /// Inputs of the network whose gradients are wanted, too.
  std::vector<std::string> inputs = {};
  /// Tensors of the network that the result has as outputs.
  std::vector<std::string> outputs = {};
  /// Batch normalisations normalise by the statistics of the batch (training). false: by the stored ones.
  bool batch_statistics = true;
  /// The network computes the loss alone: no gradients, and no derivatives are needed.
  bool loss_only = false;
};

/// A constant of the network that is an input of the gradient network.
struct NetworkParameter {
  std::string name;     ///< the constant's, and the input's
  TensorId constant{};  ///< in the network that was given
  std::vector<std::int64_t> shape;
  std::shared_ptr<const std::vector<float>> values;  ///< as the network has them
  std::string gradient;                              ///< the output that is its gradient; empty with loss_only
};

/// Statistics of a batch normalisation, as outputs (C), and the constants that hold the stored ones.
struct BatchStatistics {
  std::string name;                          ///< the operator's
  TensorId mean{}, variance{};               ///< in the network that was given
  std::string mean_name, variance_name;      ///< their names, as parameters have them
  std::string mean_output, variance_output;  ///< this batch's; the variance is biased
  std::int64_t count = 1;                    ///< elements a channel
};

struct GradientNetwork {
  /// Inputs: those of the network, what the loss adds, and the parameters. Outputs: "loss", a scalar, the gradients,
  /// batch statistics, and those asked for.
  Network network;
  std::vector<NetworkParameter> parameters;
  std::map<std::string, std::string> input_gradients;  ///< outputs by the names of inputs
  std::vector<BatchStatistics> statistics;             ///< those whose stored values are constants
};

/// Constants that a network learns by: filters, weights and biases of convolutions and products, scales and shifts of
/// normalisations, tables of embeddings (a Gather along axis 0), and vectors that a MatMul's or a normalisation's
/// result is multiplied by or added to. Of several constants that have one name each is "name@operator", by the first
/// operator that reads it. Names in the order in which operators read them.
std::vector<std::string> trainable_constants(const Network& network);

/// Throws UserError for unknown names, extents that are not known, a loss that is not a single f32, and a parameter
/// that is given twice; Unsupported, which names the node and its operator, where an operator between the loss and a
/// parameter (or an input whose gradient is wanted) has no derivative.
GradientNetwork gradients(const Network& network, const Loss& loss, const GradientOptions& options = {});

/// The network with other values of some constants of f32, by their place in it. Throws UserError for a tensor that is
/// no such constant, and for another number of values.
Network with_constants(Network network, const std::map<TensorId, std::vector<float>>& values);

}  // namespace unisono
