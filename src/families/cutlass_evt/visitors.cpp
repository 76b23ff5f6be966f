#include "families/cutlass_evt/visitors.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {

std::string element_name(DType t) {
  switch (t) {
    case DType::f32:
    case DType::tf32: return "float";
    case DType::bf16: return "cutlass::bfloat16_t";
    case DType::f16: return "cutlass::half_t";
    case DType::boolean: return "std::uint8_t";
    case DType::i32: return "std::int32_t";
    default: throw InternalError(fmt::format("no element of CUTLASS's for {}", to_string(t)));
  }
}

}  // namespace unisono::families::cutlass_evt
