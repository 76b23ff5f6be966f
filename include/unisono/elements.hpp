#pragma once
/// C++ element types, and views of host arrays that deduce the dtype and check the shape.
///
///     std::vector<float> weights(64 * 32);
///     std::vector<unisono::BFloat16> image = unisono::to_bf16(pixels);
///     kernel.run({.left = unisono::view(rows, {8, 4}), .right = unisono::view(weights, {4, 32}), …});

#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/tensor.hpp"

namespace unisono {

/// bfloat16. Conversions round to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float x);
  explicit operator float() const;
};

/// IEEE binary16. Conversions round to nearest even; values that are too large become infinity.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float x);
  explicit operator float() const;
};

std::vector<BFloat16> to_bf16(std::span<const float> values);
std::vector<Float16> to_f16(std::span<const float> values);
std::vector<float> to_f32(std::span<const BFloat16> values);
std::vector<float> to_f32(std::span<const Float16> values);

/// The DType of a C++ type: float, double, BFloat16, Float16, bool and the integers of 8 to 64 bits.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, Float16>) return DType::f16;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? DType::i8 : DType::u8;
    if constexpr (sizeof(T) == 2) return is_signed ? DType::i16 : DType::u16;
    if constexpr (sizeof(T) == 4) return is_signed ? DType::i32 : DType::u32;
    if constexpr (sizeof(T) == 8) return is_signed ? DType::i64 : DType::u64;
  }
  static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>,
                "expected float, double, BFloat16, Float16, bool or an integer");
}

/// Throws UserError unless the shape has exactly this number of elements.
void check_fills(std::size_t elements, const std::vector<std::int64_t>& shape);

/// Returns a dense row-major view of a vector, an array or a span, which must outlive it. It is writable unless the
/// elements are const. Throws UserError if they do not fill the shape exactly.
template <class Elements>
auto view(Elements& elements, std::vector<std::int64_t> shape) {
  using Element = std::remove_pointer_t<decltype(std::data(elements))>;
  using View = std::conditional_t<std::is_const_v<Element>, ConstTensorView, TensorView>;
  check_fills(std::size(elements), shape);
  return View{std::data(elements), dtype_of<std::remove_const_t<Element>>(), std::move(shape), {}};
}

}  // namespace unisono
