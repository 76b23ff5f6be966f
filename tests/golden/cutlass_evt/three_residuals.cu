// A matrix product and its epilogue by CUTLASS's visitors:
//   operand r3[m,n] : bf16
//   operand r2[m,n] : bf16
//   operand r1[m,n] : bf16
//   y = r3[m,n] + (r2[m,n] + (r1[m,n] + acc))
//   store y : bf16
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder_decl.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>
#include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp>

#include "unisono/epilogue/math.cuh"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::evt {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace thread = cutlass::epilogue::thread;

using TileShape = Shape<_128, _128, _64>;
using ClusterShape = Shape<_1, _1, _1>;
using ElementA = cutlass::bfloat16_t;
using ElementB = cutlass::bfloat16_t;
using ElementC = cutlass::bfloat16_t;
using ElementD = cutlass::bfloat16_t;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

using Visitors = fusion::Sm90EVT<
    fusion::Sm90Compute<cutlass::plus, float, float, kRound>,
    fusion::Sm90SrcFetch<ElementC>,
    fusion::Sm90EVT<
        fusion::Sm90Compute<cutlass::plus, float, float, kRound>,
        fusion::Sm90AuxLoad<0, void, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>, void, void>,
        fusion::Sm90EVT<
            fusion::Sm90Compute<cutlass::plus, float, float, kRound>,
            fusion::Sm90AuxLoad<0, void, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>, void, void>,
            fusion::Sm90AccFetch>>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    ElementC, cutlass::layout::RowMajor, 8, ElementD, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::TmaWarpSpecializedCooperative, Visitors>::CollectiveOp;
using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    ElementA, cutlass::layout::RowMajor, 8, ElementB, cutlass::layout::RowMajor, 8, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, MainLoop, Epilogue>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    unsigned long long fields[3];
};
template <class T>
CUTLASS_HOST_DEVICE T* address(const Parameter& p, int field) {
    return reinterpret_cast<T*>(p.fields[field]);
}
CUTLASS_HOST_DEVICE float number(const Parameter& p, int field) {
    float value;
    std::memcpy(&value, &p.fields[field], sizeof value);
    return value;
}

typename Kernel::Arguments arguments(const Parameter& p) {
    const std::int64_t m = p.to.m, n = p.to.n;
    typename Visitors::Arguments visitors{
        {},  // SrcFetch r3
        {
            {address<const cutlass::bfloat16_t>(p, 1), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r2
            {
                {address<const cutlass::bfloat16_t>(p, 2), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r1
                {},  // AccFetch
                {},  // cutlass::plus
            },
            {},  // cutlass::plus
        },
        {},  // cutlass::plus
    };
    typename Kernel::Arguments all{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {int(m), int(n), int(p.to.k), int(p.to.batch)},
        {static_cast<const ElementA*>(p.to.a), {p.to.pitch_a, _1{}, p.to.step_a},
         static_cast<const ElementB*>(p.to.b), {_1{}, p.to.pitch_b, p.to.step_b}},
        {visitors, address<const ElementC>(p, 0), {n, _1{}, m * n}, static_cast<ElementD*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}}};
    all.hw_info.sm_count = int(p.to.sms);
    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;
    all.scheduler.raster_order = Raster::Heuristic;
    all.scheduler.max_swizzle_size = 1;
    return all;
}

int run(const Parameter& p, cudaStream_t stream) {
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

}  // namespace unisono::evt

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
