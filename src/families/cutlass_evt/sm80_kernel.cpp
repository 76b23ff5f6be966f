#include <fmt/format.h>

#include <string>

#include "families/cutlass_evt/kernel_text.hpp"
#include "families/cutlass_evt/sm80_tree.hpp"
#include "families/cutlass_evt/warps.hpp"

namespace unisono::families::cutlass_evt {
namespace {

std::string includes(const Config& c) {
  std::string text =
      "#include <cutlass/cutlass.h>\n"
      "#include <cutlass/device_kernel.h>\n";
  text += c.convolution     ? "#include <cutlass/conv/kernel/default_conv2d_fprop.h>\n"
                              "#include <cutlass/epilogue/threadblock/epilogue_with_visitor_callbacks.h>\n"
          : c.products == 2 ? "#include <cutlass/gemm/kernel/default_gemm_universal.h>\n"
                            : "#include <cutlass/gemm/kernel/default_gemm_universal_with_visitor.h>\n";
  text += "#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>\n\n";
  if (c.convolution) text += "#include \"unisono/cutlass/sm80_conv.cuh\"\n";
  if (c.products == 2) text += "#include \"unisono/cutlass/sm80_dual.cuh\"\n";
  return text +
         "#include \"unisono/cutlass/sm80_visitors.cuh\"\n"
         "#include \"unisono/epilogue/math.cuh\"\n"
         "#include \"unisono/params/cutlass_evt_params.cuh\"\n\n";
}

std::string gemm_shape(int m, int n, int k) { return fmt::format("cutlass::gemm::GemmShape<{}, {}, {}>", m, n, k); }

// D is one more AuxStore, which the tree stands in
Visitor store_of(const Visitors& v) {
  Visitor d{.kind = VisitorKind::aux_store, .name = "D", .element = v.element_d, .inputs = {}, .per_batch = true};
  d.field = v.store_field, d.place = v.store_place;
  return d;
}

std::string product(const Config& c) {
  return fmt::format(
      "using Kernel = typename cutlass::gemm::kernel::DefaultGemmWithVisitor<\n"
      "    ElementA, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementB, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementD, cutlass::layout::RowMajor, kAlignmentD, float, float,\n"
      "    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, TileShape, WarpShape, {},\n"
      "    Visitors, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<{}>, {},\n"
      "    cutlass::arch::OpMultiplyAdd, 1>::GemmKernel;\n\n",
      c.columns_a ? "ColumnMajor" : "RowMajor", alignment_of(c.a), c.columns_b ? "RowMajor" : "ColumnMajor",
      alignment_of(c.b), gemm_shape(16, 8, c.a == DType::tf32 ? 8 : 16), c.swizzle, c.stages);
}

std::string dual_product(const Config& c) {
  return fmt::format(
      "using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<{}>;\n"
      "using Default = typename cutlass::gemm::kernel::DefaultGemmUniversal<\n"
      "    ElementA, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementB, cutlass::layout::{}, cutlass::ComplexTransform::kNone, {},\n"
      "    ElementD, cutlass::layout::RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,\n"
      "    TileShape, WarpShape, {},\n"
      "    cutlass::epilogue::thread::LinearCombination<ElementD, kAlignmentD, float, float>, Swizzle, {},\n"
      "    cutlass::arch::OpMultiplyAdd>::GemmKernel;\n"
      "using Epilogue = EpilogueOfTwo<typename Default::Epilogue, Visitors>;\n"
      "using Kernel = DualWithVisitors<typename Default::Mma, Epilogue, Swizzle>;\n\n",
      c.swizzle, c.columns_a ? "ColumnMajor" : "RowMajor", alignment_of(c.a), c.columns_b ? "RowMajor" : "ColumnMajor",
      alignment_of(c.b), gemm_shape(16, 8, c.a == DType::tf32 ? 8 : 16), c.stages);
}

std::string convolution(const Config& c) {
  return fmt::format(
      "using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<{}>;\n"
      "using Default = typename cutlass::conv::kernel::DefaultConv2dFprop<\n"
      "    ElementA, cutlass::layout::TensorNHWC, ElementB, cutlass::layout::TensorNHWC,\n"
      "    ElementD, cutlass::layout::TensorNHWC, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,\n"
      "    TileShape, WarpShape, {},\n"
      "    cutlass::epilogue::thread::LinearCombination<ElementD, kAlignmentD, float, float>, Swizzle, {},\n"
      "    cutlass::arch::OpMultiplyAdd, cutlass::conv::IteratorAlgorithm::kOptimized,\n"
      "    cutlass::conv::StrideSupport::kStrided, {}, {}>::Kernel;\n"
      "using Epilogue = threadblock::EpilogueWithVisitorCallbacks<typename Default::Epilogue, Visitors, 1>;\n"
      "using Kernel = ConvWithVisitors<typename Default::Mma, Epilogue, Swizzle>;\n\n",
      c.swizzle, gemm_shape(16, 8, 16), c.stages, alignment_of(c.a), alignment_of(c.b));
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
  text +=
      fmt::format("using Visitors = threadblock::Sm80EVT<\n    {},\n    {}>;\n\n",
                  sm80_dialect(v.is_dual).type_of(store_of(v)), tree_type(sm80_dialect(v.is_dual), v, tree, "    "));
  return text + (c.convolution ? convolution(c) : c.products == 2 ? dual_product(c) : product(c));
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

std::string visitors_text(const Visitors& v, const Tree& tree) {
  const Dialect& dialect = sm80_dialect(v.is_dual);
  return fmt::format("    typename Visitors::Arguments visitors{{\n        {},\n        {},  // AuxStore D\n    }};\n",
                     tree_arguments(dialect, v, tree, "        "), dialect.initialisers(store_of(v)));
}

std::string run_product(const Visitors& v, const Tree& tree) {
  return "int run(const Parameter& p, cudaStream_t stream) {\n"
         "    const std::int64_t m = p.to.m, n = p.to.n;\n" +
         visitors_text(v, tree) +
         "    const typename Kernel::Arguments all(\n"
         "        cutlass::gemm::GemmUniversalMode::kBatched, {int(m), int(n), int(p.to.k)}, int(p.to.batch), "
         "visitors,\n"
         "        p.to.a, p.to.b, nullptr, nullptr, p.to.step_a, p.to.step_b, 0, 0, p.to.pitch_a, p.to.pitch_b, n, "
         "n);\n"
         "    const cutlass::Status status = Kernel::can_implement(all);\n"
         "    if (status != cutlass::Status::kSuccess) return int(status);\n" +
         alignment_checks(v) + beginnings(v) +
         "    const typename Kernel::Params params(all, int(p.to.sms), 1);\n"
         "    return launched<Kernel>(params, params.get_grid_dims(), stream);\n"
         "}\n\n";
}

std::string run_dual(const Visitors& v, const Tree& tree) {
  return "int run(const Parameter& p, cudaStream_t stream) {\n"
         "    const std::int64_t m = p.to.m, n = p.to.n;\n" +
         visitors_text(v, tree) +
         "    const typename Kernel::Operand left{p.to.a, p.to.pitch_a, p.to.step_a};\n"
         "    const typename Kernel::Operand right{p.to.b, p.to.pitch_b, p.to.step_b};\n"
         "    const cutlass::Status status = Kernel::can_implement(left, right, p.second.b);\n"
         "    if (status != cutlass::Status::kSuccess) return int(status);\n" +
         alignment_checks(v) + beginnings(v) +
         "    const typename Kernel::Params params({int(m), int(n), int(p.to.k)}, int(p.to.batch), left, right, "
         "p.second.b,\n"
         "                                         visitors);\n"
         "    return launched<Kernel>(params, params.grid(), stream);\n"
         "}\n\n";
}

std::string run_convolution(const Visitors& v, const Tree& tree) {
  return "int run(const Parameter& p, cudaStream_t stream) {\n"
         "    const CutlassEvtWindow& o = p.window;\n"
         "    const std::int64_t m = p.to.m, n = p.to.n;\n" +
         visitors_text(v, tree) +
         "    const cutlass::conv::Conv2dProblemSize problem(\n"
         "        o.images, o.h, o.w, int(p.to.k), int(n), o.r, o.s, o.p, o.q, o.pad_top, o.pad_left, o.stride_h,\n"
         "        o.stride_w, o.dilation_h, o.dilation_w, cutlass::conv::Mode::kCrossCorrelation);\n"
         "    const cutlass::Status status = Kernel::can_implement(problem, p.to.pitch_a);\n"
         "    if (status != cutlass::Status::kSuccess) return int(status);\n" +
         alignment_checks(v) + beginnings(v) +
         "    const typename Kernel::Params params(problem, p.to.a, p.to.pitch_a, p.to.b, visitors);\n"
         "    return launched<Kernel>(params, params.grid(), stream);\n"
         "}\n\n";
}

}  // namespace

KernelText sm80_kernel(const Config& c, const Visitors& v, const Tree& tree) {
  return {.includes = includes(c),
          .types = types(c, v, tree),
          .host = c.convolution     ? run_convolution(v, tree)
                  : c.products == 2 ? run_dual(v, tree)
                                    : run_product(v, tree)};
}

}  // namespace unisono::families::cutlass_evt
