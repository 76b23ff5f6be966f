#include "gradients/backward.hpp"

#include <optional>
#include <utility>

#include "gradients/derivative.hpp"
#include "gradients/values.hpp"
#include "network/names.hpp"
#include "network/regions.hpp"

namespace unisono::autodiff {

namespace {

class Backward {
 public:
  Backward(NetworkBuilder& net, NetworkValue loss, const std::optional<GradientScale>& scale,
           const std::vector<NetworkValue>& of)
      : net_(net),
        scale_(scale),
        forward_(net.so_far().operators),
        changes_(net.so_far().tensors.size(), false),
        gradients_(changes_.size()) {
    for (const NetworkValue v : of) changes_[v.id()] = true;
    for (const Operator& op : forward_) changes_[op.output] = is_float(dtype(op.output)) && reads_what_changes(op);
    gradients_[loss.id()] = scale ? scale->loss : net.constant(1.0);
  }

  void run() {
    for (std::size_t i = forward_.size(); i-- > 0;) {
      if (scale_ && i + 1 == scale_->operators) enter_network();
      const Operator& op = forward_[i];
      if (!changes_[op.output] || !gradients_[op.output]) continue;
      pass_through(op);
    }
    if (scale_ && scale_->operators == 0) enter_network();
  }

  NetworkValue of(NetworkValue v) const {
    return gradients_[v.id()] ? *gradients_[v.id()] : zeros(net_, extents_of(v));
  }

 private:
  DType dtype(TensorId id) const { return net_.so_far()[id].dtype; }
  bool reads_what_changes(const Operator& op) const {
    const auto data = network::data_inputs(op);
    return std::any_of(data.begin(), data.end(), [&](TensorId id) { return changes_[id]; });
  }

  void enter_network() {
    for (TensorId id = 0; id < scale_->tensors; ++id)
      if (gradients_[id]) gradients_[id] = *gradients_[id] * scale_->network;
  }

  void pass_through(const Operator& op) {
    const std::size_t data = network::data_inputs(op).size();
    Use use{net_, network::where(op), {}, {net_, op.output}, *gradients_[op.output], {}};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      use.in.emplace_back(net_, op.inputs[i]);
      use.wanted.push_back(i < data && changes_[op.inputs[i]]);
    }
    const InputGradients all = derivative(op.kind, use);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] && use.wanted[i]) add(op.inputs[i], *all[i]);
  }

  void add(TensorId id, NetworkValue g) {
    std::optional<NetworkValue>& sum = gradients_[id];
    sum = sum ? *sum + g : g;
  }

  NetworkBuilder& net_;
  const std::optional<GradientScale>& scale_;
  const std::vector<Operator> forward_;  // the builder's list grows
  std::vector<bool> changes_;            // by tensor: with what gradients are wanted of
  std::vector<std::optional<NetworkValue>> gradients_;
};

}  // namespace

std::vector<NetworkValue> backward(NetworkBuilder& net, NetworkValue loss, const std::optional<GradientScale>& scale,
                                   const std::vector<NetworkValue>& of) {
  Backward b(net, loss, scale, of);
  b.run();
  std::vector<NetworkValue> result;
  for (const NetworkValue v : of) result.push_back(b.of(v));
  return result;
}

}  // namespace unisono::autodiff
