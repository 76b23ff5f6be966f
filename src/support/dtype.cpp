#include "unisono/dtype.hpp"

#include <array>

namespace unisono {

namespace {
constexpr std::array<std::string_view, tensor_dtype_count> names{"f64",    "f32", "tf32", "f16", "bf16", "f8e4m3",
                                                                 "f8e5m2", "i32", "bool", "i8",  "u8",   "i16",
                                                                 "u16",    "u32", "i64",  "u64"};
}

std::string_view to_string(DType t) { return names[static_cast<std::size_t>(t)]; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (std::size_t i = 0; i < dtype_count; ++i)
    if (names[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace unisono
