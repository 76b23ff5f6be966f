#include "runtime/cpu/ops/map_rows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
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
T wrapping(T x, T y, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
  } else {
    return f(x, y);
  }
}

template <class T>
T negative(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));  // the lowest wraps
  } else {
    return -x;
  }
}

template <class T>
T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else {
    return x < 0 ? negative(x) : x;
  }
}

template <class T>
void require_divisor(T y) {
  if (y == 0) throw UserError("integers are divided by 0");
}

template <class T>
T quotient(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    require_divisor(y);
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return negative(x);
  }
  return static_cast<T>(x / y);
}

template <class T>
T remainder(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(x, y);
  } else {
    require_divisor(y);
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return 0;  // the processor's division of the lowest number overflows
    return static_cast<T>(x % y);
  }
}

template <class T>
T modulo(T x, T y) {
  const T r = remainder(x, y);
  if constexpr (std::is_floating_point_v<T>)
    if (r == 0) return std::copysign(r, y);
  return static_cast<T>(r != 0 && (r < 0) != (y < 0) ? r + y : r);  // NaN stays NaN
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

// All bits are shifted out where the distance is the width or more, or negative
template <class T>
T shifted_left(T x, T y) {
  const auto distance = static_cast<std::uint64_t>(y);
  return distance >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<std::uint64_t>(x) << distance);
}

template <class T>
T shifted_right(T x, T y) {
  const auto distance = static_cast<std::uint64_t>(y);
  if (distance >= 8 * sizeof(T)) return static_cast<T>(x < 0 ? -1 : 0);
  return static_cast<T>(x >> distance);
}

// The column `cpu` of the table of maps as function objects of one or two values
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, ...)         \
  struct NAME##_function {                                   \
    template <class T>                                       \
    auto operator()(T x, [[maybe_unused]] T y = T{}) const { \
      return CPU;                                            \
    }                                                        \
  };
#include "unisono/network/maps.def"

// The column `types`: that of the result, and whether an operand may be a T, which is std::uint8_t for bool
template <class T>
struct SameType {
  using Result = T;
  static constexpr bool accepted = true;
};
template <class T>
struct TruthValue {
  using Result = std::uint8_t;
  static constexpr bool accepted = true;
};
template <class T>
using numbers = SameType<T>;
template <class T>
struct floats : SameType<T> {
  static constexpr bool accepted = std::is_floating_point_v<T>;
};
template <class T>
struct integers : SameType<T> {
  static constexpr bool accepted = std::is_integral_v<T>;
};
template <class T>
using comparison = TruthValue<T>;
template <class T>
using equality = TruthValue<T>;
template <class T>
struct truth : TruthValue<T> {
  static constexpr bool accepted = std::is_same_v<T, std::uint8_t>;
};

template <int operands, class Types, class T, class F>
RowFunction row_of_function() {
  if constexpr (!Types::accepted) {
    throw InternalError("an elementwise operator has no such row");
  } else if constexpr (operands == 1) {
    return unary_row<T, typename Types::Result, F>;
  } else {
    return binary_row<T, typename Types::Result, F>;
  }
}

template <class T>
RowFunction row_of(MapOp op) {
  switch (op) {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, ...) \
  case MapOp::NAME:                             \
    return row_of_function<OPERANDS, TYPES<T>, T, NAME##_function>();
#include "unisono/network/maps.def"
    default: throw InternalError("an elementwise operator has no such row");
  }
}

RowFunction select_row_of(DType t) {
  switch (size_of(t)) {
    case 1: return select_row<std::uint8_t>;
    case 2: return select_row<std::uint16_t>;
    case 4: return select_row<std::uint32_t>;
    default: return select_row<std::uint64_t>;
  }
}

}  // namespace

RowFunction map_row(MapOp op, DType t) {
  if (op == MapOp::select) return select_row_of(t);
  return with_type(t, [op]<class T>() { return row_of<T>(op); });
}

}  // namespace unisono::cpu
