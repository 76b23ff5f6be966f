#include "ir/derivative.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

using Gradients = std::vector<std::optional<Value>>;

Value normal_distribution(Value x) { return 0.5 * (1 + erf(x * std::sqrt(0.5))); }
Value normal_density(Value x) { return exp(-0.5 * square(x)) * std::sqrt(0.5 * std::numbers::inv_pi); }

// x·sigmoid(2u), u = √(2/π)·(x + 0.044715x³)
Value gelu_tanh_slope(Value x) {
  const double k = 2 * std::sqrt(2 * std::numbers::inv_pi);
  const Value s = sigmoid(k * (x + 0.044715 * (x * square(x))));
  return s + x * s * (1 - s) * (k * (1 + 3 * 0.044715 * square(x)));
}

Gradients gradients(const Node& node, const std::vector<Value>& in, Value r, Value g) {
  constexpr std::nullopt_t none = std::nullopt;
  [[maybe_unused]] const Value x = in[0], y = in.size() > 1 ? in[1] : x, z = in.size() > 2 ? in[2] : x,
                               zero = g.builder().constant(0);
  switch (node.op) {
#define DERIVATIVE(...) __VA_ARGS__
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    return {__VA_ARGS__};              \
  }
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  case Op::NAME: {                                           \
    const double p = node.attr.P_FIELD;                      \
    return {__VA_ARGS__};                                    \
  }
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  case Op::NAME: {                                                                  \
    [[maybe_unused]] const double p = node.attr.P_FIELD, q = node.attr.Q_FIELD;     \
    return {__VA_ARGS__};                                                           \
  }
#define UNISONO_CONVERSION(NAME, ...) \
  case Op::NAME: {                    \
    return {__VA_ARGS__};             \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  throw Unsupported(
      fmt::format("{} has no derivative: only elementwise operations of the table have one, and user functions do not",
                  node.op == Op::call ? std::string_view(node.attr.name) : to_string(node.op)));
}

}  // namespace

std::vector<std::optional<Value>> derivative(Value result, Value gradient) {
  const Node node = result.node();  // a copy: the builder's next call ends the reference
  std::vector<Value> in;
  for (const ValueId id : node.inputs) in.emplace_back(result.builder(), id);
  if (in.empty()) in.push_back(result);  // a leaf, which is refused
  Gradients all = gradients(node, in, result, gradient);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!is_float(in[i].dtype()) || !is_float(node.dtype)) all[i].reset();
  return all;
}

}  // namespace unisono::ir
