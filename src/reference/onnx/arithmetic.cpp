/// Operators of two and more tensors that broadcast, conversions and choices, as ONNX defines them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/network/tensors.hpp"
#include "reference/onnx/definitions.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {
namespace {

// Operands have one type: a float is rounded once, an integer wraps.
template <class F>
Tensor64 arithmetic(const ReferenceInputs& in, const F& f, double roundings = 1) {
  const DType t = in[0]->dtype;
  const double u = roundings * roundoff(t);
  return each(in, t, [&](const double* e) {
    const double y = f(e[0], e[1]);
    return is_float(t) ? Number64{y, u * std::abs(y)} : Number64{as_integer(y, t)};
  });
}

template <class F>
void binary(Call& call, const F& f, double roundings = 1) {
  call.result(arithmetic({&call.in(0), &call.in(1)}, f, roundings));
}

void define_add(Call& call) { binary(call, std::plus<>{}); }
void define_sub(Call& call) { binary(call, std::minus<>{}); }
void define_mul(Call& call) { binary(call, std::multiplies<>{}); }

void define_div(Call& call) {
  const bool floats = is_float(call.in(0).dtype);
  binary(call, [&](double x, double y) {
    if (floats) return x / y;
    if (y == 0) throw UserError("integers are divided by 0");
    return std::trunc(x / y);
  });
}

// The result has the type of the base, whatever that of the exponent
void define_pow(Call& call) {
  const bool floats = is_float(call.in(0).dtype);
  binary(
      call, [&](double x, double y) { return floats ? std::pow(x, y) : std::trunc(std::pow(x, y)); }, 4);
}

// fmod: the sign of the dividend, as in C; else that of the divisor, as in Python
void define_mod(Call& call) {
  const bool c = call.integer("fmod", 0) != 0, floats = is_float(call.in(0).dtype);
  binary(call, [&](double x, double y) {
    if (!floats && y == 0) throw UserError("integers are divided by 0");
    const double r = std::fmod(x, y);
    if (c || r == 0 || (r < 0) == (y < 0)) return c || r != 0 ? r : floats ? std::copysign(0.0, y) : 0.0;
    return r + y;
  });
}

template <class F>
void compare(Call& call, const F& f) {
  const bool floats = is_float(call.in(0).dtype);
  call.result(each({&call.in(0), &call.in(1)}, DType::boolean, [&](const double* e) {
    const bool y = f(e[0], e[1]);
    return Number64{y ? 1.0 : 0.0, 0, floats ? compared(e[0], e[1], y) : Decision{}};
  }));
}

void define_equal(Call& call) { compare(call, std::equal_to<>{}); }
void define_less(Call& call) { compare(call, std::less<>{}); }
void define_less_or_equal(Call& call) { compare(call, std::less_equal<>{}); }
void define_greater(Call& call) { compare(call, std::greater<>{}); }
void define_greater_or_equal(Call& call) { compare(call, std::greater_equal<>{}); }
void define_and(Call& call) { compare(call, std::logical_and<>{}); }
void define_or(Call& call) { compare(call, std::logical_or<>{}); }
void define_xor(Call& call) {
  compare(call, [](double x, double y) { return (x != 0) != (y != 0); });
}
void define_not(Call& call) {
  call.result(each({&call.in(0)}, DType::boolean, [](const double* e) { return Number64{e[0] == 0 ? 1.0 : 0.0}; }));
}

template <class F>
void bitwise(Call& call, const F& f) {
  binary(call, [&](double x, double y) {
    return static_cast<double>(f(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y)));
  });
}
void define_bitwise_and(Call& call) { bitwise(call, std::bit_and<>{}); }
void define_bitwise_or(Call& call) { bitwise(call, std::bit_or<>{}); }
void define_bitwise_xor(Call& call) { bitwise(call, std::bit_xor<>{}); }
void define_bitwise_not(Call& call) {
  const Tensor64& x = call.in(0);
  call.result(each({&x}, x.dtype, [&](const double* e) { return Number64{as_integer(-e[0] - 1, x.dtype)}; }));
}

// What is shifted out is lost; a count below 0 or beyond the width shifts out all but the sign
void define_bit_shift(Call& call) {
  const bool left = call.text("direction", "") == "LEFT";
  const DType t = call.in(0).dtype;
  const bool is_unsigned = t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
  const double bits = static_cast<double>(8 * size_of(t));
  binary(call, [&](double x, double y) {
    const bool all = y < 0 || y >= bits;
    if (!left) return all ? (x < 0 ? -1.0 : 0.0) : std::floor(std::ldexp(x, -static_cast<int>(y)));
    if (all) return 0.0;
    const double kept = is_unsigned ? std::fmod(x, std::ldexp(1.0, static_cast<int>(bits - y))) : x;
    return std::ldexp(kept, static_cast<int>(y));
  });
}

// All inputs, one after the other; a NaN in any makes a NaN
template <class F>
void variadic(Call& call, const F& f, double roundings) {
  Tensor64 y = call.in(0);
  y.bound.assign(y.value.size(), 0.0);
  for (std::size_t i = 1; i < call.inputs(); ++i) {
    const std::vector<double> before = expanded({y.shape, y.bound, {}}, broadcast_shape({&y, &call.in(i)}));
    y = arithmetic({&y, &call.in(i)}, f, roundings);
    for (std::size_t k = 0; k < y.bound.size(); ++k) y.bound[k] += before[k];
  }
  call.result(std::move(y));
}

double lesser(double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y); }
double greater(double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y); }
void define_min(Call& call) { variadic(call, lesser, 0); }
void define_max(Call& call) { variadic(call, greater, 0); }
void define_sum(Call& call) { variadic(call, std::plus<>{}, 1); }

void define_mean(Call& call) {
  Tensor64 sum = call.in(0);
  sum.bound.assign(sum.value.size(), 0.0);
  const auto count = static_cast<double>(call.inputs());
  for (std::size_t i = 1; i < call.inputs(); ++i) sum = arithmetic({&sum, &call.in(i)}, std::plus<>{});
  const double u = (count + 1) * roundoff(sum.dtype);
  call.result(each({&sum}, sum.dtype, [&](const double* e) {
    return Number64{e[0] / count, u * std::abs(e[0] / count)};
  }));
}

void define_where(Call& call) {
  call.result(each({&call.in(0), &call.in(1), &call.in(2)}, call.in(1).dtype,
                   [](const double* e) { return Number64{e[0] != 0 ? e[1] : e[2]}; }));
}

// To an integer: towards 0, saturated where C leaves it open; a float is rounded to the nearest
Tensor64 converted(const Tensor64& x, DType declared, DType to) {
  const bool narrow = to == DType::f16 || to == DType::bf16;
  if (narrow && declared == to) return x;  // it is of that type already: computed in f32, rounded at an output
  return evaluated(operators::Map{MapOp::cast, to}, {&x}, to);
}

void cast_to(Call& call, DType to) {
  Tensor64 y = converted(call.in(0), call.value(0).declared, to);
  if (call.value(0).declared == to) y.bound.assign(y.value.size(), 0.0);
  call.result_as(std::move(y), to);
}
void define_cast(Call& call) { cast_to(call, call.type("to", DType::f32)); }
void define_cast_like(Call& call) { cast_to(call, call.value(1).declared); }

constexpr OnnxDefinition arithmetic_table[] = {{"Add", define_add},
                                               {"And", define_and},
                                               {"BitShift", define_bit_shift},
                                               {"BitwiseAnd", define_bitwise_and},
                                               {"BitwiseNot", define_bitwise_not},
                                               {"BitwiseOr", define_bitwise_or},
                                               {"BitwiseXor", define_bitwise_xor},
                                               {"Cast", define_cast},
                                               {"CastLike", define_cast_like},
                                               {"Div", define_div},
                                               {"Equal", define_equal},
                                               {"Greater", define_greater},
                                               {"GreaterOrEqual", define_greater_or_equal},
                                               {"Less", define_less},
                                               {"LessOrEqual", define_less_or_equal},
                                               {"Max", define_max},
                                               {"Mean", define_mean},
                                               {"Min", define_min},
                                               {"Mod", define_mod},
                                               {"Mul", define_mul},
                                               {"Not", define_not},
                                               {"Or", define_or},
                                               {"Pow", define_pow},
                                               {"Sub", define_sub},
                                               {"Sum", define_sum},
                                               {"Where", define_where},
                                               {"Xor", define_xor}};

}  // namespace

std::span<const OnnxDefinition> arithmetic_definitions() { return arithmetic_table; }

}  // namespace unisono::float64
