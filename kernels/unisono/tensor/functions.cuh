// The functions of the table of maps (unisono/network/maps.def), of numbers of one type. Floats are as accurate as
// CUDA's own functions, some units in the last place at most.
#pragma once
#include "unisono/tensor/faults.cuh"
#include "unisono/tensor/number.cuh"

namespace unisono::tensor {

// --- arithmetic: integers wrap, so that theirs is that of the widest unsigned type ---

template <class T>
UNISONO_DEVICE T sum(T x, T y) {
  if constexpr (kIsFloat<T>)
    return x + y;
  else
    return T(u64(x) + u64(y));
}
template <class T>
UNISONO_DEVICE T difference(T x, T y) {
  if constexpr (kIsFloat<T>)
    return x - y;
  else
    return T(u64(x) - u64(y));
}
template <class T>
UNISONO_DEVICE T product(T x, T y) {
  if constexpr (kIsFloat<T>)
    return x * y;
  else
    return T(u64(x) * u64(y));
}
template <class T>
UNISONO_DEVICE T negative(T x) {
  if constexpr (kIsFloat<T>)
    return -x;
  else
    return T(u64(0) - u64(x));  // the lowest wraps
}
UNISONO_DEVICE float absolute(float x) { return fabsf(x); }
UNISONO_DEVICE double absolute(double x) { return fabs(x); }
template <class T>
UNISONO_DEVICE T absolute(T x) {
  if constexpr (kIsSigned<T>) return x < 0 ? negative(x) : x;
  return x;
}
template <class T>
UNISONO_DEVICE T sign(T x) {
  if (x > 0) return T(1);
  if constexpr (kIsSigned<T>)
    if (x < 0) return T(-1);
  return x;  // 0 with its sign, or NaN
}
// A NaN in either makes a NaN.
template <class T>
UNISONO_DEVICE T lesser(T x, T y) {
  return x != x || x < y ? x : y;
}
template <class T>
UNISONO_DEVICE T greater(T x, T y) {
  return x != x || x > y ? x : y;
}

// --- quotients: of integers toward zero; 0 where the divisor is ---

template <class T>
UNISONO_DEVICE T quotient(T x, T y, const FaultReport& faults) {
  if constexpr (!kIsFloat<T>) {
    if (!divides(y, faults)) return 0;
    if constexpr (kIsSigned<T>)
      if (y == T(-1)) return negative(x);
  }
  return T(x / y);
}
UNISONO_DEVICE float remainder(float x, float y, const FaultReport&) { return fmodf(x, y); }
UNISONO_DEVICE double remainder(double x, double y, const FaultReport&) { return fmod(x, y); }
template <class T>
UNISONO_DEVICE T remainder(T x, T y, const FaultReport& faults) {
  if (!divides(y, faults)) return 0;
  if constexpr (kIsSigned<T>)
    if (y == T(-1)) return 0;  // of the lowest, the division overflows
  return T(x % y);
}
UNISONO_DEVICE float signed_as(float x, float y) { return copysignf(x, y); }
UNISONO_DEVICE double signed_as(double x, double y) { return copysign(x, y); }
// The remainder with the sign of the divisor.
template <class T>
UNISONO_DEVICE T modulo(T x, T y, const FaultReport& faults) {
  const T r = remainder(x, y, faults);
  if constexpr (kIsFloat<T>)
    if (r == 0) return signed_as(r, y);
  return r != 0 && (r < 0) != (y < 0) ? T(r + y) : r;  // NaN stays NaN
}

// --- powers of integers wrap; of negative exponents they are 1/x^|y| toward zero ---

UNISONO_DEVICE float power(float x, float y, const FaultReport&) { return powf(x, y); }
UNISONO_DEVICE double power(double x, double y, const FaultReport&) { return pow(x, y); }
template <class T>
UNISONO_DEVICE T power(T x, T y, const FaultReport& faults) {
  if constexpr (kIsSigned<T>) {
    if (y < 0) {
      if (!divides(x, faults)) return 0;
      return x == T(1) ? T(1) : x == T(-1) ? T(y % 2 != 0 ? -1 : 1) : T(0);
    }
  }
  u64 result = 1, base = u64(x);  // their low bits are those of T
  for (u64 n = u64(y); n > 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return T(result);
}

// --- shifts: all bits are out where the distance is the width or more, or negative ---

template <class T>
UNISONO_DEVICE T shifted_left(T x, T y) {
  return u64(y) >= 8 * sizeof(T) ? T(0) : T(u64(x) << u64(y));
}
template <class T>
UNISONO_DEVICE T shifted_right(T x, T y) {
  if (u64(y) >= 8 * sizeof(T)) return kIsSigned<T> && x < T(0) ? T(-1) : T(0);
  return T(x >> y);
}

// --- functions of floats ---

#define UNISONO_TENSOR_FUNCTION(NAME)                         \
  UNISONO_DEVICE float NAME(float x) { return ::NAME##f(x); } \
  UNISONO_DEVICE double NAME(double x) { return ::NAME(x); }
UNISONO_TENSOR_FUNCTION(floor)
UNISONO_TENSOR_FUNCTION(ceil)
UNISONO_TENSOR_FUNCTION(rint)
UNISONO_TENSOR_FUNCTION(sqrt)
UNISONO_TENSOR_FUNCTION(exp)
UNISONO_TENSOR_FUNCTION(expm1)
UNISONO_TENSOR_FUNCTION(log)
UNISONO_TENSOR_FUNCTION(log1p)
UNISONO_TENSOR_FUNCTION(sin)
UNISONO_TENSOR_FUNCTION(cos)
UNISONO_TENSOR_FUNCTION(tan)
UNISONO_TENSOR_FUNCTION(asin)
UNISONO_TENSOR_FUNCTION(acos)
UNISONO_TENSOR_FUNCTION(atan)
UNISONO_TENSOR_FUNCTION(sinh)
UNISONO_TENSOR_FUNCTION(cosh)
UNISONO_TENSOR_FUNCTION(tanh)
UNISONO_TENSOR_FUNCTION(asinh)
UNISONO_TENSOR_FUNCTION(acosh)
UNISONO_TENSOR_FUNCTION(atanh)
UNISONO_TENSOR_FUNCTION(erf)
#undef UNISONO_TENSOR_FUNCTION

}  // namespace unisono::tensor
