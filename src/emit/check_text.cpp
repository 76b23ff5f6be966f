#include "emit/check_text.hpp"

#include <fmt/format.h>

#include "emit/reference_text.hpp"

namespace unisono::emit {
namespace {

std::int64_t count_of(const Argument& a) {
  std::int64_t count = 1;
  for (const std::int64_t extent : a.shape) count *= extent;
  return count;
}

std::string tensors_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < filled.tensors(); ++i) {
    const Argument& a = filled.arguments[i];
    text += a.is_written ? fmt::format("  Tensor t{} = output_tensor({}, {});", i, type_text(a.dtype), count_of(a))
                         : fmt::format("  const Tensor t{} = random_tensor({}, {}, space.columns);", i,
                                       type_text(a.dtype), count_of(a));
    text += fmt::format("  // {}\n", a.what);
  }
  text += fmt::format("  {}_arguments a{{}};\n", name);
  for (std::size_t i = 0; i < filled.arguments.size(); ++i) {
    const Argument& a = filled.arguments[i];
    text += a.is_tensor() ? fmt::format("  a.{} = t{}.data();\n", a.name, i)
                          : fmt::format("  a.{} = {}({});\n", a.name, a.dtype == DType::f32 ? "float" : "int",
                                        literal(number_of(lowered, filled, i)));
  }
  return text;
}

std::string launches_text(const Filled& filled, std::string_view name) {
  std::string poison, bits, all;
  for (std::size_t i = 0; i < filled.tensors(); ++i)
    if (filled.arguments[i].is_written) {
      poison += fmt::format("    t{}.poison();\n", i);
      all += fmt::format("{}t{}.all()", all.empty() ? "" : ", ", i);
    }
  return fmt::format(
      "  a.workspace_bytes = {0}_workspace_bytes();\n"
      "  if (a.workspace_bytes > 0) {{\n"
      "    succeed(cudaMalloc(&a.workspace, a.workspace_bytes), \"cudaMalloc\");\n"
      "    succeed(cudaMemset(a.workspace, 0, a.workspace_bytes), \"cudaMemset\");\n"
      "  }}\n"
      "  std::vector<std::vector<unsigned char>> found[2];\n"
      "  for (auto& of_launch : found) {{\n"
      "{1}"
      "    if (const int status = {0}_run(&a, nullptr)) {{\n"
      "      fprintf(stderr, \"{0}_run: %s\\n\", {0}_text(status));\n"
      "      return 2;\n"
      "    }}\n"
      "    succeed(cudaDeviceSynchronize(), \"the kernel\");\n"
      "    of_launch = {{{2}}};\n"
      "  }}\n"
      "  bool ok = found[0] == found[1];\n"
      "  if (!ok) printf(\"two launches have different bits\\n\");\n",
      name, poison, all);
}

}  // namespace

std::string check_text(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  return "\nint main() {\n  using namespace unisono::emitted;\n" + problem_text(lowered.problem.contraction) +
         tensors_text(lowered, filled, name) + launches_text(filled, name) + reference_text(lowered, filled) +
         "  printf(\"%s\\n\", ok ? \"ok\" : \"WRONG\");\n  return ok ? 0 : 1;\n}\n";
}

}  // namespace unisono::emit
