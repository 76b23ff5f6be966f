#pragma once
/// Element types.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace unisono {

/// Element type of a tensor, and compute type of a node of an epilogue graph: the rows of unisono/dtypes.def, in order.
/// tf32 is stored as f32, `boolean` (`bool` in the text form) as one byte, 0 or 1. f8e4m3 and f8e5m2 are reserved: no
/// kernel computes in them. i8 and the types after it are for tensors of networks only.
enum class DType : std::uint8_t {
#define UNISONO_DTYPE(NAME, ...) NAME,
#include "unisono/dtypes.def"
};

/// The number of types of epilogue graphs, f64 to boolean, and of all types.
inline constexpr int dtype_count = static_cast<int>(DType::boolean) + 1;
inline constexpr int tensor_dtype_count = static_cast<int>(DType::u64) + 1;

/// Bytes of one stored element.
constexpr std::size_t size_of(DType t) {
  constexpr std::size_t bytes[tensor_dtype_count] = {
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, ...) BYTES,
#include "unisono/dtypes.def"
  };
  return bytes[static_cast<std::size_t>(t)];
}

constexpr bool is_float(DType t) { return t < DType::i32; }

/// Unit roundoff u = 2^-p of round-to-nearest (p bits of significand); 0 for the exact types: integers and bool.
constexpr double unit_roundoff(DType t) {
  constexpr int bits[tensor_dtype_count] = {
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) BITS,
#include "unisono/dtypes.def"
  };
  const int p = bits[static_cast<std::size_t>(t)];
  return p == 0 ? 0 : 1.0 / static_cast<double>(std::uint64_t{1} << p);
}

/// Name in the text form: "f32", "bf16", "bool", …
std::string_view to_string(DType t);

/// Inverse of to_string for the types of epilogue graphs; nothing for any other name.
std::optional<DType> dtype_from_string(std::string_view name);

}  // namespace unisono
