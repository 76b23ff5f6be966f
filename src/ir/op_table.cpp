#include "ir/op_table.hpp"

#include <array>
#include <limits>

#include "unisono/error.hpp"

namespace unisono {

namespace ir {

namespace {

using enum OpClass;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Parameter slope[]{{"slope", &Attributes::alpha, 0.01}};
constexpr Parameter elu_alpha[]{{"alpha", &Attributes::alpha, 1.0}};
constexpr Parameter hardsigmoid_line[]{{"alpha", &Attributes::alpha, 1.0 / 6}, {"beta", &Attributes::beta, 0.5}};
constexpr Parameter bounds[]{{"lower", &Attributes::lower, -infinity}, {"upper", &Attributes::upper, infinity}};
constexpr Parameter eps[]{{"eps", &Attributes::eps, 1e-5}};

constexpr std::array<OpInfo, op_count> table{{
    {Op::acc, "acc", leaf, 0, ""},
    {Op::operand, "operand", leaf, 0, ""},
    {Op::constant, "constant", leaf, 0, ""},
    {Op::index, "index", leaf, 0, ""},
    {Op::extent, "extent", leaf, 0, ""},
    {Op::add, "add", binary, 2, "+"},
    {Op::sub, "sub", binary, 2, "-"},
    {Op::mul, "mul", binary, 2, "*"},
    {Op::div, "div", binary, 2, "/"},
    {Op::min, "min", binary, 2, ""},
    {Op::max, "max", binary, 2, ""},
    {Op::pow, "pow", binary, 2, ""},
    {Op::less, "less", comparison, 2, "<"},
    {Op::less_equal, "less_equal", comparison, 2, "<="},
    {Op::greater, "greater", comparison, 2, ">"},
    {Op::greater_equal, "greater_equal", comparison, 2, ">="},
    {Op::equal, "equal", comparison, 2, "=="},
    {Op::not_equal, "not_equal", comparison, 2, "!="},
    {Op::logical_and, "logical_and", logical, 2, "&"},
    {Op::logical_or, "logical_or", logical, 2, "|"},
    {Op::fma, "fma", ternary, 3, ""},
    {Op::select, "select", ternary, 3, ""},
    {Op::logical_not, "logical_not", logical, 1, "!"},
    {Op::neg, "neg", unary, 1, "-"},
    {Op::abs, "abs", unary, 1, ""},
    {Op::sqrt, "sqrt", unary, 1, ""},
    {Op::rsqrt, "rsqrt", unary, 1, ""},
    {Op::reciprocal, "reciprocal", unary, 1, ""},
    {Op::square, "square", unary, 1, ""},
    {Op::exp, "exp", unary, 1, ""},
    {Op::log, "log", unary, 1, ""},
    {Op::log1p, "log1p", unary, 1, ""},
    {Op::tanh, "tanh", unary, 1, ""},
    {Op::erf, "erf", unary, 1, ""},
    {Op::sin, "sin", unary, 1, ""},
    {Op::cos, "cos", unary, 1, ""},
    {Op::sigmoid, "sigmoid", unary, 1, ""},
    {Op::relu, "relu", unary, 1, ""},
    {Op::relu6, "relu6", unary, 1, ""},
    {Op::leaky_relu, "leaky_relu", unary, 1, "", slope},
    {Op::elu, "elu", unary, 1, "", elu_alpha},
    {Op::silu, "silu", unary, 1, ""},
    {Op::mish, "mish", unary, 1, ""},
    {Op::gelu, "gelu", unary, 1, ""},
    {Op::gelu_tanh, "gelu_tanh", unary, 1, ""},
    {Op::hardsigmoid, "hardsigmoid", unary, 1, "", hardsigmoid_line},
    {Op::hardswish, "hardswish", unary, 1, ""},
    {Op::softplus, "softplus", unary, 1, ""},
    {Op::logsigmoid, "logsigmoid", unary, 1, ""},
    {Op::clamp, "clamp", unary, 1, "", bounds},
    {Op::cast, "cast", unary, 1, ""},
    {Op::one_hot, "one_hot", unary, 1, ""},
    {Op::sum, "sum", reduction, 1, ""},
    {Op::mean, "mean", reduction, 1, ""},
    {Op::reduce_max, "max", reduction, 1, ""},
    {Op::reduce_min, "min", reduction, 1, ""},
    {Op::sum_squares, "sum_squares", reduction, 1, ""},
    {Op::variance, "variance", reduction, 1, ""},
    {Op::group_norm, "group_norm", normalisation, -1, "", eps},
    {Op::instance_norm, "instance_norm", normalisation, -1, "", eps},
    {Op::layer_norm, "layer_norm", normalisation, -1, "", eps},
    {Op::rms_norm, "rms_norm", normalisation, -1, "", eps},
    {Op::batch_norm, "batch_norm", normalisation, -1, "", eps},
    {Op::softmax, "softmax", OpClass::softmax, 1, ""},
    {Op::call, "call", OpClass::call, -1, ""},
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

}  // namespace ir

std::string_view to_string(Op op) { return ir::info(op).name; }

}  // namespace unisono
