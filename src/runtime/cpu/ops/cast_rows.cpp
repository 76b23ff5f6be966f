/// Conversions between element types.

#include <limits>
#include <type_traits>

#include "runtime/cpu/ops/map_rows.hpp"
#include "runtime/cpu/ops/tensor.hpp"
#include "runtime/cpu/vector/unit.hpp"
#include "support/float_convert.hpp"

namespace unisono::cpu {

namespace {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Truth {
  std::uint8_t bits;
};

template <class F>
RowFunction with_stored_type(DType t, F f) {
  switch (t) {
    case DType::f16: return f.template operator()<Half>();
    case DType::bf16: return f.template operator()<Brain>();
    case DType::boolean: return f.template operator()<Truth>();
    default: return with_type(t, f);
  }
}

// The value as a number: float, double or an integer
template <class From>
auto number(From x) {
  if constexpr (std::is_same_v<From, Half>)
    return support::f16_to_float(x.bits);
  else if constexpr (std::is_same_v<From, Brain>)
    return support::bf16_to_float(x.bits);
  else if constexpr (std::is_same_v<From, Truth>)
    return static_cast<std::uint8_t>(x.bits != 0 ? 1 : 0);
  else
    return x;
}

template <class To, class From>
To integer(From x) {
  if constexpr (std::is_floating_point_v<From>) {
    if (x != x) return 0;
    // the ends as floats: the upper one of wide types is rounded up and no value of the type
    constexpr auto low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto high = static_cast<From>(std::numeric_limits<To>::max());
    if (x <= low) return std::numeric_limits<To>::min();
    if (x >= high) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

template <class To, class From>
To converted(From from) {
  const auto x = number(from);
  if constexpr (std::is_same_v<To, Truth>) return {static_cast<std::uint8_t>(x != 0 ? 1 : 0)};
  // to 16 bits in one rounding
  else if constexpr (std::is_same_v<To, Brain> && std::is_same_v<decltype(x), const float>)
    return {support::float_to_bf16(x)};
  else if constexpr (std::is_same_v<To, Half> && std::is_same_v<decltype(x), const float>)
    return {support::float_to_f16(x)};
  else if constexpr (std::is_same_v<To, Half>)
    return {support::float_to_f16(static_cast<float>(support::round_to(static_cast<double>(x), DType::f16)))};
  else if constexpr (std::is_same_v<To, Brain>)
    return {support::float_to_bf16(static_cast<float>(support::round_to(static_cast<double>(x), DType::bf16)))};
  else if constexpr (std::is_floating_point_v<To>)
    return static_cast<To>(x);
  else
    return integer<To>(x);
}

template <class From, class To>
void convert_row(std::int64_t count, char* const* p, const std::int64_t* s) {
  for (std::int64_t i = 0; i < count; ++i)
    *reinterpret_cast<To*>(p[1] + i * s[1]) = converted<To>(*reinterpret_cast<const From*>(p[0] + i * s[0]));
}

// By the vector unit where elements follow one another
template <class From, class To, auto function>
void convert_dense(std::int64_t count, char* const* p, const std::int64_t* s) {
  if (s[0] != sizeof(From) || s[1] != sizeof(To)) return convert_row<From, To>(count, p, s);
  using Bits = std::conditional_t<std::is_same_v<From, float>, float, std::uint16_t>;
  using Made = std::conditional_t<std::is_same_v<To, float>, float, std::uint16_t>;
  (vector_unit().*function)(reinterpret_cast<const Bits*>(p[0]), reinterpret_cast<Made*>(p[1]),
                            static_cast<std::size_t>(count));
}

template <class From, class To>
constexpr RowFunction conversion() {
  if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Brain>)
    return convert_dense<From, To, &VectorUnit::store_bf16>;
  else if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>)
    return convert_dense<From, To, &VectorUnit::store_f16>;
  else if constexpr (std::is_same_v<From, Brain> && std::is_same_v<To, float>)
    return convert_dense<From, To, &VectorUnit::load_bf16>;
  else if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>)
    return convert_dense<From, To, &VectorUnit::load_f16>;
  else
    return convert_row<From, To>;
}

}  // namespace

RowFunction cast_row(DType from, DType to) {
  return with_stored_type(from, [to]<class From>() {
    return with_stored_type(to, []<class To>() -> RowFunction { return conversion<From, To>(); });
  });
}

}  // namespace unisono::cpu
