#include "codegen/pieces.hpp"

#include <fmt/format.h>

namespace coda::codegen {

std::string_view element_name(DType t) {
  switch (t) {
    case DType::bf16: return "Bf16";
    case DType::f16: return "F16";
    case DType::i32: return "int";
    case DType::boolean: return "bool";
    default: return "float";
  }
}

std::string function(const std::string& head, const std::string& body) {
  return fmt::format("    static CODA_DEVICE {} {{{}}}\n", head, body.empty() ? "" : "\n" + body + "    ");
}

std::string structure(const std::string& name, const std::string& members) {
  return fmt::format("    struct {} {{{}}};\n", name, members.empty() ? "" : "\n" + members + "    ");
}

}  // namespace coda::codegen
