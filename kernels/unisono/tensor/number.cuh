// Elements of tensors of any type: as words in memory, as numbers, and from one type to another.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono::tensor {

using i8 = signed char;
using i16 = short;
using i32 = int;

template <class T>
constexpr bool kIsFloat = T(0.5) != T(0);
template <>
constexpr bool kIsFloat<bool> = false;
template <class T>
constexpr bool kIsSigned = T(-1) < T(0);
// The ends of an integer type.
template <class T>
constexpr T kLowest = kIsSigned<T> ? T(u64(1) << (8 * sizeof(T) - 1)) : T(0);
template <class T>
constexpr T kLargest = kIsSigned<T> ? T((u64(1) << (8 * sizeof(T) - 1)) - 1) : T(~u64(0));

template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Word = u8;
};
template <>
struct WordOf<2> {
  using Word = u16;
};
template <>
struct WordOf<4> {
  using Word = u32;
};
template <>
struct WordOf<8> {
  using Word = u64;
};

// The type of an element in memory, a tag: the word that holds one, the number that it is, and in what weighted sums of
// floats are added up. Short floats are numbers of type float, bools bytes of 0 and 1.
template <class T>
struct Stored {
  using Word = typename WordOf<sizeof(T)>::Word;
  using Number = T;
  static UNISONO_DEVICE T number(Word word) { return T(word); }
  static UNISONO_DEVICE Word word(T x) { return Word(x); }
};
template <>
struct Stored<float> {
  using Word = u32;
  using Number = float;
  using Sum = double;
  static UNISONO_DEVICE float number(u32 word) { return __uint_as_float(word); }
  static UNISONO_DEVICE u32 word(float x) { return __float_as_uint(x); }
};
template <>
struct Stored<double> {
  using Word = u64;
  using Number = double;
  static UNISONO_DEVICE double number(u64 word) { return __longlong_as_double(i64(word)); }
  static UNISONO_DEVICE u64 word(double x) { return u64(__double_as_longlong(x)); }
};
template <>
struct Stored<bool> {
  using Word = u8;
  using Number = bool;
  static UNISONO_DEVICE bool number(u8 word) { return word != 0; }
  static UNISONO_DEVICE u8 word(bool x) { return x ? 1 : 0; }
};
template <class Element>
struct StoredShort {  // Bf16, F16
  using Word = u16;
  using Number = float;
  using Sum = float;
  static UNISONO_DEVICE float number(u16 word) { return Element::unpack(word).x; }
  static UNISONO_DEVICE u16 word(float x) { return u16(Element::pack(x, 0.f)); }
};
template <>
struct Stored<Bf16> : StoredShort<Bf16> {};
template <>
struct Stored<F16> : StoredShort<F16> {};

template <class T>
using NumberOf = typename Stored<T>::Number;

// An element by its offset. Memory that the launch itself writes is read by `own`.
template <class T>
UNISONO_DEVICE NumberOf<T> load(const void* memory, i64 offset) {
  return Stored<T>::number(__ldg(static_cast<const typename Stored<T>::Word*>(memory) + offset));
}
template <class T>
UNISONO_DEVICE NumberOf<T> own(const void* memory, i64 offset) {
  return Stored<T>::number(static_cast<const typename Stored<T>::Word*>(memory)[offset]);
}
template <class T>
UNISONO_DEVICE void store(void* memory, i64 offset, NumberOf<T> x) {
  static_cast<typename Stored<T>::Word*>(memory)[offset] = Stored<T>::word(x);
}

// Toward zero; beyond the range of the type its nearest end, and 0 for NaN. Integers wrap.
template <class To, class From>
UNISONO_DEVICE To to_integer(From x) {
  if constexpr (kIsFloat<From>) {
    if (x != x) return 0;
    // The ends as floats: the upper one of wide types is rounded up, and no value of the type.
    if (x <= From(kLowest<To>)) return kLowest<To>;
    if (x >= From(kLargest<To>)) return kLargest<To>;
  }
  return To(x);
}

// One of the two floats next to x if x is not a float, that with an odd significand: what is then rounded to 16 bits is
// x rounded once.
UNISONO_DEVICE float to_odd(double x) {
  const float nearest = float(x);
  if (double(nearest) == x || x != x) return nearest;
  const u32 bits = __float_as_uint(nearest);
  return __uint_as_float((fabs(double(nearest)) > fabs(x) ? bits - 1 : bits) | 1u);
}
UNISONO_DEVICE float to_odd(float x) { return x; }

// A number as an element of another type, rounded once.
template <class To>
struct Conversion {
  template <class From>
  static UNISONO_DEVICE To of(From x) {
    if constexpr (kIsFloat<To>)
      return To(x);
    else
      return to_integer<To>(x);
  }
};
template <>
struct Conversion<bool> {
  template <class From>
  static UNISONO_DEVICE bool of(From x) {
    return x != From(0);
  }
};
template <class Element>
struct ConversionToShort {
  static UNISONO_DEVICE float of(float x) { return Stored<Element>::number(Stored<Element>::word(x)); }
  template <class From>
  static UNISONO_DEVICE float of(From x) {
    return of(to_odd(double(x)));
  }
};
template <>
struct Conversion<Bf16> : ConversionToShort<Bf16> {};
template <>
struct Conversion<F16> : ConversionToShort<F16> {};

template <class To, class From>
UNISONO_DEVICE NumberOf<To> converted(From x) {
  return Conversion<To>::of(x);
}

}  // namespace unisono::tensor
