#include "tuner/operands.hpp"

#include <algorithm>

#include "reference/reference.hpp"
#include "unisono/tensor.hpp"

namespace unisono::tuner {
namespace {

constexpr std::size_t alignment = 256;

std::size_t bytes_of(const std::vector<std::int64_t>& shape, DType type) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(shape)) * size_of(type);
  return (bytes + alignment - 1) / alignment * alignment;
}

DType type_a(const Contraction& c) {
  if (const auto* g = std::get_if<Gemm>(&c)) return g->dtype_a;
  if (const auto* v = std::get_if<Conv2d>(&c)) return v->dtype_x;
  if (const auto* v = std::get_if<Conv3d>(&c)) return v->dtype_x;
  if (const auto* v = std::get_if<FilterGradient2d>(&c)) return v->dtype_y;
  return std::get<ConvTranspose2d>(c).dtype_x;
}

bool by_value(const Node& operand, const CompileOptions& options) {
  return operand.axes == axes::scalar && !options.device_scalars.contains(operand.attr.name);
}

/// Shapes and types, without memory.
Arguments described(const Problem& p) {
  Arguments all;
  const DType type = type_a(p.contraction);
  all.a(p.contraction) = {nullptr, type, shape_a(p.contraction), {}};
  all.b(p.contraction) = {nullptr, type, shape_b(p.contraction), {}};
  for (const Node* x : operands_of(p.graph)) {
    if (by_value(*x, p.options)) {
      if (!x->attr.default_value) all.scalars[x->attr.name] = 0.5;
      continue;
    }
    all.operands[x->attr.name] = {nullptr, storage_of(*x, p.options), reference::shape_of(*x, p.contraction), {}};
  }
  for (const Store& s : p.graph.stores)
    all.outputs[s.name] = {nullptr, s.dtype, reference::shape_of(p.graph, s, p.contraction), {}};
  return all;
}

/// Puts a tensor at the address, and moves the address past it.
template <class View>
void place(View& view, std::byte*& next) {
  view.data = next;
  next += bytes_of(view.shape, view.dtype);
}

}  // namespace

Arguments arguments_at(const Problem& p, std::byte* inputs, std::byte* outputs) {
  Arguments all = described(p);
  place(all.a(p.contraction), inputs), place(all.b(p.contraction), inputs);
  for (auto& [name, view] : all.operands) place(view, inputs);
  for (auto& [name, view] : all.outputs) place(view, outputs);
  return all;
}

Footprint footprint(const Problem& p) {
  const Arguments all = described(p);
  Footprint bytes;
  for (const ConstTensorView* view : {&all.a(p.contraction), &all.b(p.contraction)})
    bytes.inputs += bytes_of(view->shape, view->dtype);
  for (const auto& [name, view] : all.operands) bytes.inputs += bytes_of(view.shape, view.dtype);
  for (const auto& [name, view] : all.outputs) bytes.outputs += bytes_of(view.shape, view.dtype);
  return bytes;
}

std::vector<Arguments> Arena::sets(const Problem& problem, std::size_t rotating_bytes, std::size_t most,
                                   Stream stream) {
  const Footprint one = footprint(problem);
  const std::size_t count = std::clamp<std::size_t>(rotating_bytes / (one.inputs + one.outputs) + 1, 1, most);
  if (!inputs_ || inputs_->bytes() < count * one.inputs) {
    inputs_.reset();
    inputs_ = std::make_unique<cuda::DeviceBuffer>(device_index_, count * one.inputs, "operands to be timed with");
    // as f32 or f16 these are numbers of the same size
    kernels_.fill(inputs_->data(), DType::bf16, static_cast<std::int64_t>(inputs_->bytes() / 2), 0, 0.577, 1, stream);
  }
  if (!outputs_ || outputs_->bytes() < count * one.outputs) {
    outputs_.reset();
    outputs_ = std::make_unique<cuda::DeviceBuffer>(device_index_, count * one.outputs, "outputs to be timed with");
  }
  std::vector<Arguments> list;
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(arguments_at(problem, static_cast<std::byte*>(inputs_->data()) + i * one.inputs,
                                static_cast<std::byte*>(outputs_->data()) + i * one.outputs));
  return list;
}

}  // namespace unisono::tuner
