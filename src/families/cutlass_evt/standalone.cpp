#include "families/cutlass_evt/standalone.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "codegen/inlined.hpp"
#include "families/cutlass_evt/self_check.hpp"
#include "families/cutlass_evt/visitors_of.hpp"
#include "unisono/error.hpp"

namespace unisono::families::cutlass_evt {
namespace {

// CUTLASS prints what it cannot describe to TMA: without a GPU that of a kernel's is asked for first
constexpr std::string_view run = "unisono_evt_run(const void* parameter, void* stream) {\n";
constexpr std::string_view device_check =
    "    int device = 0;\n"
    "    if (const cudaError_t error = cudaGetDevice(&device)) return 1000 + int(error);\n";

std::string member_of(const codegen::Field& f) {
  const std::string axes = to_string(f.axes);
  switch (f.kind) {
    case codegen::Field::Kind::operand_value:
      return fmt::format("    float {0};  /* operand {0} */\n    float unused_{0};\n", f.name);
    case codegen::Field::Kind::operand_pointer:
      return fmt::format("    const void* {0};  /* operand {0}{1}, {2}, dense */\n", f.name, axes, to_string(f.dtype));
    default: return fmt::format("    void* {0};  /* output {0}{1}, {2}, dense */\n", f.name, axes, to_string(f.dtype));
  }
}

constexpr const char* window_members =
    "    /* A convolution: m = images * p * q, n = channels of D, k = channels of A (images, h, w, k); B is (n, r, s, "
    "k) */\n"
    "    int images, h, w, p, q, r, s;\n"
    "    int stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w;\n"
    "    int unused_window;\n";

std::string header_text(const EvtPlan& plan, const Launched& what, const Visitors& v, std::string_view name) {
  std::string text = fmt::format(
      "/* Written by `unisono emit`. {} */\n"
      "#pragma once\n"
      "#ifdef __cplusplus\n"
      "extern \"C\" {{\n"
      "#endif\n\n"
      "/* All of GPU memory. A is (batch, {}), B is (batch, {}), D (batch, m, n); pitches count elements from row to "
      "row,\n"
      "   steps from matrix to matrix. Rows of A, B and matrices [m,n] are multiples of 16 bytes. */\n"
      "struct {}_arguments {{\n"
      "    long long m, n, k, batch;\n"
      "    long long pitch_a, pitch_b, pitch_d;\n"
      "    long long step_a, step_b;\n"
      "    long long sms;  /* that the launch may occupy */\n"
      "    const void *a, *b;\n"
      "    void *d, *side;  /* {} */\n"
      "    void* workspace;\n"
      "    long long workspace_bytes;  /* at least {}, for the problem that it was emitted for */\n",
      title_of(plan), what.task.columns_a ? "k, m" : "m, k", what.task.columns_b ? "k, n" : "n, k", name,
      v.store_place == Place::field ? "unused" : "outputs, as below", plan.workspace_bytes);
  if (plan.config.convolution) text += window_members;
  for (const codegen::Field& f : what.kernel.fields) text += member_of(f);
  if (what.kernel.fields.empty()) text += "    unsigned long long unused;\n";
  return text + fmt::format(
                    "}};\n\n"
                    "/* Enqueues the kernel on a cudaStream_t. 0, or what {0}_text() tells. */\n"
                    "int {0}_run(const void* arguments, void* stream);\n"
                    "const char* {0}_text(int status);\n"
                    "unsigned long long {0}_parameter_bytes(void); /* sizeof(struct {0}_arguments) */\n\n"
                    "#ifdef __cplusplus\n"
                    "}}\n"
                    "#endif\n",
                    name);
}

}  // namespace

Standalone standalone(const EvtPlan& plan, const Launched& what, std::string_view name) {
  const auto visitors = visitors_of(what.epilogue, {}, visitor_set(plan.config));
  if (!visitors) throw InternalError("files of an epilogue that is refused: " + visitors.refusal().text());
  std::string source =
      codegen::replaced(codegen::inlined(what.kernel.source), run, std::string(run) + std::string(device_check));
  source +=
      "\n#ifdef UNISONO_SELF_CHECK" + self_check(*visitors, plan.config, what.task, plan.workspace_bytes) + "#endif\n";
  source = codegen::replaced(codegen::replaced(std::move(source), "unisono_evt", name), "unisono::evt",
                             fmt::format("unisono::{}", name));
  std::string notes = fmt::format(
      "// Written by `unisono emit`. Compile with nvcc, for {0}:\n"
      "//   nvcc -std=c++17 -O2 -DNDEBUG --expt-relaxed-constexpr -gencode=arch=compute_{1},code={0} -I "
      "CUTLASS/include{2} "
      "-c FILE\n"
      "// Its kernels for this architecture: {3}.\n"
      "// With -DUNISONO_SELF_CHECK in place of -c it is a program that runs the kernel once and checks every "
      "element.\n",
      what.kernel.library->arch, what.kernel.library->arch.substr(what.kernel.library->arch.find('_') + 1),
      plan.config.convolution && !is_2x(plan.config.arch) ? " -I CUTLASS/tools/util/include" : "",
      tested(plan.config.arch));
  return {notes + source, header_text(plan, what, *visitors, name)};
}

}  // namespace unisono::families::cutlass_evt
