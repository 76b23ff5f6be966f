#include "gradients/forward.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "gradients/parameters.hpp"
#include "gradients/values.hpp"
#include "network/names.hpp"
#include "unisono/error.hpp"

namespace unisono::autodiff {

namespace {

class ForwardWriter {
 public:
  ForwardWriter(NetworkBuilder& net, const Network& network, const std::map<TensorId, std::string>& parameters,
                const GradientOptions& options)
      : net_(net), n_(network), parameters_(parameters), options_(options), names_(parameter_names(network)) {}

  Forward write() {
    forward_.tensors.assign(n_.tensors.size(), NetworkValue(net_, 0));
    for (const TensorId id : n_.inputs)
      forward_.tensors[id] = net_.input(n_[id].name, shape_of_input(n_[id]), n_[id].dtype);
    for (TensorId id = 0; id < n_.tensors.size(); ++id)
      if (n_[id].is_constant())
        forward_.tensors[id] =
            parameters_.contains(id) ? net_.input(parameters_.at(id), n_[id].shape) : net_.constant(n_[id]);
    for (const Operator& op : n_.operators) write(op);
    return std::move(forward_);
  }

 private:
  Shape shape_of_input(const NetworkTensor& t) const {
    Shape shape = t.shape;
    for (Dim& d : shape) {
      if (d.known()) continue;
      const auto given = options_.extents.find(d.symbol());
      if (given == options_.extents.end())
        throw UserError(
            fmt::format("gradients: input '{}' has shape {}, in which '{}' is not known; give it a number in "
                        "GradientOptions::extents",
                        t.name, to_string(t.shape), d.symbol()));
      if (given->second < 1)
        throw UserError(
            fmt::format("gradients: extents give '{}' as {}; expected at least 1", d.symbol(), given->second));
      d = Dim(given->second);
    }
    return shape;
  }

  void write(const Operator& op) {
    std::vector<NetworkValue> inputs;
    for (const TensorId id : op.inputs) inputs.push_back(forward_.tensors[id]);
    const auto* batch_norm = std::get_if<operators::BatchNorm>(&op.kind);
    const NetworkValue y = batch_norm != nullptr && options_.batch_statistics
                               ? by_statistics_of_batch(*batch_norm, op, inputs)
                               : net_.apply(op.kind, inputs, op.name);
    for (const Dim& d : y.shape())
      if (!d.known())
        throw UserError(fmt::format("gradients: {}: the result has shape {}, which is not known before a run",
                                    network::where(op), to_string(y.shape())));
    net_.name_tensor(y, n_[op.output].name);
    forward_.tensors[op.output] = y;
  }

  NetworkValue by_statistics_of_batch(const operators::BatchNorm& b, const Operator& op,
                                      const std::vector<NetworkValue>& in) {
    const NetworkValue x = in[0];
    Extents64 vector(x.shape().size() - 1, 1);
    vector[0] = extents_of(x)[1];
    std::vector<int> axes{0};
    for (int i = 2; i < static_cast<int>(x.shape().size()); ++i) axes.push_back(i);
    const NetworkValue mean = reduced(ReduceOp::mean, x, axes), centred = x - mean;
    const NetworkValue variance = reduced(ReduceOp::mean, square(centred), axes);
    add_statistics(op, mean, variance, elements_of(extents_of(x)) / extents_of(x)[1]);
    return centred * rsqrt(variance + b.eps) * shaped(in[1], vector) + shaped(in[2], vector);
  }

  void add_statistics(const Operator& op, NetworkValue mean, NetworkValue variance, std::int64_t count) {
    const TensorId stored_mean = op.inputs[3], stored_variance = op.inputs[4];
    if (!n_[stored_mean].constant || !n_[stored_variance].constant) return;
    const std::int64_t channels = extents_of(mean)[1];
    if (!names_.contains(stored_mean) || !names_.contains(stored_variance) || stored_mean == stored_variance)
      throw UserError(
          fmt::format("gradients: {}: its stored mean '{}' and variance '{}' cannot be told apart from other "
                      "constants; give each its own name",
                      network::where(op), n_[stored_mean].name, n_[stored_variance].name));
    for (const BatchStatistics& other : forward_.statistics)
      if (other.mean == stored_mean || other.variance == stored_variance)
        throw UserError(
            fmt::format("gradients: {}: batch normalisation '{}' has the same stored mean '{}' or variance "
                        "'{}'; give each its own constants",
                        network::where(op), other.name, n_[stored_mean].name, n_[stored_variance].name));
    BatchStatistics s{op.name,
                      stored_mean,
                      stored_variance,
                      names_.at(stored_mean),
                      names_.at(stored_variance),
                      "mean:" + op.name,
                      "variance:" + op.name,
                      count};
    net_.output(net_.apply(operators::Reshape{.shape = {channels}, .literal = true}, {mean}), s.mean_output);
    net_.output(net_.apply(operators::Reshape{.shape = {channels}, .literal = true}, {variance}), s.variance_output);
    forward_.statistics.push_back(std::move(s));
  }

  NetworkBuilder& net_;
  const Network& n_;
  const std::map<TensorId, std::string>& parameters_;
  const GradientOptions& options_;
  const std::map<TensorId, std::string> names_;
  Forward forward_;
};

}  // namespace

Forward write_forward(NetworkBuilder& net, const Network& network, const std::map<TensorId, std::string>& parameters,
                      const GradientOptions& options) {
  return ForwardWriter(net, network, parameters, options).write();
}

}  // namespace unisono::autodiff
