/// Operators that give elements another shape, or tell shapes, as ONNX defines them.

#include <algorithm>
#include <numeric>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

void define_reshape(Call& call) {
  const Tensor64& x = call.in(0);
  Extents64 shape = call.numbers(1);
  const bool literal = call.integer("allowzero", 0) != 0;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !literal) shape[i] = x.shape.at(i);
    if (shape[i] >= 0) known *= shape[i];
  }
  for (std::int64_t& extent : shape)
    if (extent == -1) extent = known == 0 ? 0 : element_count(x.shape) / known;
  if (element_count(shape) != element_count(x.shape)) call.fail("the shape holds another number of elements");
  call.result(in_shape(x, shape));
}

void define_flatten(Call& call) {
  const Tensor64& x = call.in(0);
  const std::int64_t rank = std::ssize(x.shape);
  std::int64_t axis = call.integer("axis", 1);
  if (axis < 0) axis += rank;
  const auto split = static_cast<std::size_t>(axis);
  call.result(in_shape(x, {product(x.shape, 0, split), product(x.shape, split, x.shape.size())}));
}

void define_squeeze(Call& call) {
  const Tensor64& x = call.in(0);
  const auto axes = call.list("axes", 1);
  std::vector<bool> dropped(x.shape.size(), false);
  if (axes)
    for (const std::int64_t a : *axes) dropped[call.axis(a, x.shape.size())] = true;
  Extents64 shape;
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (axes ? !dropped[i] : x.shape[i] != 1) shape.push_back(x.shape[i]);
  call.result(in_shape(x, shape));
}

void define_unsqueeze(Call& call) {
  const Tensor64& x = call.in(0);
  const std::vector<std::int64_t> axes = call.list("axes", 1).value();
  std::vector<bool> added(x.shape.size() + axes.size(), false);
  for (const std::int64_t a : axes) added[call.axis(a, added.size())] = true;
  Extents64 shape;
  auto from = x.shape.begin();
  for (const bool one : added) shape.push_back(one ? 1 : *from++);
  call.result(in_shape(x, shape));
}

void define_transpose(Call& call) {
  const Tensor64& x = call.in(0);
  std::vector<std::size_t> order(x.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  if (const auto given = call.list("perm")) order.assign(given->begin(), given->end());
  call.result(permuted_axes(x, order));
}

void define_expand(Call& call) {
  const Tensor64& x = call.in(0);
  const Tensor64 like = empty_tensor(call.numbers(1));
  const Extents64 shape = broadcast_shape({&x, &like});
  Tensor64 y = empty_tensor(shape);
  y.value = expanded(x, shape);
  y.dtype = x.dtype;
  call.result(std::move(y));
}

void define_identity(Call& call) {
  if (call.value(0).sequence) return call.result_sequence(*call.value(0).sequence, 0);
  call.result(in_shape(call.in(0), call.in(0).shape));
}

// In inference; the mask is true everywhere
void define_dropout(Call& call) {
  const Tensor64& x = call.in(0);
  if (call.has(2) && call.in(2).value.at(0) != 0) call.fail("training_mode is true; networks are for inference");
  Tensor64 mask = empty_tensor(x.shape);
  mask.value.assign(mask.value.size(), 1.0);
  mask.dtype = DType::boolean;
  call.result(in_shape(x, x.shape));
  call.result(std::move(mask), 1);
}

void define_shape(Call& call) {
  const Extents64& shape = call.in(0).shape;
  const std::int64_t rank = std::ssize(shape);
  const auto place_of = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t begin = place_of(call.integer("start", 0)), end = place_of(call.integer("end", rank));
  std::vector<std::int64_t> extents;
  for (std::int64_t i = begin; i < end; ++i) extents.push_back(shape[static_cast<std::size_t>(i)]);
  call.result(integers_tensor({std::ssize(extents)}, extents));
}

void define_size(Call& call) { call.result(integers_tensor({}, {element_count(call.in(0).shape)})); }

constexpr OnnxDefinition shape_table[] = {{"Dropout", define_dropout},     {"Expand", define_expand},
                                          {"Flatten", define_flatten},     {"Identity", define_identity},
                                          {"Reshape", define_reshape},     {"Shape", define_shape},
                                          {"Size", define_size},           {"Squeeze", define_squeeze},
                                          {"Transpose", define_transpose}, {"Unsqueeze", define_unsqueeze}};

}  // namespace

std::span<const OnnxDefinition> shape_definitions() { return shape_table; }

}  // namespace unisono::float64
