#include "ir/attribute_values.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "ir/infer.hpp"
#include "ir/op_table.hpp"
#include "unisono/error.hpp"

namespace unisono {

namespace ir {

namespace {

std::optional<double> number_of(const NumberOrValue& attribute) {
  if (attribute.number() != nullptr) return *attribute.number();
  const Node& node = attribute.value()->node();
  return node.op == Op::constant ? std::optional(node.attr.value) : std::nullopt;
}

Value value_of(const NumberOrValue& attribute, GraphBuilder& builder) {
  return attribute.value() != nullptr ? *attribute.value() : builder.constant(*attribute.number());
}

bool is_infinite(Value limit) { return limit.node().op == Op::constant && std::isinf(limit.node().attr.value); }
Value at_least(Value x, Value lower) { return is_infinite(lower) && lower.node().attr.value < 0 ? x : max(x, lower); }
Value at_most(Value x, Value upper) { return is_infinite(upper) && upper.node().attr.value > 0 ? x : min(x, upper); }

Value expanded(Op op, Value x, Value p, [[maybe_unused]] Value q) {
  switch (op) {
#define EXPANDED(...) __VA_ARGS__
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  case Op::NAME: {                                           \
    return __VA_ARGS__;                                      \
  }
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  case Op::NAME: {                                                                  \
    return __VA_ARGS__;                                                             \
  }
#define UNISONO_ELEMENTWISE(NAME, ...) \
  case Op::NAME: {                     \
    break;                             \
  }
#define UNISONO_OTHER(NAME) \
  case Op::NAME: {          \
    break;                  \
  }
#include "ir/operations.inc"
  }
  throw InternalError(fmt::format("{} has no attribute that may be a value", to_string(op)));
}

}  // namespace

Value with_attributes(Op op, Value x, std::span<const NumberOrValue> attributes) {
  GraphBuilder& builder = x.builder();
  const auto parameters = info(op).parameters;
  Attributes numbers;
  bool is_number = true;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto number = number_of(attributes[i]);
    numbers.*parameters[i].field = number.value_or(parameters[i].fallback);
    is_number &= number.has_value();
    if (attributes[i].value() != nullptr && &attributes[i].value()->builder() != &builder)
      throw UserError(fmt::format("{} was given a value of another GraphBuilder", to_string(op)));
  }
  if (is_number) return builder.node(op, {x}, numbers);
  const std::array<const Node*, 1> input{&x.node()};
  const DType type = infer(op, input, numbers, {}).dtype, wide = type == DType::f64 ? type : DType::f32;
  const Value p = value_of(attributes[0], builder), q = value_of(attributes.back(), builder);
  const Value result = expanded(op, x.dtype() == wide ? x : cast(x, wide), p, q);
  return result.dtype() == type ? result : cast(result, type);
}

}  // namespace ir

#define UNISONO_FUNCTION_1(NAME, P, ...) \
  Value NAME(Value x, NumberOrValue P) { return ir::with_attributes(Op::NAME, x, std::array<NumberOrValue, 1>{P}); }
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, ...)                  \
  Value NAME(Value x, NumberOrValue P, NumberOrValue Q) {                        \
    return ir::with_attributes(Op::NAME, x, std::array<NumberOrValue, 2>{P, Q}); \
  }
#include "unisono/operations.def"

}  // namespace unisono
