/// Operators that make tensors of attributes and extents, and gates, as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/onnx/definitions.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

Tensor64 floats_tensor(Extents64 shape, std::vector<double> values) {
  std::vector<double> bounds(values.size(), 0.0);
  return {std::move(shape), std::move(values), std::move(bounds), DType::f32};
}

void define_constant(Call& call) {
  if (const auto* a = call.attribute("value")) {
    OnnxValue v = tensor_of(a->t(), "", "");
    return call.result_as(std::move(v.tensor), v.declared);
  }
  if (const auto* a = call.attribute("value_float"))
    return call.result(floats_tensor({}, {static_cast<double>(a->f())}));
  if (const auto* a = call.attribute("value_floats"))
    return call.result(floats_tensor({a->floats_size()}, {a->floats().begin(), a->floats().end()}));
  if (const auto* a = call.attribute("value_int")) return call.result(integers_tensor({}, {a->i()}));
  if (const auto list = call.list("value_ints")) return call.result(integers_tensor({std::ssize(*list)}, *list));
  throw Unsupported("a Constant that is sparse or of strings cannot be a tensor of a network");
}

void define_constant_of_shape(Call& call) {
  Tensor64 y = empty_tensor(call.numbers(0));
  DType type = DType::f32;
  if (const auto* a = call.attribute("value")) {
    const OnnxValue v = tensor_of(a->t(), "", "");
    type = v.declared;
    std::fill(y.value.begin(), y.value.end(), v.tensor.value.at(0));
  }
  call.result_as(std::move(y), type);
}

void define_range(Call& call) {
  const DType t = call.in(0).dtype;
  const double start = call.in(0).value.at(0), limit = call.in(1).value.at(0), delta = call.in(2).value.at(0);
  const auto count = static_cast<std::int64_t>(std::max(0.0, std::ceil((limit - start) / delta)));
  Tensor64 y = empty_tensor({count});
  y.dtype = t;
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const double step = static_cast<double>(i) * delta;
    y.value[i] = start + step;
    y.bound[i] = roundoff(t) * (std::abs(step) + std::abs(y.value[i]));
  }
  call.result(std::move(y));
}

void define_eye_like(Call& call) {
  const Tensor64& x = call.in(0);
  const std::int64_t k = call.integer("k", 0);
  Tensor64 y = empty_tensor(x.shape);
  std::size_t to = 0;
  for_indices(x.shape, [&](const Extents64& at) { y.value[to++] = at[1] - at[0] == k ? 1 : 0; });
  call.result_as(std::move(y), call.type("dtype", call.value(0).declared));
}

// a0 − a1·cos(2πi/n) + a2·cos(4πi/n), where n is the size, or one less if the window is symmetric
void window(Call& call, double a0, double a1, double a2) {
  const std::int64_t size = call.numbers(0).at(0);
  const double n = static_cast<double>(call.integer("periodic", 1) != 0 ? size : size - 1);
  Tensor64 y = empty_tensor({size});
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / n;
    y.value[i] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
    y.bound[i] = f32_roundoff * (8 + 8 * angle);
  }
  call.result_as(std::move(y), call.type("output_datatype", DType::f32));
}

void define_blackman(Call& call) { window(call, 0.42, 0.5, 0.08); }
void define_hamming(Call& call) { window(call, 25.0 / 46, 1 - 25.0 / 46, 0); }
void define_hann(Call& call) { window(call, 0.5, 0.5, 0); }

// a·σ(αa)·b
void define_swiglu(Call& call) {
  const Tensor64& a = call.in(0);
  const double u = roundoff(a.dtype);
  const double alpha = support::round_to(call.real("alpha", 1), call.value(0).declared);  // as Swish, of its body
  call.result(each({&a, &call.in(1)}, a.dtype, [=](const double* e) {
    const double y = e[0] / (1 + std::exp(-alpha * e[0])) * e[1];
    return Number64{y, u * (8 + std::abs(alpha * e[0])) * std::abs(y)};
  }));
}

constexpr OnnxDefinition generator_table[] = {{"BlackmanWindow", define_blackman},
                                              {"Constant", define_constant},
                                              {"ConstantOfShape", define_constant_of_shape},
                                              {"EyeLike", define_eye_like},
                                              {"HammingWindow", define_hamming},
                                              {"HannWindow", define_hann},
                                              {"Range", define_range},
                                              {"SwiGLU", define_swiglu}};

}  // namespace

std::span<const OnnxDefinition> generator_definitions() { return generator_table; }

}  // namespace unisono::float64
