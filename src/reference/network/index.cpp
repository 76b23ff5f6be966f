#include "reference/network/index.hpp"

namespace unisono::float64 {

Tensor64 empty_tensor(Extents64 shape) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  return {std::move(shape), std::vector<double>(count), std::vector<double>(count, 0.0)};
}

Extents64 broadcast_shape(const ReferenceInputs& inputs) {
  Extents64 shape;
  for (const Tensor64* x : inputs) {
    if (x->shape.size() > shape.size()) shape.insert(shape.begin(), x->shape.size() - shape.size(), 1);
    const std::size_t lead = shape.size() - x->shape.size();
    for (std::size_t i = 0; i < x->shape.size(); ++i)
      shape[lead + i] = shape[lead + i] == 1 ? x->shape[i] : shape[lead + i];
  }
  return shape;
}

std::vector<double> expanded(const Tensor64& x, const Extents64& shape) {
  if (x.shape == shape) return x.value;
  const std::size_t lead = shape.size() - x.shape.size();
  const Extents64 own = row_major_strides(x.shape);
  Extents64 strides(shape.size(), 0);
  for (std::size_t i = 0; i < x.shape.size(); ++i) strides[lead + i] = x.shape[i] == 1 ? 0 : own[i];
  std::vector<double> out(static_cast<std::size_t>(element_count(shape)));
  walk(shape, strides, 0, [&](std::size_t to, std::size_t at) { out[to] = x.value[at]; });
  return out;
}

Tensor64 reshaped(const Tensor64& x, Extents64 shape) {
  return {std::move(shape), x.value, std::vector<double>(x.value.size(), 0.0)};
}

}  // namespace unisono::float64
