#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "network/names.hpp"
#include "network/shape_limits.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {

const Shape& NetworkValue::shape() const { return builder_->network_[id_].shape; }

DType NetworkValue::dtype() const { return builder_->network_[id_].dtype; }
const NetworkTensor& NetworkValue::tensor() const { return builder_->network_[id_]; }

NetworkValue NetworkValue::named(std::string name) const {
  Network& n = builder_->network_;
  for (Operator& op : n.operators)
    if (op.output == id_) op.name = name;
  n.tensors[id_].name = std::move(name);
  return *this;
}

NetworkBuilder::NetworkBuilder(std::string name) { network_.name = std::move(name); }

NetworkValue NetworkBuilder::input(const std::string& name, Shape shape, DType dtype) {
  for (const Dim& d : shape)
    if (d.known() && d.value() < 0)
      throw UserError(
          fmt::format("input '{}' has shape {}; expected extents of at least 0 or symbols", name, to_string(shape)));
  network::check_size(shape, fmt::format("input '{}'", name));
  const auto id = static_cast<TensorId>(network_.tensors.size());
  network_.tensors.push_back({name, dtype, std::move(shape)});
  network_.inputs.push_back(id);
  return {*this, id};
}

namespace {
void check_constant(const std::string& name, const Shape& shape, std::size_t given) {
  network::check_size(shape, fmt::format("constant '{}'", name));
  std::int64_t count = 1;
  for (const Dim& d : shape) {
    if (!d.known() || d.value() < 0 || __builtin_mul_overflow(count, d.value(), &count))
      throw UserError(
          fmt::format("constant '{}' has shape {}; expected numbers of at least 0", name, to_string(shape)));
  }
  if (count != static_cast<std::int64_t>(given))
    throw UserError(
        fmt::format("constant '{}' was given {} elements; shape {} takes {}", name, given, to_string(shape), count));
}
}  // namespace

NetworkValue NetworkBuilder::constant(const std::string& name, Shape shape, std::vector<float> elements) {
  check_constant(name, shape, elements.size());
  const auto id = static_cast<TensorId>(network_.tensors.size());
  network_.tensors.push_back(
      {name, DType::f32, std::move(shape), std::make_shared<const std::vector<float>>(std::move(elements)), nullptr});
  return {*this, id};
}

NetworkValue NetworkBuilder::constant(const std::string& name, Shape shape, DType dtype,
                                      std::vector<std::byte> elements) {
  if (elements.size() % size_of(dtype) != 0)
    throw UserError(fmt::format("constant '{}' of {} was given {} bytes", name, to_string(dtype), elements.size()));
  if (dtype == DType::f32) {
    std::vector<float> floats(elements.size() / sizeof(float));
    if (!floats.empty()) std::memcpy(floats.data(), elements.data(), elements.size());
    return constant(name, std::move(shape), std::move(floats));
  }
  check_constant(name, shape, elements.size() / size_of(dtype));
  const auto id = static_cast<TensorId>(network_.tensors.size());
  network_.tensors.push_back(
      {name, dtype, std::move(shape), nullptr, std::make_shared<const std::vector<std::byte>>(std::move(elements))});
  return {*this, id};
}

NetworkValue NetworkBuilder::constant(NetworkTensor tensor) {
  if (!tensor.is_constant())
    throw UserError(fmt::format("tensor '{}' is not a constant: it has no elements", tensor.name));
  check_constant(tensor.name, tensor.shape, tensor.elements().size() / size_of(tensor.dtype));
  const auto id = static_cast<TensorId>(network_.tensors.size());
  network_.tensors.push_back(std::move(tensor));
  return {*this, id};
}

NetworkValue NetworkBuilder::constant(double scalar) {
  return constant(fmt::format("{:g}", scalar), {}, {static_cast<float>(scalar)});
}

NetworkValue NetworkBuilder::apply(OperatorKind kind, const std::vector<NetworkValue>& inputs, std::string name) {
  if (name.empty()) name = fmt::format("{}_{}", to_string(kind), network_.operators.size());
  std::replace(name.begin(), name.end(), ' ', '_');
  Operator op{std::move(kind), name, {}, 0};
  network::check_is_users(op);
  std::vector<const NetworkTensor*> types;
  for (const NetworkValue& v : inputs) {
    if (&v.builder() != this)
      throw UserError(fmt::format("{} was given a value of another NetworkBuilder", network::where(op)));
    op.inputs.push_back(v.id());
  }
  for (const TensorId id : op.inputs) types.push_back(&network_[id]);
  Shape shape = infer_shape(op.kind, types, network::where(op));
  const DType dtype = infer_dtype(op.kind, types, network::where(op));
  op.output = static_cast<TensorId>(network_.tensors.size());
  network_.tensors.push_back({std::move(name), dtype, std::move(shape)});
  network_.operators.push_back(std::move(op));
  return {*this, network_.operators.back().output};
}

void NetworkBuilder::name_tensor(NetworkValue value, std::string name) {
  if (&value.builder() != this) throw UserError("name_tensor was given a value of another NetworkBuilder");
  network_.tensors[value.id()].name = std::move(name);
}

void NetworkBuilder::output(NetworkValue value, std::string name) {
  if (&value.builder() != this) throw UserError("output was given a value of another NetworkBuilder");
  if (name.empty()) name = network_[value.id()].name;
  for (const TensorId id : network_.outputs)
    if (network_[id].name == name)
      throw UserError(fmt::format("output '{}' is given twice; give one another name", name));
  const auto listed = [&](const std::vector<TensorId>& ids) {
    return std::find(ids.begin(), ids.end(), value.id()) != ids.end();
  };
  if (network_[value.id()].is_constant() || listed(network_.inputs) || listed(network_.outputs))
    value = apply(operators::Identity{}, {value}, name);
  network_.tensors[value.id()].name = std::move(name);
  network_.outputs.push_back(value.id());
}

Network NetworkBuilder::build() const {
  verify(network_);
  return network_;
}

namespace {

NetworkValue with_optional(OperatorKind kind, std::vector<NetworkValue> inputs,
                           const std::optional<NetworkValue>& extra) {
  if (extra) inputs.push_back(*extra);
  return inputs[0].builder().apply(std::move(kind), inputs);
}

NetworkValue normalise(Op op, NetworkValue x, const NetworkNormOptions& o) {
  std::vector<NetworkValue> inputs{x};
  if (o.scale) inputs.push_back(*o.scale);
  if (o.shift) inputs.push_back(*o.shift);
  return x.builder().apply(operators::Normalisation{.op = op,
                                                    .groups = o.groups,
                                                    .eps = o.eps,
                                                    .has_scale = o.scale.has_value(),
                                                    .has_shift = o.shift.has_value()},
                           inputs);
}

NetworkValue pool(bool average, NetworkValue x, const PoolOptions& o) {
  return x.builder().apply(operators::Pool2d{.average = average,
                                             .kernel = o.kernel,
                                             .stride = o.stride,
                                             .pad = o.pad,
                                             .dilation = o.dilation,
                                             .ceil_mode = o.ceil_mode,
                                             .count_pad = o.count_pad},
                           {x});
}

}  // namespace

NetworkValue conv2d(NetworkValue x, NetworkValue w, const ConvAttributes& attributes) {
  return x.builder().apply(operators::Conv2d{attributes}, {x, w});
}

NetworkValue conv2d(NetworkValue x, NetworkValue w, NetworkValue bias, const ConvAttributes& attributes) {
  return x.builder().apply(operators::Conv2d{attributes}, {x, w, bias});
}

NetworkValue conv_transpose2d(NetworkValue x, NetworkValue w, const ConvAttributes& attributes) {
  return x.builder().apply(operators::ConvTranspose2d{attributes}, {x, w});
}

NetworkValue conv_transpose2d(NetworkValue x, NetworkValue w, NetworkValue bias, const ConvAttributes& attributes) {
  return x.builder().apply(operators::ConvTranspose2d{attributes}, {x, w, bias});
}

NetworkValue gemm(NetworkValue a, NetworkValue b, GemmOptions o) {
  return with_optional(operators::Gemm{.transpose_a = o.transpose_a, .transpose_b = o.transpose_b}, {a, b}, o.bias);
}

NetworkValue group_norm(NetworkValue x, NetworkNormOptions o) { return normalise(Op::group_norm, x, o); }
NetworkValue instance_norm(NetworkValue x, NetworkNormOptions o) { return normalise(Op::instance_norm, x, o); }
NetworkValue layer_norm(NetworkValue x, NetworkNormOptions o) { return normalise(Op::layer_norm, x, o); }
NetworkValue rms_norm(NetworkValue x, NetworkNormOptions o) { return normalise(Op::rms_norm, x, o); }

NetworkValue batch_norm(NetworkValue x, NetworkValue scale, NetworkValue shift, NetworkValue mean,
                        NetworkValue variance, double eps) {
  return x.builder().apply(operators::BatchNorm{.eps = eps}, {x, scale, shift, mean, variance});
}

NetworkValue softmax(NetworkValue x) { return x.builder().apply(operators::Softmax{}, {x}); }
NetworkValue max_pool(NetworkValue x, PoolOptions o) { return pool(false, x, o); }
NetworkValue average_pool(NetworkValue x, PoolOptions o) { return pool(true, x, o); }
NetworkValue global_average_pool(NetworkValue x) { return x.builder().apply(operators::GlobalAveragePool{}, {x}); }
NetworkValue resize(NetworkValue x, operators::Resize o) { return x.builder().apply(o, {x}); }

NetworkValue upsample(NetworkValue x, double scale) {
  return resize(x, {.mode = ResizeMode::nearest,
                    .scale_h = scale,
                    .scale_w = scale,
                    .coordinates = ResizeCoordinates::asymmetric,
                    .rounding = NearestRounding::floor});
}

NetworkValue concat(const std::vector<NetworkValue>& inputs, int axis) {
  if (inputs.empty()) throw UserError("concat was given no inputs");
  return inputs[0].builder().apply(operators::Concat{.axis = axis}, inputs);
}

NetworkValue pad(NetworkValue x, std::vector<std::int64_t> before, std::vector<std::int64_t> after, double value) {
  return x.builder().apply(operators::Pad{.before = std::move(before), .after = std::move(after), .value = value}, {x});
}

NetworkValue reshape(NetworkValue x, std::vector<std::int64_t> shape) {
  return x.builder().apply(operators::Reshape{.shape = std::move(shape)}, {x});
}

NetworkValue flatten(NetworkValue x, int axis) { return x.builder().apply(operators::Flatten{.axis = axis}, {x}); }

NetworkValue transpose(NetworkValue x, std::vector<int> order) {
  return x.builder().apply(operators::Transpose{.order = std::move(order)}, {x});
}

NetworkValue identity(NetworkValue x) { return x.builder().apply(operators::Identity{}, {x}); }

NetworkValue elementwise(Op op, const std::vector<NetworkValue>& inputs, Attributes attr) {
  if (inputs.empty()) throw UserError(fmt::format("{} was given no inputs", to_string(op)));
  return inputs[0].builder().apply(operators::Elementwise{.op = op, .attr = std::move(attr)}, inputs);
}

}  // namespace unisono
