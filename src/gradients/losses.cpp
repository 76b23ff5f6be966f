/// The losses that come with the library.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradients/values.hpp"
#include "unisono/error.hpp"
#include "unisono/gradients.hpp"

namespace unisono {

namespace {

using autodiff::elements_of;
using autodiff::extents_of;
using autodiff::mapped;
using autodiff::reduced;
using autodiff::shaped;

NetworkValue mean_of_all(NetworkValue x) {
  if (elements_of(extents_of(x)) == 0) throw UserError("the loss of a prediction without elements");
  return reduced(ReduceOp::mean, x, {}, false);
}

NetworkValue prediction_of(const NamedTensors& tensors, const LossTensors& names) {
  const NetworkValue x = tensors.at(names.prediction);
  if (x.dtype() != DType::f32)
    throw UserError(fmt::format("the loss compares '{}', whose elements are {}; expected f32", x.tensor().name,
                                to_string(x.dtype())));
  return x;
}

// Classes lie along axis 1
void check_classes(NetworkValue x, std::string_view loss) {
  if (x.shape().size() < 2)
    throw UserError(
        fmt::format("{}: '{}' has shape {}; expected (N,classes,…)", loss, x.tensor().name, to_string(x.shape())));
}

}  // namespace

NetworkValue NamedTensors::at(const std::string& name) const {
  if (name.empty() && outputs_.size() != 1)
    throw UserError(
        fmt::format("the loss does not say which tensor it judges, and the network has {} outputs: {}. "
                    "Name one (LossTensors::prediction)",
                    outputs_.size(), fmt::join(outputs_, ", ")));
  const auto found = tensors_.find(name.empty() ? outputs_[0] : name);
  if (found == tensors_.end())
    throw UserError(fmt::format("the loss names a tensor '{}', which the network does not have; its outputs are {}",
                                name, fmt::join(outputs_, ", ")));
  return found->second;
}

Loss mean_squared_error(LossTensors names) {
  return [names](NetworkBuilder& net, const NamedTensors& tensors) {
    const NetworkValue x = prediction_of(tensors, names), t = net.input(names.target, x.shape());
    return mean_of_all(square(x - t));
  };
}

Loss binary_cross_entropy(LossTensors names) {
  return [names](NetworkBuilder& net, const NamedTensors& tensors) {
    const NetworkValue x = prediction_of(tensors, names), t = net.input(names.target, x.shape());
    return mean_of_all(softplus(x) - x * t);
  };
}

Loss cross_entropy(LossTensors names) {
  return [names](NetworkBuilder& net, const NamedTensors& tensors) {
    const NetworkValue x = prediction_of(tensors, names);
    check_classes(x, "cross_entropy");
    Shape shape = x.shape();
    shape.erase(shape.begin() + 1);
    const NetworkValue t = net.input(names.target, shape, DType::i64);
    autodiff::Extents64 apart = extents_of(x);
    apart[1] = 1;
    const NetworkValue picked = net.apply(operators::GatherElements{.axis = 1}, {x, shaped(t, apart)});
    return mean_of_all(reduced(ReduceOp::log_sum_exp, x, {1}) - picked);
  };
}

Loss dice_loss(LossTensors names, double smooth) {
  return [names, smooth](NetworkBuilder& net, const NamedTensors& tensors) {
    const NetworkValue x = prediction_of(tensors, names), t = net.input(names.target, x.shape());
    check_classes(x, "dice_loss");
    std::vector<int> axes;
    for (int i = 2; i < static_cast<int>(x.shape().size()); ++i) axes.push_back(i);
    const auto sum = [&](NetworkValue v) { return axes.empty() ? v : reduced(ReduceOp::sum, v, axes); };
    const NetworkValue p = sigmoid(x);
    return mean_of_all(1 - (sum(p * t) * 2 + smooth) / (sum(p) + sum(t) + smooth));
  };
}

Loss heatmap_focal_loss(LossTensors names) {
  return [names](NetworkBuilder& net, const NamedTensors& tensors) {
    const NetworkValue x = prediction_of(tensors, names), t = net.input(names.target, x.shape());
    const NetworkValue one = net.constant(1.0), zero = net.constant(0.0), p = sigmoid(x);
    const NetworkValue is_centre = mapped(MapOp::equal, {t, one});
    const NetworkValue at_centre = square(1 - p) * logsigmoid(x);
    const NetworkValue elsewhere = square(square(1 - t)) * square(p) * logsigmoid(-x);
    const auto total = [](NetworkValue v) { return reduced(ReduceOp::sum, v, {}, false); };
    const NetworkValue centres = total(mapped(MapOp::select, {is_centre, one, zero}));
    return -total(mapped(MapOp::select, {is_centre, at_centre, elsewhere})) / max(centres, 1.0);
  };
}

}  // namespace unisono
