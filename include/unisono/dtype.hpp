#pragma once
/// Element types.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace unisono {

/// Element type of a tensor, and compute type of a node of an epilogue graph.
enum class DType : std::uint8_t {
  f64,
  f32,
  tf32,  ///< stored as f32, 10 bits of mantissa
  f16,
  bf16,
  f8e4m3,  ///< reserved: no kernel computes in it yet
  f8e5m2,  ///< reserved
  i32,
  boolean,  ///< stored as one byte, 0 or 1; written `bool` in the text form
  // Tensors of networks only; no epilogue graph has them
  i8,
  u8,
  i16,
  u16,
  u32,
  i64,
  u64,
};

inline constexpr int dtype_count = 9;          ///< those that epilogue graphs know: f64 to boolean
inline constexpr int tensor_dtype_count = 16;  ///< all

/// Bytes of one stored element.
constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
    case DType::f32:
    case DType::tf32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return 2;
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::i8:
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_float(DType t) { return t < DType::i32; }

/// Unit roundoff u = 2^-p of round-to-nearest (p bits of significand); 0 for the exact types: integers and bool.
constexpr double unit_roundoff(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::tf32:
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f8e4m3: return 0x1p-4;
    case DType::f8e5m2: return 0x1p-3;
    default: return 0;
  }
}

/// Name in the text form: "f32", "bf16", "bool", …
std::string_view to_string(DType t);

/// Inverse of to_string for what epilogue graphs know; nothing if `name` is none of these.
std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace unisono
