#include "families/cutlass_evt/standalone.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "codegen/file_local.hpp"
#include "codegen/frame.hpp"
#include "codegen/inlined.hpp"
#include "codegen/member_names.hpp"
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

// An operand may have an output's name, that of a member which every such struct has, and a word of C++
class Members {
 public:
  std::string of(const codegen::Field& f) {
    const std::string axes = to_string(f.axes);
    switch (f.kind) {
      case codegen::Field::Kind::operand_value: {
        const std::string member = names_.add(f.name, "_operand");
        return fmt::format("    float {};  /* operand {} */\n    float {};\n", member, f.name,
                           names_.add("unused_" + member, ""));
      }
      case codegen::Field::Kind::operand_pointer:
        return fmt::format("    const void* {};  /* operand {}{}, {}, dense */\n", names_.add(f.name, "_operand"),
                           f.name, axes, to_string(f.dtype));
      default:
        return fmt::format("    void* {};  /* output {}{}, {}, dense */\n", names_.add(f.name, "_output"), f.name, axes,
                           to_string(f.dtype));
    }
  }

 private:
  codegen::MemberNames names_{{"m",          "n",
                               "k",          "batch",
                               "pitch_a",    "pitch_b",
                               "pitch_d",    "step_a",
                               "step_b",     "sms",
                               "a",          "b",
                               "d",          "side",
                               "workspace",  "workspace_bytes",
                               "b1",         "images",
                               "h",          "w",
                               "p",          "q",
                               "r",          "s",
                               "stride_h",   "stride_w",
                               "pad_top",    "pad_left",
                               "pad_bottom", "pad_right",
                               "dilation_h", "dilation_w",
                               "unused",     "unused_window",
                               "groups",     "unused_groups",
                               "group_rows"}};
};

// Which output a place is that is no field's
std::string output_at(Place place, const Visitors& v, const Graph& graph) {
  std::string name, type;
  if (v.store_place == place) name = graph.stores[v.store].name, type = to_string(v.element_d);
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::aux_store && each.place == place) name = each.name, type = to_string(each.element);
  return name.empty() ? "unused" : fmt::format("output {}[m,n], {}", name, type);
}

constexpr const char* group_members =
    "    /* A grouped product: B is one for each group of rows; m is the sum of these */\n"
    "    int groups, unused_groups;\n"
    "    int group_rows[256];\n";

constexpr const char* gradient_members =
    "    /* A gradient of filters: m filters, n = r * s * k; A is dY (images, p, q, m), B the image (images, h, w, k), "
    "D "
    "(m, r, s, k), all dense */\n"
    "    int images, h, w, p, q, r, s;\n"
    "    int stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w;\n"
    "    int unused_window;\n";

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
      "    void* d;     /* {} */\n"
      "    void* side;  /* {} */\n"
      "    void* workspace;\n"
      "    long long workspace_bytes;  /* at least {}, for the problem that it was emitted for */\n",
      title_of(plan), what.task.columns_a ? "k, m" : "m, k", what.task.columns_b ? "k, n" : "n, k", name,
      output_at(Place::main, v, what.epilogue.graph), output_at(Place::side, v, what.epilogue.graph),
      plan.workspace_bytes);
  if (plan.config.convolution) text += plan.config.gradient ? gradient_members : window_members;
  if (plan.config.grouped) text += group_members;
  if (plan.config.products == 2) text += "    const void* b1;  /* the second B, which lies as b does */\n";
  Members members;
  for (const codegen::Field& f : what.kernel.fields) text += members.of(f);
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
  std::string source = codegen::with_own_functions(what.kernel.source, codegen::functions_text(what.epilogue), name);
  source = codegen::replaced(codegen::inlined(source), run, std::string(run) + std::string(device_check));
  source +=
      "\n#ifdef UNISONO_SELF_CHECK" + self_check(*visitors, plan.config, what.task, plan.workspace_bytes) + "#endif\n";
  source = codegen::replaced(std::move(source), "unisono_evt_", fmt::format("{}_", name));
  // Kernels of several files meet in one program
  source = codegen::renamed(source, "unisono::", fmt::format("unisono_{}::", name));
  source = codegen::renamed(source, "namespace unisono", fmt::format("namespace unisono_{}", name));
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
  notes +=
      "#pragma nv_diagnostic push\n"
      "#pragma nv_diag_suppress 177  // never referenced: what our headers have for other kernels\n\n";
  return {notes + source + "#pragma nv_diagnostic pop\n", header_text(plan, what, *visitors, name)};
}

}  // namespace unisono::families::cutlass_evt
