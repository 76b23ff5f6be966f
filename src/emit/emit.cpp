#include "emit/emit.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "codegen/file_local.hpp"
#include "codegen/frame.hpp"
#include "codegen/inlined.hpp"
#include "emit/check_text.hpp"
#include "emit/filled.hpp"
#include "emit/host_text.hpp"
#include "emit/reference_text.hpp"

namespace unisono::emit {
namespace {

// Headers have constants for other kernels, too. A function's type that follows from its body must be known where the
// compiler of the host reads it, to which nvcc hands device functions without their bodies.
constexpr const char* ahead =
    "#ifdef __CUDACC__\n"
    "#pragma nv_diagnostic push\n"
    "#pragma nv_diag_suppress 177, 549  // never referenced; used before it is set: members that nothing reads\n"
    "#define UNISONO_DEDUCED __host__ __device__\n"
    "#else\n"
    "#define UNISONO_DEDUCED\n"
    "#endif\n"
    "#ifdef __GNUC__\n"
    "#pragma GCC diagnostic push\n"
    "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n"
    "#endif\n\n";
// Whoever includes the file has diagnostics as before
constexpr const char* behind =
    "\n#ifdef __GNUC__\n"
    "#pragma GCC diagnostic pop\n"
    "#endif\n"
    "#ifdef __CUDACC__\n"
    "#pragma nv_diagnostic pop\n"
    "#endif\n";

// A function whose type stands behind its arguments needs no body there, and may have been declared without `auto`
std::string with_deduced(std::string source) {
  constexpr std::string_view device = "UNISONO_DEVICE", head = "UNISONO_DEVICE auto ";
  for (std::size_t at = source.find(head); at != std::string::npos; at = source.find(head, at + 1)) {
    const std::string_view declared = std::string_view(source).substr(at, source.find_first_of("{;", at) - at);
    if (declared.find("->") == std::string_view::npos) source.replace(at, device.size(), "UNISONO_DEDUCED");
  }
  return source;
}

std::string notes(const lower::Lowered& lowered) {
  const families::Capability c = lowered.plan().family->capability();
  return fmt::format(
      "// Written by `unisono emit`. {}\n"
      "// Compile with nvcc of CUDA 12.3 or later; nothing else is needed, and only the CUDA runtime is linked:\n"
      "//   nvcc -std=c++17 -O2 --expt-relaxed-constexpr {} -c FILE\n"
      "// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel and checks every element.\n",
      title(lowered),
      c.and_later ? fmt::format("-arch=sm_{}{} (or later)", c.major, c.minor)
                  : fmt::format("-gencode=arch=compute_{0}{1}a,code=sm_{0}{1}a", c.major, c.minor));
}

std::string self_check(const lower::Lowered& lowered, const Filled& filled, std::string_view name) {
  if (const auto reason = why_unchecked(lowered)) return fmt::format("#error \"{}: no self check\"\n", *reason);
  return "#include \"unisono/emitted/contraction.hpp\"\n#include \"unisono/emitted/functions.hpp\"\n" +
         check_text(lowered, filled, name);
}

}  // namespace

plan::Expected<families::Standalone> files(const lower::Lowered& lowered, std::string_view name) {
  const families::Launched launched{lowered.problem.task, lowered.epilogue(), lowered.kernel};
  if (lowered.kernel.library) return lowered.plan().family->standalone(lowered.plan(), launched, name);
  const Filled what = filled(lowered);
  const std::string kernel =
      codegen::with_own_functions(lowered.kernel.source, codegen::functions_text(lowered.epilogue()), name);
  std::string source =
      codegen::inlined(kernel + "#include \"unisono/emitted/launch.hpp\"\n" + host_text(lowered, what, name) +
                           "\n#ifdef UNISONO_SELF_CHECK\n" + self_check(lowered, what, name) + "#endif\n",
                       codegen::emitted_headers());
  source = with_deduced(std::move(source));
  // Kernels of several files meet in one program
  source = codegen::renamed(source, lowered.kernel.entry, fmt::format("{}_kernel", name));
  source = codegen::renamed(source, "unisono::", fmt::format("unisono_{}::", name));
  source = codegen::renamed(source, "namespace unisono", fmt::format("namespace unisono_{}", name));
  return families::Standalone{notes(lowered) + fmt::format("#include \"{}.h\"\n\n", name) + ahead + source + behind,
                              header_text(lowered, what, name)};
}

}  // namespace unisono::emit
