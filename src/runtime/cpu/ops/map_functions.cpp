#include <cmath>
#include <type_traits>

#include "runtime/cpu/ops/map_rows.hpp"
#include "runtime/cpu/ops/row_loops.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

namespace {

// All bits are shifted out where the distance is the width or more, or negative
struct ShiftLeft {
  template <class T>
  T operator()(T x, T y) const {
    const auto distance = static_cast<std::uint64_t>(y);
    return distance >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << distance);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T x, T y) const {
    const auto distance = static_cast<std::uint64_t>(y);
    if (distance >= 8 * sizeof(T)) return static_cast<T>(x < 0 ? -1 : 0);
    return static_cast<T>(x >> distance);
  }
};
struct BitAnd {
  template <class T>
  T operator()(T x, T y) const {
    return static_cast<T>(x & y);
  }
};
struct BitOr {
  template <class T>
  T operator()(T x, T y) const {
    return static_cast<T>(x | y);
  }
};
struct BitXor {
  template <class T>
  T operator()(T x, T y) const {
    return static_cast<T>(x ^ y);
  }
};
struct BitNot {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
#define UNISONO_FLOAT_FUNCTION(NAME, FUNCTION) \
  struct NAME {                                \
    template <class T>                         \
    T operator()(T x) const {                  \
      return std::FUNCTION(x);                 \
    }                                          \
  };
UNISONO_FLOAT_FUNCTION(Floor, floor)
UNISONO_FLOAT_FUNCTION(Ceil, ceil)
UNISONO_FLOAT_FUNCTION(Round, nearbyint)
UNISONO_FLOAT_FUNCTION(Sqrt, sqrt)
UNISONO_FLOAT_FUNCTION(Exp, exp)
UNISONO_FLOAT_FUNCTION(Log, log)
UNISONO_FLOAT_FUNCTION(Sin, sin)
UNISONO_FLOAT_FUNCTION(Cos, cos)
UNISONO_FLOAT_FUNCTION(Tan, tan)
UNISONO_FLOAT_FUNCTION(Asin, asin)
UNISONO_FLOAT_FUNCTION(Acos, acos)
UNISONO_FLOAT_FUNCTION(Atan, atan)
UNISONO_FLOAT_FUNCTION(Sinh, sinh)
UNISONO_FLOAT_FUNCTION(Cosh, cosh)
UNISONO_FLOAT_FUNCTION(Tanh, tanh)
UNISONO_FLOAT_FUNCTION(Asinh, asinh)
UNISONO_FLOAT_FUNCTION(Acosh, acosh)
UNISONO_FLOAT_FUNCTION(Atanh, atanh)
UNISONO_FLOAT_FUNCTION(ErrorFunction, erf)
#undef UNISONO_FLOAT_FUNCTION

[[noreturn]] void no_row() { throw InternalError("an elementwise operator has no such row"); }

template <class T>
RowFunction bits_of(MapOp op) {
  switch (op) {
    case MapOp::bit_and: return binary_row<T, T, BitAnd>;
    case MapOp::bit_or: return binary_row<T, T, BitOr>;
    case MapOp::bit_xor: return binary_row<T, T, BitXor>;
    case MapOp::shift_left: return binary_row<T, T, ShiftLeft>;
    case MapOp::shift_right: return binary_row<T, T, ShiftRight>;
    case MapOp::bit_not: return unary_row<T, T, BitNot>;
    default: no_row();
  }
}

template <class T>
RowFunction function_of(MapOp op) {
  switch (op) {
    case MapOp::floor: return unary_row<T, T, Floor>;
    case MapOp::ceil: return unary_row<T, T, Ceil>;
    case MapOp::round: return unary_row<T, T, Round>;
    case MapOp::sqrt: return unary_row<T, T, Sqrt>;
    case MapOp::exp: return unary_row<T, T, Exp>;
    case MapOp::log: return unary_row<T, T, Log>;
    case MapOp::sin: return unary_row<T, T, Sin>;
    case MapOp::cos: return unary_row<T, T, Cos>;
    case MapOp::tan: return unary_row<T, T, Tan>;
    case MapOp::asin: return unary_row<T, T, Asin>;
    case MapOp::acos: return unary_row<T, T, Acos>;
    case MapOp::atan: return unary_row<T, T, Atan>;
    case MapOp::sinh: return unary_row<T, T, Sinh>;
    case MapOp::cosh: return unary_row<T, T, Cosh>;
    case MapOp::tanh: return unary_row<T, T, Tanh>;
    case MapOp::asinh: return unary_row<T, T, Asinh>;
    case MapOp::acosh: return unary_row<T, T, Acosh>;
    case MapOp::atanh: return unary_row<T, T, Atanh>;
    case MapOp::erf: return unary_row<T, T, ErrorFunction>;
    default: no_row();
  }
}

}  // namespace

RowFunction bits_row(MapOp op, DType t) {
  return with_type(t, [op]<class T>() -> RowFunction {
    if constexpr (std::is_integral_v<T>) return bits_of<T>(op);
    no_row();
  });
}

RowFunction function_row(MapOp op, DType t) {
  if (t == DType::f64) return function_of<double>(op);
  if (t == DType::f32) return function_of<float>(op);
  no_row();
}

}  // namespace unisono::cpu
