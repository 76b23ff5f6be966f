#include "tensors/text.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::tensors {

std::string_view tag_of(DType t) {
  switch (t) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16: return "F16";
    case DType::bf16: return "Bf16";
    case DType::boolean: return "bool";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::i16: return "i16";
    case DType::u16: return "u16";
    case DType::i32: return "i32";
    case DType::u32: return "u32";
    case DType::i64: return "i64";
    case DType::u64: return "u64";
    default: throw InternalError("tensors of " + std::string(to_string(t)));
  }
}

std::string_view number_of(DType t) { return t == DType::f16 || t == DType::bf16 ? "float" : tag_of(t); }

std::string_view word_of(std::size_t bytes) {
  switch (bytes) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    case 8: return "u64";
    case 16: return "uint4";
    default: throw InternalError("a word of " + std::to_string(bytes) + " bytes");
  }
}

std::string kernel_text(std::string_view entry, std::string_view parameters, std::string_view function) {
  return fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__(256)\n{}(const __grid_constant__ unisono::{} p) {{\n"
      "    using namespace unisono;\n    using namespace unisono::tensor;\n    begin();\n    {}(p);\n}}\n",
      entry, parameters, function);
}

}  // namespace unisono::tensors
