#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "emit/host_text.hpp"
#include "families/interface/family.hpp"
#include "unisono/text.hpp"

namespace unisono::emit {
namespace {

// A comment of C ends where its text says so
std::string in_comment(std::string text) {
  for (std::size_t at = text.find("*/"); at != text.npos; at = text.find("*/", at)) text.insert(at + 1, " ");
  return text;
}

std::string graph_text(const Graph& graph) {
  std::istringstream lines(print(graph));
  std::string text, line;
  while (std::getline(lines, line)) text += "     " + in_comment(line) + "\n";
  return text;
}

std::string member_text(const Argument& a) {
  const std::string null = a.is_optional ? "; null: the default" : "";
  if (a.is_captured) return fmt::format("  void* {};  /* {} */\n", a.name, a.what);
  if (a.is_tensor())
    return fmt::format("  {} {};  /* {}: {}, at a multiple of {} bytes{} */\n", a.is_written ? "void*" : "const void*",
                       a.name, a.what, shape_text(a), a.alignment, null);
  const bool real = a.dtype == DType::f32;
  return fmt::format("  {} {};  /* {}{} */\n", real ? "float" : "int", a.name, a.what,
                     a.dtype == DType::boolean ? ", 0 or 1" : "");
}

}  // namespace

std::string title(const lower::Lowered& lowered) {
  return fmt::format("{}: {}, {}", to_string(lowered.problem.contraction), lowered.plan().family->name(),
                     families::title(lowered.plan()));
}

std::string shape_text(const Argument& a) {
  const std::string type(a.dtype == DType::tf32 ? "f32" : to_string(a.dtype));
  return a.shape.empty() ? type : fmt::format("{} ({})", type, fmt::join(a.shape, ","));
}

std::string header_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  std::string text = fmt::format(
      "/* Written by `unisono emit`. {}\n{}*/\n"
      "#pragma once\n"
      "#include <stddef.h>\n\n"
      "#ifdef __cplusplus\n"
      "extern \"C\" {{\n"
      "#endif\n\n"
      "/* All of GPU memory, each tensor dense, row by row. No output shares memory with anything else. */\n"
      "struct {}_arguments {{\n",
      in_comment(title(lowered)), graph_text(lowered.problem.graph), name);
  for (const Argument& a : filled.arguments) text += member_text(a);
  text += fmt::format(
      "  void* workspace;         /* at a multiple of 256 bytes, set to 0 before the first launch; of launches that "
      "may\n"
      "                              run at once each has its own. Null if {0}_workspace_bytes() is 0 */\n"
      "  size_t workspace_bytes;  /* at least {0}_workspace_bytes() */\n"
      "}};\n\n"
      "/* Enqueues the kernel on a cudaStream_t of the current device; safe to call from several threads, and while "
      "the\n"
      "   stream is captured. 0; a cudaError_t, above 0; or, below 0, what {0}_text() tells. */\n"
      "int {0}_run(const struct {0}_arguments* arguments, void* stream);\n"
      "const char* {0}_text(int status);\n"
      "size_t {0}_workspace_bytes(void);\n\n"
      "#ifdef __cplusplus\n"
      "}}\n"
      "#endif\n",
      name);
  return text;
}

}  // namespace unisono::emit
