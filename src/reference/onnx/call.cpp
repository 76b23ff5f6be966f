#include "reference/onnx/call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "network/onnx/importer.hpp"
#include "reference/network/operators.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {

Call::Call(const schema::NodeProto& node, std::int64_t opset, std::vector<const OnnxValue*> inputs,
           OnnxAttributes attributes)
    : node_(node), opset_(opset), inputs_(std::move(inputs)), attributes_(std::move(attributes)) {
  results_.resize(static_cast<std::size_t>(node.output_size()));
}

void Call::fail(const std::string& message) const {
  throw UserError(fmt::format("{} '{}' (opset {}), by its definition: {}", node_.op_type(),
                              node_.output_size() > 0 ? node_.output(0) : node_.name(), opset_, message));
}

const OnnxValue& Call::value(std::size_t i) const {
  if (!has(i)) fail(fmt::format("input {} is missing", i));
  return *inputs_[i];
}

ReferenceInputs Call::all() const {
  ReferenceInputs tensors;
  for (std::size_t i = 0; i < inputs(); ++i) tensors.push_back(&in(i));
  return tensors;
}

std::vector<std::int64_t> Call::numbers(std::size_t i) const {
  constexpr double end = 0x1p63;  // what is beyond, such as the end of a slice, is as far as an integer goes
  std::vector<std::int64_t> all;
  for (const double x : in(i).value)
    all.push_back(x >= end    ? std::numeric_limits<std::int64_t>::max()
                  : x <= -end ? std::numeric_limits<std::int64_t>::min()
                              : static_cast<std::int64_t>(x));
  return all;
}

const schema::AttributeProto* Call::attribute(std::string_view name) const {
  const auto it = attributes_.find(name);
  return it == attributes_.end() ? nullptr : it->second;
}

double Call::real(std::string_view name, double otherwise) const {
  const auto* a = attribute(name);
  return a == nullptr ? otherwise : static_cast<double>(a->f());
}

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = attribute(name);
  return a == nullptr ? otherwise : a->i();
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
  const auto* a = attribute(name);
  return a == nullptr ? std::string(otherwise) : a->s();
}

std::optional<std::vector<std::int64_t>> Call::list(std::string_view name) const {
  const auto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}

std::optional<std::vector<std::int64_t>> Call::list(std::string_view name, std::size_t input) const {
  if (has(input)) return numbers(input);
  return list(name);
}

DType Call::type(std::string_view name, DType otherwise) const {
  const auto* a = attribute(name);
  if (a == nullptr) return otherwise;
  const auto type = network::onnx_import::dtype_of(static_cast<int>(a->i()));
  if (!type)
    throw Unsupported(fmt::format("{}: type {} cannot be the type of a network's tensor", node_.op_type(), a->i()));
  return *type;
}

std::size_t Call::axis(std::int64_t axis, std::size_t rank) const {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= std::max<std::int64_t>(n, 1)) fail(fmt::format("axis {} of a rank of {}", axis, rank));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

void Call::result(Tensor64 tensor, std::size_t i) {
  if (i >= results_.size()) return;
  OnnxValue& y = results_[i];
  y.declared = tensor.dtype;
  for (const OnnxValue* x : inputs_)
    if (tensor.dtype == DType::f32 && x != nullptr && (x->declared == DType::f16 || x->declared == DType::bf16))
      y.declared = x->declared;
  y.tensor = std::move(tensor);
}

void Call::result_as(Tensor64 tensor, DType type) {
  tensor.dtype = type == DType::f16 || type == DType::bf16 ? DType::f32 : type;
  results_.at(0) = {.tensor = std::move(tensor), .declared = type};
}

void Call::result_sequence(std::vector<Tensor64> tensors, std::size_t like) {
  results_.at(0).sequence = std::make_shared<const std::vector<Tensor64>>(std::move(tensors));
  if (has(like)) results_[0].declared = value(like).declared;
}

OnnxValue tensor_of(const schema::TensorProto& tensor, const std::string& given_folder,
                    const std::string& real_folder) {
  namespace import = network::onnx_import;
  const std::string what = fmt::format("tensor '{}'", tensor.name());
  const auto type = import::dtype_of(tensor.data_type());
  if (!type) throw Unsupported(fmt::format("{}: its type cannot be the type of a network's tensor", what));
  const import::TensorData data = import::tensor_data(tensor, {given_folder, real_folder}, what);
  OnnxValue v;
  v.declared = *type;
  v.tensor.dtype = data.dtype;
  v.tensor.shape.assign(tensor.dims().begin(), tensor.dims().end());
  v.tensor.value = nearest_float64({data.elements.data(), data.dtype, v.tensor.shape, {}});
  v.tensor.bound.assign(v.tensor.value.size(), 0.0);
  return v;
}

double roundoff(DType t) { return !is_float(t) ? 0 : t == DType::f64 ? 0x1p-53 : f32_roundoff; }

Extents64 common_shape(const ReferenceInputs& in) {
  const Extents64 shape = broadcast_shape(in);
  for (const Tensor64* x : in)
    for (std::size_t d = 0; d < x->shape.size(); ++d)
      if (const std::int64_t extent = x->shape[d]; extent != 1 && extent != shape[shape.size() - x->shape.size() + d])
        throw UserError(
            fmt::format("shape ({}) does not broadcast to ({})", fmt::join(x->shape, ","), fmt::join(shape, ",")));
  return shape;
}

Tensor64 integers_tensor(Extents64 shape, const std::vector<std::int64_t>& elements) {
  Tensor64 y{std::move(shape), {elements.begin(), elements.end()}, std::vector<double>(elements.size(), 0.0)};
  y.dtype = DType::i64;
  return y;
}

Tensor64 in_shape(const Tensor64& x, Extents64 shape) {
  Tensor64 y = reshaped(x, std::move(shape));
  y.dtype = x.dtype;
  return y;
}

Tensor64 permuted_axes(const Tensor64& x, const std::vector<std::size_t>& order) {
  Extents64 shape;
  for (const std::size_t axis : order) shape.push_back(x.shape[axis]);
  Extents64 from(order.size());
  return picked(x, std::move(shape), [&](const Extents64& at) -> const Extents64& {
    for (std::size_t i = 0; i < order.size(); ++i) from[order[i]] = at[i];
    return from;
  });
}

Tensor64 evaluated(const OperatorKind& kind, const ReferenceInputs& in, DType type) {
  Tensor64 y = evaluate_operator(kind, in);
  y.dtype = type;
  return y;
}

}  // namespace unisono::float64
