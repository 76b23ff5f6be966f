#include "tensors/text.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

struct DeviceTypes {
  std::string_view element, number;
};

DeviceTypes device_types(DType t) {
#define TENSOR(TAG, NUMBER) return {TAG, NUMBER};
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  throw InternalError("tensors of " + std::string(to_string(t)));
}

}  // namespace

std::string_view tag_of(DType t) { return device_types(t).element; }

std::string_view number_of(DType t) { return device_types(t).number; }

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
