#include "ir/op_table.hpp"

#include <array>
#include <limits>

#include "unisono/error.hpp"

namespace unisono {

namespace ir {

namespace {

using enum OpClass;

constexpr Parameter eps[]{{"eps", &Attributes::eps, 1e-5}};

#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  constexpr Parameter NAME##_parameters[]{{#P, &Attributes::P_FIELD, P_DEFAULT}};
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  constexpr Parameter NAME##_parameters[]{{#P, &Attributes::P_FIELD, P_DEFAULT}, {#Q, &Attributes::Q_FIELD, Q_DEFAULT}};
#include "unisono/operations.def"

constexpr std::array<OpInfo, op_count> table{{
#define SYMBOL(TEXT) .symbol = TEXT,
#define TYPE(RULE) .type = TypeRule::RULE,
#define COST(CLASS) .cost = Cost::CLASS,
#define FACTS(...) __VA_ARGS__,
#define UNISONO_ROW(NAME, TEXT, CLASS, ARITY) .op = Op::NAME, .name = TEXT, .op_class = CLASS, .arity = ARITY
#define UNISONO_LEAF(NAME) {UNISONO_ROW(NAME, #NAME, leaf, 0)},
#define UNISONO_OPERATOR(NAME, CLASS, ARITY, ...) {UNISONO_ROW(NAME, #NAME, CLASS, ARITY), __VA_ARGS__},
#define UNISONO_FUNCTION(NAME, ...) {UNISONO_ROW(NAME, #NAME, unary, 1), __VA_ARGS__},
#define UNISONO_FUNCTION_1(NAME, P, P_FIELD, P_DEFAULT, ...) \
  {UNISONO_ROW(NAME, #NAME, unary, 1), .parameters = NAME##_parameters, __VA_ARGS__},
#define UNISONO_FUNCTION_2(NAME, P, P_FIELD, P_DEFAULT, Q, Q_FIELD, Q_DEFAULT, ...) \
  {UNISONO_ROW(NAME, #NAME, unary, 1), .parameters = NAME##_parameters, __VA_ARGS__},
#define UNISONO_CONVERSION(NAME, ...) {UNISONO_ROW(NAME, #NAME, unary, 1), __VA_ARGS__},
#define UNISONO_REDUCTION(NAME, TEXT, ...) {UNISONO_ROW(NAME, TEXT, reduction, 1), __VA_ARGS__},
#define UNISONO_NORMALISATION(NAME) {UNISONO_ROW(NAME, #NAME, normalisation, -1), .parameters = eps},
#define UNISONO_SOFTMAX(NAME) {UNISONO_ROW(NAME, #NAME, OpClass::softmax, 1)},
#define UNISONO_CALL(NAME) {UNISONO_ROW(NAME, #NAME, OpClass::call, -1), .cost = Cost::special},
#include "ir/operations.inc"
#undef UNISONO_ROW
}};

constexpr bool in_order() {
  for (int i = 0; i < op_count; ++i)
    if (static_cast<int>(table[i].op) != i) return false;
  return true;
}
static_assert(in_order(), "the table follows the order of enum Op");

}  // namespace

const OpInfo& info(Op op) {
  const auto i = static_cast<std::size_t>(op);
  if (i >= table.size()) throw InternalError("operation number " + std::to_string(i) + " is not in the table");
  return table[i];
}

std::optional<Op> op_from_name(std::string_view name) {
  for (const auto& row : table) {
    if (row.op_class == leaf || row.op == Op::call) continue;
    if (row.name == name) return row.op;  // "max" and "min": the elementwise rows come first
  }
  return std::nullopt;
}

ReduceDomain normalisation_domain(Op op, int groups) {
  switch (op) {
    case Op::group_norm: return {.rows = true, .cols = true, .per_image = true, .groups = groups};
    case Op::instance_norm: return {.rows = true, .per_image = true};
    case Op::layer_norm:
    case Op::rms_norm: return {.cols = true};
    case Op::batch_norm: return {.rows = true};
    default: throw InternalError(std::string(info(op).name) + " is not a normalisation");
  }
}

}  // namespace ir

std::string_view to_string(Op op) { return ir::info(op).name; }

}  // namespace unisono
