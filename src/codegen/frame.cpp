#include "codegen/frame.hpp"

#include <fmt/format.h>

#include <set>
#include <sstream>

#include "codegen/visitor.hpp"
#include "ir/function_forms.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

std::string commented(const std::string& text) {
  std::istringstream lines(text);
  std::string result, line;
  while (std::getline(lines, line)) result += "//   " + line + "\n";
  return result;
}

// Several functions may come from one text
std::string functions_text(const plan::Epilogue& e) {
  std::set<std::string> pasted;
  std::string text;
  ir::VectorForms forms = 0;
  std::set<std::string> called;
  for (const Node& x : e.graph.nodes)
    if (x.op == Op::call) called.insert(x.attr.name);
  for (const std::string& name : called) {
    const UserFunction& function = *e.graph.functions.at(name);
    forms |= ir::vector_forms(function);
    for (const std::string& source : {function.shared_source, function.cuda_source})
      if (!source.empty() && pasted.insert(source).second) text += source + "\n\n";
  }
  return (forms == 0 ? "" : "#include <unisono/epilogue/vectors.cuh>\n\n") + text;
}

std::string_view operand_tag(DType element) {
#define TAG(NAME) return NAME;
#define UNISONO_DTYPE(NAME, TEXT, KIND, BYTES, BITS, ...) \
  if (element == DType::NAME) {                           \
    __VA_ARGS__                                           \
  }
#include "support/dtypes.inc"
  throw InternalError(
      fmt::format("a configuration for operands of {}: kernels take bf16, f16 and tf32", to_string(element)));
}

Kernel framed(const plan::Epilogue& epilogue, const Options& options, const Frame& frame) {
  VisitorWriter visitor(epilogue, options);
  const std::string body = visitor.text();  // first: it refuses what cannot be generated
  Kernel kernel;
  kernel.entry = "unisono_kernel";
  kernel.fields = visitor.fields();
  kernel.source =
      "// A convolution and its epilogue in one kernel:\n" + commented(print(epilogue.graph)) +
      (options.watchdog ? "#define UNISONO_WATCHDOG\n" : "") + (options.delays ? "#define UNISONO_DELAYS\n" : "") +
      "#include <" + frame.header +
      ">\n#include <unisono/epilogue/math.cuh>\n#include <unisono/epilogue/operands.cuh>\n" +
      (plan::places(epilogue.graph) ? "#include <unisono/epilogue/placed.cuh>\n\n" : "\n") + functions_text(epilogue) +
      "namespace unisono {\n\n" + frame.config + "\n" + body + "\nusing Conv = " + frame.kernel +
      "<Config, Visitor>;\n\n}  // namespace unisono\n\n" +
      "extern \"C\" __global__ void __launch_bounds__(unisono::Conv::kThreads, " + frame.minimum +
      ")\n"
      "unisono_kernel(const __grid_constant__ unisono::Conv::Params params) {\n    unisono::Conv::run(params);\n}\n";
  return kernel;
}

}  // namespace unisono::codegen
