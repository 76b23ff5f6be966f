#include "families/cutlass_evt/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "codegen/frame.hpp"
#include "families/cutlass_evt/builtin_fusion.hpp"
#include "families/cutlass_evt/kernel_text.hpp"
#include "families/cutlass_evt/topology.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::families::cutlass_evt {
namespace {

constexpr const char* entry = "unisono_evt";

std::string parameter(const Visitors& v, const Config& c) {
  return fmt::format(
      "// The problem, and what the visitors read\n"
      "struct Parameter {{\n"
      "    CutlassEvtParams to;\n"
      "{}"
      "    unsigned long long fields[{}];\n"
      "}};\n"
      "template <class T>\n"
      "CUTLASS_HOST_DEVICE T* address(const Parameter& p, int field) {{\n"
      "    return reinterpret_cast<T*>(p.fields[field]);\n"
      "}}\n"
      "CUTLASS_HOST_DEVICE float number(const Parameter& p, int field) {{\n"
      "    float value;\n"
      "    std::memcpy(&value, &p.fields[field], sizeof value);\n"
      "    return value;\n"
      "}}\n\n",
      c.convolution     ? "    CutlassEvtWindow window;\n"
      : c.grouped       ? "    CutlassEvtGroups groups;\n"
      : c.products == 2 ? "    CutlassEvtSecond second;\n"
                        : "",
      std::max<std::size_t>(1, v.fields.size()));
}

constexpr const char* exported = R"~(}  // namespace unisono::evt

extern "C" {
#define UNISONO_EXPORTED __attribute__((visibility("default")))
UNISONO_EXPORTED unsigned long long unisono_evt_parameter_bytes() { return sizeof(unisono::evt::Parameter); }
UNISONO_EXPORTED int unisono_evt_run(const void* parameter, void* stream) {
    return unisono::evt::run(*static_cast<const unisono::evt::Parameter*>(parameter), static_cast<cudaStream_t>(stream));
}
UNISONO_EXPORTED const char* unisono_evt_text(int status) {
    return status >= 1000 ? cudaGetErrorString(cudaError_t(status - 1000)) : cutlassGetStatusString(cutlass::Status(status));
}
}
)~";

}  // namespace

std::string factor_name(DType t) { return t == DType::tf32 ? "cutlass::tfloat32_t" : element_name(t); }
int alignment_of(DType t) { return static_cast<int>(16 / size_of(t)); }

codegen::Kernel generate(const plan::Epilogue& e, const Config& c, const codegen::Options& options) {
  auto found = visitors_of(e, options, visitor_set(c));
  if (!found) throw InternalError("text for an epilogue that is refused: " + found.refusal().text());
  const Visitors& v = *found;
  const KernelText parts = is_2x(c.arch) ? sm80_kernel(c, v, tree_of(v)) : sm90_kernel(c, v, tree_of(v));
  std::string text = fmt::format("// A {} and its epilogue by CUTLASS's visitors:\n{}",
                                 c.gradient        ? "gradient of filters"
                                 : c.convolution   ? "convolution"
                                 : c.grouped       ? "grouped matrix product"
                                 : c.products == 2 ? "dual matrix product"
                                                   : "matrix product",
                                 codegen::commented(print(e.graph)));
  if (const auto name = is_2x(c.arch) ? std::nullopt : builtin_fusion(v))
    text += fmt::format("// The same as {}.\n", *name);
  text += parts.includes + codegen::functions_text(e);
  text +=
      "namespace unisono::evt {\n\nusing namespace cute;\nnamespace fusion = cutlass::epilogue::fusion;\n"
      "namespace thread = cutlass::epilogue::thread;\n\n";
  text += parts.types + parameter(v, c) + parts.host + exported;
  return {.source = std::move(text),
          .entry = entry,
          .fields = v.fields,
          .library = codegen::Library{std::string(code_of(c.arch))}};
}

}  // namespace unisono::families::cutlass_evt
