#include <fmt/format.h>

#include <string>

#include "families/cutlass_evt/kernel_text.hpp"
#include "families/cutlass_evt/sm80_tree.hpp"
#include "families/cutlass_evt/warps.hpp"

namespace unisono::families::cutlass_evt {
namespace {

constexpr const char* includes =
    "#include <cutlass/cutlass.h>\n"
    "#include <cutlass/device_kernel.h>\n"
    "#include <cutlass/gemm/kernel/default_gemm_universal_with_visitor.h>\n"
    "#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>\n\n"
    "#include \"unisono/cutlass/sm80_visitors.cuh\"\n"
    "#include \"unisono/epilogue/math.cuh\"\n"
    "#include \"unisono/params/cutlass_evt_params.cuh\"\n\n";

std::string gemm_shape(int m, int n, int k) { return fmt::format("cutlass::gemm::GemmShape<{}, {}, {}>", m, n, k); }

// D is one more AuxStore, which the tree stands in
Visitor store_of(const Visitors& v) {
  Visitor d{.kind = VisitorKind::aux_store, .name = "D", .element = v.element_d, .inputs = {}, .per_batch = true};
  d.field = v.store_field, d.place = v.store_place;
  return d;
}

std::string types(const Config& c, const Visitors& v, const Tree& tree) {
  const Warps w = warps_of(c);
  std::string text = fmt::format(
      "namespace threadblock = cutlass::epilogue::threadblock;\n"
      "using TileShape = {};\n"
      "using WarpShape = {};\n"
      "using ElementA = {};\n"
      "using ElementB = {};\n"
      "using ElementD = {};\n"
      "constexpr int kAlignmentD = {};\n"
      "constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;\n"
      "using ThreadMap = threadblock::OutputTileThreadLayout<TileShape, WarpShape, ElementD, kAlignmentD, 1>;\n\n",
      gemm_shape(c.tile_m, c.tile_n, c.tile_k), gemm_shape(c.tile_m / w.down, c.tile_n / w.across, c.tile_k),
      factor_name(c.a), factor_name(c.b), element_name(v.element_d), alignment_of(v.element_d));
  text += functor_definitions(v);
  text += fmt::format("using Visitors = threadblock::Sm80EVT<\n    {},\n    {}>;\n\n",
                      sm80_dialect().type_of(store_of(v)), tree_type(sm80_dialect(), v, tree, "    "));
  text += fmt::format(
      "using Kernel = typename cutlass::gemm::kernel::DefaultGemmWithVisitor<\n"
      "    ElementA, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementB, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementD, cutlass::layout::RowMajor, kAlignmentD, float, float,\n"
      "    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, TileShape, WarpShape, {},\n"
      "    Visitors, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<{}>, {},\n"
      "    cutlass::arch::OpMultiplyAdd, 1>::GemmKernel;\n\n",
      c.columns_a ? "ColumnMajor" : "RowMajor", alignment_of(c.a), c.columns_b ? "RowMajor" : "ColumnMajor",
      alignment_of(c.b), gemm_shape(16, 8, c.a == DType::tf32 ? 8 : 16), c.swizzle, c.stages);
  return text;
}

// Elements of a reduction's result
std::string count_of(const Visitor& v) {
  const bool row = v.kind == VisitorKind::row_reduction, column = v.kind == VisitorKind::column_reduction;
  const std::string of_one = row ? "n" : column ? "m" : "1";
  return v.per_batch ? fmt::format("{} * p.to.batch", of_one) : of_one;
}

// Atomic operations add to what is there
std::string beginnings(const Visitors& v) {
  std::string text;
  for (const Visitor& each : v.list)
    if (each.kind >= VisitorKind::scalar_reduction)
      text += fmt::format(
          "    if (const cudaError_t error = begin_with({}, address<float>(p, {}), {}, stream)) return 1000 + "
          "int(error);\n",
          identity_of(each.reduction), each.field, count_of(each));
  return text;
}

// Vectors along columns are read 16 bytes at a time
std::string alignment_checks(const Visitors& v) {
  std::string text;
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::row)
      text +=
          fmt::format("    if (p.fields[{}] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // {}\n",
                      each.field, each.name);
  return text;
}

std::string host(const Visitors& v, const Tree& tree) {
  std::string text =
      "typename Kernel::Arguments arguments(const Parameter& p) {\n"
      "    const std::int64_t m = p.to.m, n = p.to.n;\n";
  text += fmt::format("    typename Visitors::Arguments visitors{{\n        {},\n        {},  // AuxStore D\n    }};\n",
                      tree_arguments(sm80_dialect(), v, tree, "        "), sm80_dialect().initialisers(store_of(v)));
  text +=
      "    return typename Kernel::Arguments(\n"
      "        cutlass::gemm::GemmUniversalMode::kBatched, {int(m), int(n), int(p.to.k)}, int(p.to.batch), visitors,\n"
      "        p.to.a, p.to.b, nullptr, nullptr, p.to.step_a, p.to.step_b, 0, 0, p.to.pitch_a, p.to.pitch_b, n, n);\n"
      "}\n\n"
      "int run(const Parameter& p, cudaStream_t stream) {\n"
      "    const auto all = arguments(p);\n"
      "    const cutlass::Status status = Kernel::can_implement(all);\n"
      "    if (status != cutlass::Status::kSuccess) return int(status);\n";
  text += alignment_checks(v);
  if (v.is_atomic) text += "    const std::int64_t m = p.to.m, n = p.to.n;\n" + beginnings(v);
  return text +
         "    const typename Kernel::Params params(all, int(p.to.sms), 1);\n"
         "    return launched<Kernel>(params, params.get_grid_dims(), stream);\n"
         "}\n\n";
}

}  // namespace

KernelText sm80_kernel(const Config& c, const Visitors& v, const Tree& tree) {
  return {.includes = includes, .types = types(c, v, tree), .host = host(v, tree)};
}

}  // namespace unisono::families::cutlass_evt
