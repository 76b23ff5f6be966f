/// GroupNormalization, InstanceNormalization (also as PyTorch exports GroupNorm with it), BatchNormalization.

#include <algorithm>
#include <cmath>

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

// InstanceNormalization of an image or a volume x reshaped to (N, G, …): group_norm of x with G groups. The results
// keeps the shape of the node; that it is a reshape of the group norm is remembered, so that a Reshape back to x's
// shape costs nothing.
void import_reshaped_instance_norm(const NodeReader& node, NetworkValue shaped, NetworkValue x) {
  const std::int64_t channels = known_channels(node, x.shape()), groups = known_channels(node, shaped.shape());
  if (groups < 1) node.fail("{} channels do not fall into {} equal groups", channels, groups);
  const std::vector<float>&scale = *node.constant(1), &bias = *node.constant(2);
  for (const auto* v : {&scale, &bias})
    if (std::ssize(*v) != groups)
      node.fail("scale and bias have {} elements; expected one for each of {} channels", v->size(), groups);
  operators::Normalisation norm{
      .op = Op::group_norm, .groups = static_cast<int>(groups), .eps = node.real("epsilon", 1e-5f)};
  const bool image = x.shape().size() == 4;
  std::vector<NetworkValue> inputs{image ? x : as_image(node, x)};
  norm.has_scale = norm.has_shift = !all_equal(scale, 1) || !all_equal(bias, 0);
  if (norm.has_scale) {
    inputs.push_back(node.make_constant("scale", {channels}, per_channel(node, scale, channels)));
    inputs.push_back(node.make_constant("bias", {channels}, per_channel(node, bias, channels)));
  }
  const NetworkValue normalised = node.apply(norm, inputs), y = image ? normalised : reshape_like(node, normalised, x);
  operators::Reshape back;
  for (const Dim& d : shaped.shape()) {
    const bool same = d == x.shape()[0] && back.shape.empty();
    back.shape.push_back(same ? 0 : d.known() ? d.value() : -1);
  }
  const NetworkValue result = node.apply(back, {y});
  node.remember_reshape(result, y);
  node.result(result);
}

// Whether the channels of `shaped` are groups of whole channels of the image or volume that it was, and scale and bias
// are known
bool makes_groups(const NodeReader& node, NetworkValue shaped, NetworkValue source) {
  const Shape s = shaped.shape(), x = source.shape();  // copies: reading a constant may move them
  if ((x.size() != 4 && x.size() != 5) || s.size() < 2 || s[0] != x[0] || !s[1].known() || !x[1].known()) return false;
  const bool divides = s[1].value() < 1 || x[1].value() % s[1].value() == 0;
  return divides && node.constant(1) != nullptr && node.constant(2) != nullptr;
}

void import_instance_norm(const NodeReader& node) {
  const NetworkValue x = node.value(0);
  const auto source = node.reshaped_from(x);
  if (source && makes_groups(node, x, *source)) return import_reshaped_instance_norm(node, x, *source);
  const std::size_t rank = x.shape().size();
  if (rank < 3) node.fail("the input has shape {}; expected (N,C,…)", to_string(x.shape()));
  const NetworkValue y = node.apply(
      operators::Normalisation{
          .op = Op::instance_norm, .eps = node.real("epsilon", 1e-5f), .has_scale = true, .has_shift = true},
      {rank == 4 ? x : as_image(node, x), node.value(1), node.value(2)});
  node.result(rank == 4 ? y : reshape_like(node, y, x));
}

// A normalisation by statistics of its own input; mean and variance are (C)
struct Standardised {
  NetworkValue y, mean, variance;
};

// Standardised constants, such as weights, are computed now, in float64
Standardised standardised_constant(const NodeReader& node, double eps) {
  const auto &x = *node.constant(0), &scale = *node.constant(1), &bias = *node.constant(2);
  const Shape shape = node.value(0).shape();
  const std::size_t channels = scale.size(), images = static_cast<std::size_t>(shape[0].value());
  const std::size_t pixels = x.size() / (channels * images), stride = channels * pixels;
  node.ask_memory((x.size() + 2 * channels) * sizeof(float));
  std::vector<float> y(x.size()), means(channels), variances(channels);
  const auto for_channel = [&](std::size_t c, auto body) {
    for (std::size_t i = 0; i < images; ++i)
      for (std::size_t p = 0; p < pixels; ++p) body(i * stride + c * pixels + p);
  };
  const auto count = static_cast<double>(images * pixels);
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for_channel(c, [&](std::size_t at) { sum += x[at]; });
    const double mean = sum / count;
    for_channel(c, [&](std::size_t at) { squares += (x[at] - mean) * (x[at] - mean); });
    const double variance = squares / count, factor = scale[c] / std::sqrt(variance + eps);
    for_channel(c, [&](std::size_t at) { y[at] = static_cast<float>((x[at] - mean) * factor + bias[c]); });
    means[c] = static_cast<float>(mean);
    variances[c] = static_cast<float>(variance);
  }
  const Shape vector{Dim(static_cast<std::int64_t>(channels))};
  return {node.make_constant("standardised", shape, std::move(y)), node.make_constant("mean", vector, std::move(means)),
          node.make_constant("variance", vector, std::move(variances))};
}

Standardised standardised(const NodeReader& node, double eps) {
  const NetworkValue x = node.value(0);
  std::vector<int> axes{0};
  std::vector<std::int64_t> vector{-1};  // (C,1,…)
  for (int axis = 2; axis < static_cast<int>(x.shape().size()); ++axis) axes.push_back(axis), vector.push_back(1);
  const operators::Reduce mean_of{ReduceOp::mean, axes, true};
  const NetworkValue mean = node.apply(mean_of, {x}), centred = node.elementwise(Op::sub, {x, mean});
  const NetworkValue variance = node.apply(mean_of, {node.elementwise(Op::square, {centred})});
  const NetworkValue factor =
      node.elementwise(Op::rsqrt, {node.elementwise(Op::add, {variance, node.number_like(x, eps)})});
  const auto per_channel = [&](int i) { return node.apply(operators::Reshape{vector}, {node.value(i)}); };
  const NetworkValue scaled = node.elementwise(Op::mul, {node.elementwise(Op::mul, {centred, factor}), per_channel(1)});
  const auto flat = [&](NetworkValue v) { return node.apply(operators::Reshape{{-1}}, {v}); };
  return {node.elementwise(Op::add, {scaled, per_channel(2)}), flat(mean), flat(variance)};
}

// By the statistics of this batch, as exporters also write the standardisation of weights
void import_batch_statistics(const NodeReader& node) {
  if (const DType t = node.value(0).dtype(); t != DType::f32)
    node.fail("elements of {} are not supported", to_string(t));
  const Dim channels(known_channels(node, node.value(0).shape()));
  for (int i = 1; i <= 4; ++i)
    if (const Shape v = node.value(i).shape(); v.size() != 1 || v[0] != channels)
      node.fail("input {} has shape {}; expected one element for each of {} channels", i, to_string(v),
                to_string(channels));
  const double eps = node.real("epsilon", 1e-5f), momentum = node.real("momentum", 0.9f);
  const bool known = node.constant(0) && node.constant(1) && node.constant(2) && !node.constant(0)->empty();
  const Standardised s = known ? standardised_constant(node, eps) : standardised(node, eps);
  node.result(s.y);
  const auto moved = [&](NetworkValue running, NetworkValue now) {
    return node.elementwise(Op::add, {node.elementwise(Op::mul, {running, node.number_like(running, momentum)}),
                                      node.elementwise(Op::mul, {now, node.number_like(now, 1 - momentum)})});
  };
  if (node.wants(1)) node.result(moved(node.value(3), s.mean), 1);
  if (node.wants(2)) node.result(moved(node.value(4), s.variance), 2);
}

void import_batch_norm(const NodeReader& node) {
  if (node.opset() < 14 && node.wants(1)) node.fail("has outputs of training; export the model for inference");
  if (node.integer("training_mode", 0) != 0) return import_batch_statistics(node);
  if (node.wants(1)) node.fail("has outputs of training, and training_mode is 0; expected one output");
  node.result(node.apply(operators::BatchNorm{.eps = node.real("epsilon", 1e-5f)}, node.values(5)));
}

constexpr OperatorRow normalisation_table[] = {{"BatchNormalization", 9, import_batch_norm},
                                               {"GroupNormalization", 18, import_group_norm},
                                               {"InstanceNormalization", 6, import_instance_norm}};

}  // namespace

std::span<const OperatorRow> normalisation_rows() { return normalisation_table; }

}  // namespace unisono::network::onnx_import
