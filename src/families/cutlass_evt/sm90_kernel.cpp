#include "families/cutlass_evt/kernel_text.hpp"

#include <fmt/format.h>

#include <string>

#include "families/cutlass_evt/sm90_parts.hpp"
#include "families/cutlass_evt/tree_text.hpp"

namespace unisono::families::cutlass_evt {
namespace {

// A main loop's
std::string schedule_of(const Config& c) {
  if (c.convolution)
    return fmt::format("cutlass::conv::KernelImplicitTmaWarpSpecialized{}", is_sm100(c) ? "1SmSm100" : "Sm90");
  return fmt::format("cutlass::gemm::Kernel{}TmaWarpSpecialized{}", c.grouped ? "PtrArray" : "",
                     is_sm100(c) ? "1SmSm100" : schedule_name(c));
}

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
  std::string text =
      "#include <cute/tensor.hpp>\n"
      "#include <cutlass/cutlass.h>\n"
      "#include <cutlass/cluster_launch.hpp>\n"
      "#include <cutlass/device_kernel.h>\n";
  if (c.convolution)
    text +=
        "#include <cutlass/kernel_hardware_info.h>\n"
        "#include <cutlass/conv/collective/collective_builder.hpp>\n"
        "#include <cutlass/conv/convolution.h>\n"
        "#include <cutlass/conv/kernel/conv_universal.hpp>\n";
  text +=
      "#include <cutlass/epilogue/collective/collective_builder.hpp>\n"
      "#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>\n";
  if (!c.convolution && is_sm100(c))
    text +=
        "#include <cutlass/gemm/collective/collective_builder.hpp>\n"
        "#include <cutlass/gemm/kernel/gemm_universal.hpp>\n";
  else if (!c.convolution)
    text += fmt::format(
        "#include <cutlass/gemm/collective/collective_builder_decl.hpp>\n"
        "#include <cutlass/gemm/collective/collective_mma_decl.hpp>\n"
        "#include <cutlass/gemm/collective/sm90_mma_{1}tma_gmma_ss_warpspecialized.hpp>\n"
        "#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>\n"
        "{2}"
        "#include <cutlass/gemm/kernel/gemm_universal_decl.h>\n"
        "#include <cutlass/gemm/kernel/sm90_gemm_{1}tma_warpspecialized_{0}.hpp>\n",
        to_string(c.schedule), c.grouped ? "array_" : "",
        c.grouped ? "#include <cutlass/gemm/group_array_problem_shape.hpp>\n" : "");
  return text + (c.gradient ? "\n#include \"unisono/cutlass/sm90_wgrad.cuh\"\n" : "\n") +
         "#include \"unisono/epilogue/math.cuh\"\n"
         "#include \"unisono/params/cutlass_evt_params.cuh\"\n\n";
}

std::string main_loop(const Config& c) {
  const char* space = c.convolution ? "conv" : "gemm";
  const std::string stages =
      c.stages == 0
          ? fmt::format(
                "cutlass::{}::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>", space)
          : fmt::format("cutlass::{}::collective::StageCount<{}>", space, c.stages);
  if (c.convolution)
    return fmt::format(
        "using Problem = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::{1}, 2>;\n"
        "using MainLoop = typename cutlass::conv::collective::CollectiveBuilder<\n"
        "    cutlass::arch::{0}, cutlass::arch::OpClassTensorOp, cutlass::conv::Operator::{1},\n"
        "    ElementA, cutlass::layout::TensorNHWC, {2}, ElementB, cutlass::layout::TensorNHWC, {3}, float, "
        "{6},\n"
        "    ClusterShape, {4},\n"
        "    {5}>::CollectiveOp;\n"
        "using Kernel = cutlass::conv::kernel::ConvUniversal<Problem, MainLoop, {7}>;\n\n",
        tag_of(c),
        c.transposed ? "kDgrad"
        : c.gradient ? "kWgrad"
                     : "kFprop",
        alignment_of(c.a), alignment_of(c.b), stages, schedule_of(c), c.gradient ? "WindowShape" : "TileShape",
        c.gradient ? "OneExtentOfColumns<Epilogue>" : "Epilogue");
  return fmt::format(
      "{8}"
      "using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<\n"
      "    cutlass::arch::{0}, cutlass::arch::OpClassTensorOp,\n"
      "    ElementA, cutlass::layout::{1}{7}, {2}, ElementB, cutlass::layout::{3}{7}, {4}, float, TileShape, "
      "ClusterShape,\n"
      "    {5},\n"
      "    {6}>::CollectiveOp;\n"
      "using Kernel = cutlass::gemm::kernel::GemmUniversal<{9}, MainLoop, Epilogue>;\n\n",
      tag_of(c), c.columns_a ? "ColumnMajor" : "RowMajor", alignment_of(c.a), c.columns_b ? "RowMajor" : "ColumnMajor",
      alignment_of(c.b), stages, schedule_of(c), c.grouped ? "*" : "",
      c.grouped ? "using Groups = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;\n" : "",
      c.grouped ? "Groups" : "Shape<int, int, int, int>");
}

std::string arguments(const Config& c, const Visitors& v, const Tree& tree) {
  const std::string d = result_address(v.store_place, "ElementD", v.store_field);
  std::string text =
      "typename Kernel::Arguments arguments(const Parameter& p) {\n"
      "    const std::int64_t m = p.to.m, n = p.to.n;\n";
  text += fmt::format("    typename Visitors::Arguments visitors{};\n", visitors_arguments(c, v, tree));
  text += fmt::format(
      "    typename Kernel::Arguments all{{\n"
      "        cutlass::gemm::GemmUniversalMode::kGemm,\n"
      "        {{int(m), int(n), int(p.to.k), int(p.to.batch)}},\n"
      "        {{static_cast<const ElementA*>(p.to.a), {{{}, p.to.step_a}},\n"
      "         static_cast<const ElementB*>(p.to.b), {{{}, p.to.step_b}}}},\n"
      "        {{visitors, {}, {{n, _1{{}}, m * n}}, {}, {}}}}};\n"
      "    all.hw_info.sm_count = int(p.to.sms);\n",
      c.columns_a ? "_1{}, p.to.pitch_a" : "p.to.pitch_a, _1{}",
      c.columns_b ? "_1{}, p.to.pitch_b" : "p.to.pitch_b, _1{}", source_of(v), d, result_stride(v.store_place));
  text += fmt::format(
      "    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;\n"
      "    all.scheduler.raster_order = Raster::{};\n"
      "    all.scheduler.max_swizzle_size = {};\n"
      "    return all;\n"
      "}}\n\n",
      raster_name(c.raster), c.swizzle);
  return text;
}

constexpr const char* run = R"~(int run(const Parameter& p, cudaStream_t stream) {
    const auto all = arguments(p);
    if (!Kernel::can_implement(all)) return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Kernel::get_workspace_size(all);
    if (bytes > std::size_t(p.to.workspace_bytes)) return int(cutlass::Status::kErrorWorkspaceNull);
    if (bytes > 0)
        if (const cudaError_t error = cudaMemsetAsync(p.to.workspace, 0, bytes, stream)) return 1000 + int(error);
    const cutlass::Status status = Kernel::initialize_workspace(all, p.to.workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    auto params = Kernel::to_underlying_arguments(all, p.to.workspace);
)~";

// The images, the filter, the borders, and how the filter moves
constexpr const char* problem_of_fprop =
    "    const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {o.images, o.h, o.w, int(c)},\n"
    "                      {pixel * o.w * o.h, pixel * o.w, pixel, 1}, {int(n), o.r, o.s, int(c)},\n"
    "                      {c * o.s * o.r, c * o.s, c, 1}, {o.pad_top, o.pad_left}, {o.pad_bottom, o.pad_right},\n"
    "                      {o.stride_h, o.stride_w}, {o.dilation_h, o.dilation_w}, 1);\n";
// The same of the convolution whose gradient it is: its images are our results
constexpr const char* problem_of_dgrad =
    "    const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {o.images, o.p, o.q, int(n)},\n"
    "                      {n * o.q * o.p, n * o.q, n, 1}, {int(c), o.r, o.s, int(n)},\n"
    "                      {n * o.s * o.r, n * o.s, n, 1}, {pixel * o.w * o.h, pixel * o.w, pixel, 1},\n"
    "                      {o.pad_top, o.pad_left}, {o.pad_bottom, o.pad_right}, {1, 1},\n"
    "                      {o.dilation_h, o.dilation_w}, 1);\n";

// The same of the convolution whose filter's gradient our result is
constexpr const char* problem_of_wgrad =
    "    const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {o.images, o.h, o.w, int(c)},\n"
    "                      {c * o.w * o.h, c * o.w, c, 1}, {int(m), o.r, o.s, int(c)},\n"
    "                      {c * o.s * o.r, c * o.s, c, 1}, {o.pad_top, o.pad_left}, {o.pad_bottom, o.pad_right},\n"
    "                      {o.stride_h, o.stride_w}, {o.dilation_h, o.dilation_w}, 1);\n";

// The beginning of run(), up to the shapes that the main loop and the epilogue are given
std::string shapes_of_convolution(const Config& c) {
  return fmt::format(
      "int run(const Parameter& p, cudaStream_t stream) {{\n"
      "    const CutlassEvtWindow& o = p.window;\n"
      "    const std::int64_t m = p.to.m, n = p.to.n, c = p.to.k{};\n"
      "{}"
      "    const auto tiled = MainLoop::get_problem_shape_MNKL(problem);\n"
      "    const auto shape = make_shape(get<0>(tiled), {}, get<2>(tiled), 1);  // one matrix\n",
      c.gradient ? "" : ", pixel = p.to.pitch_a",
      c.gradient     ? problem_of_wgrad
      : c.transposed ? problem_of_dgrad
                     : problem_of_fprop,
      c.gradient ? "int(n)" : "get<1>(tiled)");
}

// A convolution's kernel leaves the visitors' workspace to its caller, and is given the images' rows as those of one
// matrix, which is how it counts them itself
std::string run_convolution(const Config& c, const Visitors& v, const Tree& tree) {
  std::string text = shapes_of_convolution(c);
  text += fmt::format("    typename Visitors::Arguments visitors{};\n", visitors_arguments(c, v, tree));
  text += fmt::format(
      "    const typename MainLoop::Arguments operands{{static_cast<const ElementA*>(p.to.a),\n"
      "                                               static_cast<const ElementB*>(p.to.b)}};\n"
      "    const typename Epilogue::Arguments results{{visitors, {}, {{n, _1{{}}, m * n}}, {}, {}}};\n",
      source_of(v), result_address(v.store_place, "ElementD", v.store_field), result_stride(v.store_place));
  text += R"~(    if (!MainLoop::can_implement(problem, operands) || !Epilogue::can_implement(shape, results))
        return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Epilogue::get_workspace_size(shape, results);
    if (bytes > std::size_t(p.to.workspace_bytes)) return int(cutlass::Status::kErrorWorkspaceNull);
    if (bytes > 0)
        if (const cudaError_t error = cudaMemsetAsync(p.to.workspace, 0, bytes, stream)) return 1000 + int(error);
    const cutlass::Status status = Epilogue::initialize_workspace(shape, results, p.to.workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    const auto after = Epilogue::to_underlying_arguments(shape, results, p.to.workspace);
)~";
  if (!is_sm100(c))
    return text +
           "    typename Kernel::Params params{tiled, MainLoop::to_underlying_arguments(problem, operands, nullptr), "
           "after};\n";
  return text + R"~(    cutlass::KernelHardwareInfo hardware;
    hardware.sm_count = int(p.to.sms);
    const typename Kernel::TileSchedulerArguments scheduler{};
    typename Kernel::Params params{
        tiled, MainLoop::to_underlying_arguments(problem, operands, nullptr, hardware), after,
        Kernel::TileScheduler::to_underlying_arguments(problem, TileShape{}, typename Kernel::AtomThrShapeMNK{},
                                                       ClusterShape{}, hardware, scheduler, nullptr),
        hardware};
)~";
}

constexpr const char* launch = R"~(    constexpr int shared = Kernel::SharedStorageSize;
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
  return {.includes = includes(c),
          .types = epilogue_types(c, v, tree) + main_loop(c),
          .host = (c.convolution ? run_convolution(c, v, tree)
                   : c.grouped   ? grouped_host(c, v, tree)
                                 : arguments(c, v, tree) + run) +
                  launch};
}

}  // namespace unisono::families::cutlass_evt
