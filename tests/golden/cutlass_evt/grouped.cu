// A grouped matrix product and its epilogue by CUTLASS's visitors:
//   operand r[m,n] : bf16
//   y = fma(silu((acc + bias[n]) * weight[m]), scale[], r[m,n])
//   store y : bf16
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder_decl.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_array_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>
#include <cutlass/gemm/kernel/sm90_gemm_array_tma_warpspecialized_cooperative.hpp>

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
    fusion::Sm90Compute<cutlass::homogeneous_multiply_add, float, float, kRound>,
    fusion::Sm90EVT<
        fusion::Sm90Compute<thread::SiLu, float, float, kRound>,
        fusion::Sm90EVT<
            fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
            fusion::Sm90EVT<
                fusion::Sm90Compute<cutlass::plus, float, float, kRound>,
                fusion::Sm90AccFetch,
                fusion::Sm90RowBroadcast<0, TileShape, float, float, Stride<_0, _1, std::int64_t>>>,
            fusion::Sm90ColBroadcast<0, TileShape, float*, float, Stride<_1, _0, _0>>>>,
    fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>>,
    fusion::Sm90SrcFetch<ElementC>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    ElementC, cutlass::layout::RowMajor*, 8, ElementD, cutlass::layout::RowMajor*, 8,
    cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative, Visitors>::CollectiveOp;
using Groups = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;
using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    ElementA, cutlass::layout::RowMajor*, 8, ElementB, cutlass::layout::ColumnMajor*, 8, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Groups, MainLoop, Epilogue>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    CutlassEvtGroups groups;
    unsigned long long fields[4];
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

// What the kernel reads of each group lies in tables at the beginning of the workspace
template <class T>
CUTLASS_HOST_DEVICE T* table(const Parameter& p, int number) {
    return reinterpret_cast<T*>(static_cast<char*>(p.to.workspace) + number * kGroupTableBytes);
}
using GroupShape = typename Groups::UnderlyingProblemShape;
using StrideA = typename Kernel::InternalStrideA;
using StrideB = typename Kernel::InternalStrideB;
using StrideC = typename Kernel::InternalStrideC;
using StrideD = typename Kernel::InternalStrideD;
static_assert(sizeof(GroupShape) <= 16 && sizeof(StrideA) <= 16 && sizeof(StrideD) <= 16, "an entry of a table");

__global__ void write_tables(const Parameter p) {
    const int group = int(threadIdx.x);
    if (group >= p.groups.count) return;
    std::int64_t first = 0;
    for (int i = 0; i < group; ++i) first += p.groups.rows[i];
    const int n = int(p.to.n), k = int(p.to.k);
    table<GroupShape>(p, 0)[group] = GroupShape{p.groups.rows[group], n, k};
    table<const ElementA*>(p, 1)[group] = static_cast<const ElementA*>(p.to.a) + first * p.to.pitch_a;
    table<StrideA>(p, 2)[group] = make_stride(std::int64_t(p.to.pitch_a), _1{}, _0{});
    table<const ElementB*>(p, 3)[group] = static_cast<const ElementB*>(p.to.b) + group * p.to.step_b;
    table<StrideB>(p, 4)[group] = make_stride(std::int64_t(p.to.pitch_b), _1{}, _0{});
    table<const ElementC*>(p, 5)[group] = address<const ElementC>(p, 3) + first * n;
    table<StrideC>(p, 6)[group] = make_stride(std::int64_t(n), _1{}, _0{});
    table<ElementD*>(p, 7)[group] = static_cast<ElementD*>(p.to.d) + first * p.to.pitch_d;
    table<StrideD>(p, 8)[group] = make_stride(std::int64_t(p.to.pitch_d), _1{}, _0{});
    table<const float*>(p, 10)[group] = address<const float>(p, 1) + first;  // weight
}

int run(const Parameter& p, cudaStream_t stream) {
    const std::int64_t m = p.to.m, n = p.to.n;
    (void)m, (void)n;
    constexpr int kTables = 13;
    typename Visitors::Arguments visitors{
        {
            {
                {
                    {},  // AccFetch
                    {address<const float>(p, 0), float(0), {_0{}, _1{}, std::int64_t(0)}},  // RowBroadcast bias
                    {},  // cutlass::plus
                },
                {table<const float*>(p, 10), float(0), {}},  // ColBroadcast weight
                {},  // cutlass::multiplies
            },
            {},  // thread::SiLu
        },
        {{number(p, 2)}, {nullptr}, {{_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast scale
        {},  // SrcFetch r
        {},  // cutlass::homogeneous_multiply_add
    };
    typename Kernel::Arguments all{
        cutlass::gemm::GemmUniversalMode::kGrouped,
        {p.groups.count, table<GroupShape>(p, 0), nullptr},
        {table<const ElementA*>(p, 1), table<StrideA>(p, 2), table<const ElementB*>(p, 3), table<StrideB>(p, 4)},
        {visitors, table<const ElementC*>(p, 5), table<StrideC>(p, 6), table<ElementD*>(p, 7), table<StrideD>(p, 8)}};
    all.hw_info.sm_count = int(p.to.sms);
    using Raster = cutlass::gemm::kernel::detail::RasterOrderOptions;
    all.scheduler.raster_order = Raster::AlongM;
    all.scheduler.max_swizzle_size = 1;
    if (!Kernel::can_implement(all)) return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Kernel::get_workspace_size(all);
    if (kTables * kGroupTableBytes + bytes > std::size_t(p.to.workspace_bytes))
        return int(cutlass::Status::kErrorWorkspaceNull);
    write_tables<<<1, kMostGroups, 0, stream>>>(p);
    if (const cudaError_t error = cudaGetLastError()) return 1000 + int(error);
    void* const workspace = table<void>(p, kTables);
    const cutlass::Status status = Kernel::initialize_workspace(all, workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    auto params = Kernel::to_underlying_arguments(all, workspace);
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
