#include "families/cutlass_evt/kernel_text.hpp"

#include <fmt/format.h>

#include <string>

#include "families/cutlass_evt/sm90_tree.hpp"

namespace unisono::families::cutlass_evt {
namespace {

std::string_view schedule_name(Schedule s) { return s == Schedule::pingpong ? "Pingpong" : "Cooperative"; }

const char* raster_name(Raster r) {
  switch (r) {
    case Raster::rows: return "AlongM";
    case Raster::columns: return "AlongN";
    case Raster::heuristic: break;
  }
  return "Heuristic";
}

// Only what these kernels need: reading all of CUTLASS's builders takes as long as compiling the kernel
std::string includes(const Config& c) {
  return fmt::format(
      "#include <cute/tensor.hpp>\n"
      "#include <cutlass/cutlass.h>\n"
      "#include <cutlass/cluster_launch.hpp>\n"
      "#include <cutlass/device_kernel.h>\n"
      "#include <cutlass/epilogue/collective/collective_builder.hpp>\n"
      "#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>\n"
      "#include <cutlass/gemm/collective/collective_builder_decl.hpp>\n"
      "#include <cutlass/gemm/collective/collective_mma_decl.hpp>\n"
      "#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>\n"
      "#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>\n"
      "#include <cutlass/gemm/kernel/gemm_universal_decl.h>\n"
      "#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_{}.hpp>\n\n"
      "#include \"unisono/epilogue/math.cuh\"\n"
      "#include \"unisono/params/cutlass_evt_params.cuh\"\n\n",
      to_string(c.schedule));
}

std::string types(const Config& c, const Visitors& v, const Tree& tree) {
  const std::string subtile = c.subtile_m == 0 ? "cutlass::epilogue::collective::EpilogueTileAuto"
                                               : fmt::format("Shape<_{}, _{}>", c.subtile_m, c.subtile_n);
  const DType element_c = v.source_field ? v.element_c : v.element_d;
  std::string text = fmt::format(
      "using TileShape = Shape<_{}, _{}, _{}>;\n"
      "using ClusterShape = Shape<_{}, _{}, _1>;\n"
      "using ElementA = {};\n"
      "using ElementB = {};\n"
      "using ElementC = {};\n"
      "using ElementD = {};\n"
      "constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;\n\n",
      c.tile_m, c.tile_n, c.tile_k, c.cluster_m, c.cluster_n, factor_name(c.a), factor_name(c.b),
      element_name(element_c), element_name(v.element_d));
  text += functor_definitions(v);
  text += fmt::format("using Visitors = {};\n\n", tree_type(sm90_dialect(), v, tree, ""));
  text += fmt::format(
      "using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<\n"
      "    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,\n"
      "    {}, float, float,\n"
      "    {}, cutlass::layout::RowMajor, {}, ElementD, cutlass::layout::RowMajor, {},\n"
      "    cutlass::epilogue::TmaWarpSpecialized{}, Visitors>::CollectiveOp;\n",
      subtile, v.source_field ? "ElementC" : "void", alignment_of(element_c), alignment_of(v.element_d),
      c.schedule == Schedule::cooperative ? "Cooperative" : "");
  const std::string stages =
      c.stages == 0 ? "cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>"
                    : fmt::format("cutlass::gemm::collective::StageCount<{}>", c.stages);
  text += fmt::format(
      "using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<\n"
      "    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,\n"
      "    ElementA, cutlass::layout::{}, {}, ElementB, cutlass::layout::{}, {}, float, TileShape, ClusterShape,\n"
      "    {},\n"
      "    cutlass::gemm::KernelTmaWarpSpecialized{}>::CollectiveOp;\n"
      "using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, MainLoop, Epilogue>;\n\n",
      c.columns_a ? "ColumnMajor" : "RowMajor", alignment_of(c.a), c.columns_b ? "RowMajor" : "ColumnMajor",
      alignment_of(c.b), stages, schedule_name(c.schedule));
  return text;
}

std::string arguments(const Config& c, const Visitors& v, const Tree& tree) {
  const std::string d = result_address(v.store_place, "ElementD", v.store_field);
  const std::string source =
      v.source_field ? fmt::format("address<const ElementC>(p, {})", *v.source_field) : "nullptr";
  std::string text =
      "typename Kernel::Arguments arguments(const Parameter& p) {\n"
      "    const std::int64_t m = p.to.m, n = p.to.n;\n";
  text +=
      fmt::format("    typename Visitors::Arguments visitors{};\n", tree_arguments(sm90_dialect(), v, tree, "    "));
  text += fmt::format(
      "    typename Kernel::Arguments all{{\n"
      "        cutlass::gemm::GemmUniversalMode::kGemm,\n"
      "        {{int(m), int(n), int(p.to.k), int(p.to.batch)}},\n"
      "        {{static_cast<const ElementA*>(p.to.a), {{{}, p.to.step_a}},\n"
      "         static_cast<const ElementB*>(p.to.b), {{{}, p.to.step_b}}}},\n"
      "        {{visitors, {}, {{n, _1{{}}, m * n}}, {}, {}}}}};\n"
      "    all.hw_info.sm_count = int(p.to.sms);\n",
      c.columns_a ? "_1{}, p.to.pitch_a" : "p.to.pitch_a, _1{}",
      c.columns_b ? "_1{}, p.to.pitch_b" : "p.to.pitch_b, _1{}", source, d, result_stride(v.store_place));
  text += fmt::format(
      "    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;\n"
      "    all.scheduler.raster_order = Raster::{};\n"
      "    all.scheduler.max_swizzle_size = {};\n"
      "    return all;\n"
      "}}\n\n",
      raster_name(c.raster), c.swizzle);
  return text;
}

// 0, a cutlass::Status, or 1000 and a cudaError_t
constexpr const char* launch =
    R"~(int run(const Parameter& p, cudaStream_t stream) {
    const auto all = arguments(p);
    if (!Kernel::can_implement(all)) return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Kernel::get_workspace_size(all);
    if (bytes > std::size_t(p.to.workspace_bytes)) return int(cutlass::Status::kErrorWorkspaceNull);
    if (bytes > 0)
        if (const cudaError_t error = cudaMemsetAsync(p.to.workspace, 0, bytes, stream)) return 1000 + int(error);
    const cutlass::Status status = Kernel::initialize_workspace(all, p.to.workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    auto params = Kernel::to_underlying_arguments(all, p.to.workspace);
    constexpr int shared = Kernel::SharedStorageSize;
    const void* kernel = reinterpret_cast<const void*>(&cutlass::device_kernel<Kernel>);
    if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared))
        return 1000 + int(error);
    void* list[] = {&params};
    const dim3 cluster(size<0>(ClusterShape{}), size<1>(ClusterShape{}), 1);
    return int(cutlass::ClusterLauncher::launch(Kernel::get_grid_shape(params), cluster, Kernel::get_block_shape(),
                                                shared, stream, kernel, list));
}

)~";

}  // namespace

KernelText sm90_kernel(const Config& c, const Visitors& v, const Tree& tree) {
  return {.includes = includes(c), .types = types(c, v, tree), .host = arguments(c, v, tree) + launch};
}

}  // namespace unisono::families::cutlass_evt
