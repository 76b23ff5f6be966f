#include "codegen/pieces.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::codegen {

std::string_view element_name(DType t) {
#define ELEMENT(NAME) return NAME;
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  throw InternalError(fmt::format("no visitor reads or writes {}", to_string(t)));
}

ElementCode element_code(DType t) {
#define CODE(NAME) return ElementCode::NAME;
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (t == DType::NAME) {                                 \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  return ElementCode::none;
}

std::string chosen(const std::vector<std::string>& of, std::string_view none) {
  if (of.empty()) return std::string(none);
  std::string text;
  for (std::size_t i = 0; i + 1 < of.size(); ++i) text += fmt::format("i == {} ? {} : ", i, of[i]);
  return text + of.back();
}

std::string_view fold_name(Op op) {
  return op == Op::reduce_max ? "Fold::kMax" : op == Op::reduce_min ? "Fold::kMin" : "Fold::kSum";
}

std::string term(Op op, const std::string& x) { return op == Op::sum_squares ? fmt::format("{0} * {0}", x) : x; }

std::string branch(std::string_view variable, std::size_t i, const std::string& lines) {
  return lines.empty() ? "" : fmt::format("        if constexpr ({} == {}) {{\n{}        }}\n", variable, i, lines);
}

std::string function(const std::string& head, const std::string& body) {
  return fmt::format("    static UNISONO_DEVICE {} {{{}}}\n", head, body.empty() ? "" : "\n" + body + "    ");
}

std::string structure(const std::string& name, const std::string& members) {
  return fmt::format("    struct {} {{{}}};\n", name, members.empty() ? "" : "\n" + members + "    ");
}

std::string indented(const std::string& lines) {
  std::string text;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at) + 1;
    text += "    " + lines.substr(at, end - at);
    at = end;
  }
  return text;
}

}  // namespace unisono::codegen
