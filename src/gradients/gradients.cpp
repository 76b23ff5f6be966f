#include "unisono/gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gradients/backward.hpp"
#include "gradients/forward.hpp"
#include "gradients/parameters.hpp"
#include "gradients/values.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace {

std::vector<std::pair<TensorId, std::string>> parameters_of(const Network& n, const GradientOptions& options) {
  const auto names = options.parameters ? *options.parameters : trainable_constants(n);
  std::map<std::string, TensorId> found;
  for (const auto& [id, name] : autodiff::parameter_names(n)) found.emplace(name, id);
  std::vector<std::pair<TensorId, std::string>> parameters;
  for (const std::string& name : names) {
    const auto at = found.find(name);
    if (at == found.end())
      throw UserError(
          fmt::format("gradients: the network has no constant '{}' of f32 to be a parameter; of several that "
                      "have one name each is 'name@operator'",
                      name));
    const std::pair<TensorId, std::string> p{at->second, name};
    if (std::find(parameters.begin(), parameters.end(), p) != parameters.end())
      throw UserError(fmt::format("gradients: parameter '{}' is given twice", name));
    parameters.push_back(p);
  }
  return parameters;
}

TensorId input_named(const Network& n, const std::string& name) {
  for (const TensorId id : n.inputs)
    if (n[id].name == name && n[id].dtype == DType::f32) return id;
  throw UserError(fmt::format("gradients: the network has no input '{}' of f32", name));
}

NamedTensors named_tensors(const Network& n, const autodiff::Forward& forward) {
  std::map<std::string, NetworkValue> tensors;
  std::vector<std::string> outputs;
  for (const TensorId id : n.outputs) {
    outputs.push_back(n[id].name);
    tensors.emplace(n[id].name, forward.tensors[id]);
  }
  for (TensorId id = 0; id < n.tensors.size(); ++id)
    if (!n[id].name.empty()) tensors.emplace(n[id].name, forward.tensors[id]);
  return {std::move(tensors), std::move(outputs)};
}

NetworkValue as_scalar(NetworkValue loss) {
  if (loss.dtype() != DType::f32 || autodiff::elements_of(autodiff::extents_of(loss)) != 1)
    throw UserError(fmt::format("gradients: the loss is {} of {}; expected one f32: reduce it", to_string(loss.shape()),
                                to_string(loss.dtype())));
  return autodiff::shaped(loss, {});
}

// Sums that go to the caller, a loss or a bias's gradient, are f32 where a GPU computes with 16 bits, too
void keep_sums(Network& n) {
  for (const Operator& o : n.operators)
    if (std::holds_alternative<operators::Reduce>(o.kind) && n[o.output].dtype == DType::f32 &&
        std::find(n.outputs.begin(), n.outputs.end(), o.output) != n.outputs.end())
      n.tensors[o.output].keeps_f32 = true;
}

}  // namespace

GradientNetwork gradients(const Network& network, const Loss& loss, const GradientOptions& options) {
  verify(network);
  const auto parameters = parameters_of(network, options);
  NetworkBuilder net(network.name);
  GradientNetwork result;
  const autodiff::Forward forward =
      autodiff::write_forward(net, network, {parameters.begin(), parameters.end()}, options);
  const NamedTensors tensors = named_tensors(network, forward);
  const std::size_t operators = net.so_far().operators.size(), count = net.so_far().tensors.size();
  const NetworkValue value = as_scalar(loss(net, tensors));
  std::optional<autodiff::GradientScale> scale;
  if (!options.loss_only && !options.loss_scale.empty())
    scale = {net.input(options.loss_scale + ".loss", {}), net.input(options.loss_scale + ".network", {}), operators,
             count};

  std::vector<NetworkValue> of;
  if (!options.loss_only) {
    for (const auto& [id, name] : parameters) of.push_back(forward.tensors[id]);
    for (const std::string& name : options.inputs) of.push_back(forward.tensors[input_named(network, name)]);
  }
  const auto all = autodiff::backward(net, value, scale, of);

  net.output(value, "loss");
  for (const std::string& name : options.outputs) net.output(tensors.at(name), name);
  for (std::size_t i = 0; i < all.size(); ++i) net.output(all[i], "gradient:" + of[i].tensor().name);
  for (const auto& [id, name] : parameters)
    result.parameters.push_back({name, id, autodiff::extents_of(forward.tensors[id]), network[id].constant,
                                 options.loss_only ? "" : "gradient:" + name});
  if (!options.loss_only)
    for (const std::string& name : options.inputs) result.input_gradients[name] = "gradient:" + name;
  result.statistics = forward.statistics;
  result.network = net.build();
  keep_sums(result.network);
  return result;
}

}  // namespace unisono
