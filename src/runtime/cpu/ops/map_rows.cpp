#include "runtime/cpu/ops/map_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/row_loops.hpp"
#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

namespace {

template <class Word>
void select_row(std::int64_t count, char* const* p, const std::int64_t* s) {
  for (std::int64_t i = 0; i < count; ++i) {
    const bool first = *(p[0] + i * s[0]) != 0;
    *reinterpret_cast<Word*>(p[3] + i * s[3]) =
        *reinterpret_cast<const Word*>(first ? p[1] + i * s[1] : p[2] + i * s[2]);
  }
}

// Integers wrap: their sums and products are those of the unsigned type, widened so that no promotion makes it signed
template <class T, class F>
T arithmetic(T x, T y, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
  } else {
    return f(x, y);
  }
}

template <class T>
void require_divisor(T y) {
  if (y == 0) throw UserError("integers are divided by 0");
}

template <class T>
T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(x, y);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) {  // 1/x^|y|, truncated
        require_divisor(x);
        return static_cast<T>(x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0);
      }
    }
    using Unsigned = std::make_unsigned_t<T>;
    std::uint64_t result = 1, base = static_cast<Unsigned>(x);  // their low bits are those of T
    for (std::uint64_t n = static_cast<Unsigned>(y); n > 0; n >>= 1, base *= base)
      if (n & 1) result *= base;
    return static_cast<T>(result);
  }
}

struct Add {
  template <class T>
  T operator()(T x, T y) const {
    return arithmetic(x, y, [](auto a, auto b) { return a + b; });
  }
};
struct Sub {
  template <class T>
  T operator()(T x, T y) const {
    return arithmetic(x, y, [](auto a, auto b) { return a - b; });
  }
};
struct Mul {
  template <class T>
  T operator()(T x, T y) const {
    return arithmetic(x, y, [](auto a, auto b) { return a * b; });
  }
};
struct Div {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      require_divisor(y);
      if constexpr (std::is_signed_v<T>)
        if (y == -1) return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));  // the lowest wraps
    }
    return static_cast<T>(x / y);
  }
};
struct Mod {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      require_divisor(y);
      if constexpr (std::is_signed_v<T>) {
        if (y == -1) return 0;
        const T r = static_cast<T>(x % y);
        return static_cast<T>(r != 0 && (r < 0) != (y < 0) ? r + y : r);
      } else {
        return static_cast<T>(x % y);
      }
    } else {
      const T r = std::fmod(x, y);
      return r != 0 && (r < 0) != (y < 0) ? r + y : r;
    }
  }
};
struct Fmod {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(x, y);
    } else {
      require_divisor(y);
      if constexpr (std::is_signed_v<T>)
        if (y == -1) return 0;
      return static_cast<T>(x % y);
    }
  }
};
struct Pow {
  template <class T>
  T operator()(T x, T y) const {
    return power(x, y);
  }
};
// A NaN in either makes a NaN
struct Min {
  template <class T>
  T operator()(T x, T y) const {
    return x != x || x < y ? x : y;
  }
};
struct Max {
  template <class T>
  T operator()(T x, T y) const {
    return x != x || x > y ? x : y;
  }
};
#define UNISONO_COMPARISON(NAME, EXPRESSION)  \
  struct NAME {                               \
    template <class T>                        \
    std::uint8_t operator()(T x, T y) const { \
      return (EXPRESSION) ? 1 : 0;            \
    }                                         \
  };
UNISONO_COMPARISON(Equal, x == y)
UNISONO_COMPARISON(Less, x < y)
UNISONO_COMPARISON(LessEqual, x <= y)
UNISONO_COMPARISON(Greater, x > y)
UNISONO_COMPARISON(GreaterEqual, x >= y)
UNISONO_COMPARISON(And, x != 0 && y != 0)
UNISONO_COMPARISON(Or, x != 0 || y != 0)
UNISONO_COMPARISON(Xor, (x != 0) != (y != 0))
#undef UNISONO_COMPARISON
struct Not {
  std::uint8_t operator()(std::uint8_t x) const { return x == 0; }
};
struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
    else
      return -x;
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < 0 ? Neg{}(x) : x;
  }
};
struct Sign {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : x);  // of NaN, NaN
  }
};
template <class T>
RowFunction row_of(MapOp op) {
  switch (op) {
    case MapOp::add: return binary_row<T, T, Add>;
    case MapOp::sub: return binary_row<T, T, Sub>;
    case MapOp::mul: return binary_row<T, T, Mul>;
    case MapOp::div: return binary_row<T, T, Div>;
    case MapOp::mod: return binary_row<T, T, Mod>;
    case MapOp::fmod: return binary_row<T, T, Fmod>;
    case MapOp::pow: return binary_row<T, T, Pow>;
    case MapOp::min: return binary_row<T, T, Min>;
    case MapOp::max: return binary_row<T, T, Max>;
    case MapOp::equal: return binary_row<T, std::uint8_t, Equal>;
    case MapOp::less: return binary_row<T, std::uint8_t, Less>;
    case MapOp::less_equal: return binary_row<T, std::uint8_t, LessEqual>;
    case MapOp::greater: return binary_row<T, std::uint8_t, Greater>;
    case MapOp::greater_equal: return binary_row<T, std::uint8_t, GreaterEqual>;
    case MapOp::neg: return unary_row<T, T, Neg>;
    case MapOp::abs: return unary_row<T, T, Abs>;
    case MapOp::sign: return unary_row<T, T, Sign>;
    default: throw InternalError("an elementwise operator has no such row");
  }
}

}  // namespace

RowFunction map_row(MapOp op, DType t) {
  switch (op) {
    case MapOp::logical_and: return binary_row<std::uint8_t, std::uint8_t, And>;
    case MapOp::logical_or: return binary_row<std::uint8_t, std::uint8_t, Or>;
    case MapOp::logical_xor: return binary_row<std::uint8_t, std::uint8_t, Xor>;
    case MapOp::logical_not: return unary_row<std::uint8_t, std::uint8_t, Not>;
    case MapOp::select:
      switch (size_of(t)) {
        case 1: return select_row<std::uint8_t>;
        case 2: return select_row<std::uint16_t>;
        case 4: return select_row<std::uint32_t>;
        default: return select_row<std::uint64_t>;
      }
    default:
      if ((op >= MapOp::bit_and && op <= MapOp::shift_right) || op == MapOp::bit_not) return bits_row(op, t);
      if (op >= MapOp::floor && op <= MapOp::erf) return function_row(op, t);
      return with_type(t, [op]<class T>() { return row_of<T>(op); });
  }
}

}  // namespace unisono::cpu
