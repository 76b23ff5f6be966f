/// GroupNormalization, InstanceNormalization (also as PyTorch exports GroupNorm with it), BatchNormalization.

#include <algorithm>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

std::int64_t known_channels(const NodeReader& node, const Shape& x) {
  if (x.size() < 2 || !x[1].known())
    node.fail("the input has shape {}; expected a known number of channels", to_string(x));
  return x[1].value();
}

// A vector with one element a group as one with one element a channel
std::vector<float> per_channel(const NodeReader& node, const std::vector<float>& per_group, std::int64_t channels) {
  const auto groups = static_cast<std::int64_t>(per_group.size());
  if (groups == 0 || channels % groups != 0)
    node.fail("{} channels do not fall into {} equal groups", channels, groups);
  node.ask_memory(static_cast<std::uint64_t>(channels) * sizeof(float));
  std::vector<float> out;
  for (std::int64_t c = 0; c < channels; ++c)
    out.push_back(per_group[static_cast<std::size_t>(c / (channels / groups))]);
  return out;
}

// (N,C,…) as (N,C,pixels,1)
NetworkValue as_image(const NodeReader& node, NetworkValue x) {
  return node.apply(operators::Reshape{{0, 0, -1, 1}}, {x});
}

void import_group_norm(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const std::int64_t groups = node.integer("num_groups", 0);
  const std::int64_t channels = known_channels(node, x.shape());
  if (const auto type = node.integer("stash_type", 1); type != 1) node.fail("stash_type is {}; expected 1", type);
  if (groups < 1 || groups > channels) node.fail("num_groups is {}; expected 1 to {}", groups, channels);
  const std::size_t rank = x.shape().size();
  if (rank < 3) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  std::vector<NetworkValue> inputs{rank == 4 ? x : as_image(node, x)};
  for (int i = 1; i <= 2; ++i) {
    if (node.opset() >= 21) {  // one element a channel
      inputs.push_back(node.value(i));
      continue;
    }
    const auto& v = node.needed_constant(i, i == 1 ? "scale" : "bias");  // one element a group
    if (static_cast<std::int64_t>(v.size()) != groups)
      node.fail("scale and bias have {} elements; expected one for each of {} groups", v.size(), groups);
    inputs.push_back(node.make_constant(i == 1 ? "scale" : "bias", {channels}, per_channel(node, v, channels)));
  }
  const NetworkValue y = node.apply(operators::Normalisation{.op = Op::group_norm,
                                                             .groups = static_cast<int>(groups),
                                                             .eps = node.real("epsilon", 1e-5f),
                                                             .has_scale = true,
                                                             .has_shift = true},
                                    inputs);
  node.result(rank == 4 ? y : reshape_like(node, y, x));
}

bool all_equal(const std::vector<float>& v, float x) {
  return std::all_of(v.begin(), v.end(), [x](float y) { return y == x; });
}

// InstanceNormalization of x reshaped to (N, G, …): group_norm of x with G groups. The results keeps the shape of the
// node; that it is a reshape of the group norm is remembered, so that a Reshape back to x's shape costs nothing.
void import_reshaped_instance_norm(const NodeReader& node, NetworkValue shaped, NetworkValue x) {
  const std::int64_t channels = known_channels(node, x.shape()), groups = known_channels(node, shaped.shape());
  if (groups < 1 || channels % groups != 0) node.fail("{} channels do not fall into {} equal groups", channels, groups);
  const auto& scale = node.needed_constant(1, "scale");
  const auto& bias = node.needed_constant(2, "bias");
  for (const auto* v : {&scale, &bias})
    if (std::ssize(*v) != groups)
      node.fail("scale and bias have {} elements; expected one for each of {} channels", v->size(), groups);
  operators::Normalisation norm{
      .op = Op::group_norm, .groups = static_cast<int>(groups), .eps = node.real("epsilon", 1e-5f)};
  std::vector<NetworkValue> inputs{x};
  norm.has_scale = norm.has_shift = !all_equal(scale, 1) || !all_equal(bias, 0);
  if (norm.has_scale) {
    inputs.push_back(node.make_constant("scale", {channels}, per_channel(node, scale, channels)));
    inputs.push_back(node.make_constant("bias", {channels}, per_channel(node, bias, channels)));
  }
  const NetworkValue y = node.apply(norm, inputs);
  operators::Reshape back;
  for (const Dim& d : shaped.shape()) {
    const bool same = d == x.shape()[0] && back.shape.empty();
    back.shape.push_back(same ? 0 : d.known() ? d.value() : -1);
  }
  const NetworkValue result = node.apply(back, {y});
  node.remember_reshape(result, y);
  node.result(result);
}

void import_instance_norm(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto source = node.reshaped_from(x);
  if (source && source->shape().size() == 4 && x.shape().size() >= 2 && x.shape()[0] == source->shape()[0])
    return import_reshaped_instance_norm(node, x, *source);
  const std::size_t rank = x.shape().size();
  if (rank < 3) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  const NetworkValue y = node.apply(
      operators::Normalisation{
          .op = Op::instance_norm, .eps = node.real("epsilon", 1e-5f), .has_scale = true, .has_shift = true},
      {rank == 4 ? x : as_image(node, x), node.value(1), node.value(2)});
  node.result(rank == 4 ? y : reshape_like(node, y, x));
}

void import_batch_norm(const NodeReader& node) {
  if (node.integer("training_mode", 0) != 0) node.fail("training_mode is 1; export the model for inference");
  if (node.opset() < 14 && node.wants(1)) node.fail("has outputs of training; export the model for inference");
  node.result(node.apply(operators::BatchNorm{.eps = node.real("epsilon", 1e-5f)}, node.values(5)));
}

constexpr OperatorRow normalisation_table[] = {{"BatchNormalization", 9, import_batch_norm},
                                               {"GroupNormalization", 18, import_group_norm},
                                               {"InstanceNormalization", 6, import_instance_norm}};

}  // namespace

std::span<const OperatorRow> normalisation_rows() { return normalisation_table; }

}  // namespace unisono::network::onnx_import
