// A matrix product and its epilogue by CUTLASS's visitors:
//   operand mask[m,n] : bool
//   operand gain[b,n] : bf16
//   h = cast(fma(acc, gain[b,n], shift[m]), bf16)
//   y = select(mask[m,n], mish(h), clamp(h, lower=-1)) * (beta[b] * alpha[])
//   average = mean(y, over=m, per=b)
//   peak = max(h, over=n)
//   store y : f16
//   store average : f32
//   store peak : f32
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

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
using ElementC = cutlass::half_t;
using ElementD = cutlass::half_t;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

template <class T>
struct Mish6 {};
template <int N>
struct Mish6<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = math::round_bf16(math::accurate::mish(x0[i]));
        return y;
    }
};

template <class T>
struct Clamp7 {};
template <int N>
struct Clamp7<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = math::round_bf16(math::max(x0[i], (-1.f)));
        return y;
    }
};

template <class T>
struct Select8 {};
template <int N>
struct Select8<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0, const cutlass::Array<float, N>& x1, const cutlass::Array<float, N>& x2) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = (x0[i] != 0.f) ? x1[i] : x2[i];
        return y;
    }
};

using Visitors = fusion::Sm90EVT<
    fusion::Sm90Compute<thread::Identity, ElementD, float, kRound>,
    fusion::Sm90TopologicalVisitor<
        float, cute::tuple<seq<>, seq<>, seq<0, 1>, seq<2>, seq<0>>,
        fusion::Sm90EVT<
            fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
            fusion::Sm90TopologicalVisitor<
                float, cute::tuple<seq<>, seq<>, seq<1>, seq<1>, seq<0, 2, 3>>,
                fusion::Sm90AuxLoad<0, void, std::uint8_t, Stride<std::int64_t, _1, std::int64_t>, void, void>,
                fusion::Sm90EVT<
                    fusion::Sm90ColReduction<cutlass::maximum_with_nan_propagation, cutlass::maximum_with_nan_propagation, cutlass::maximum_with_nan_propagation, 0, TileShape, float, float, kRound, Stride<_1, _0, std::int64_t>>,
                    fusion::Sm90EVT<
                        fusion::Sm90Compute<thread::Identity, cutlass::bfloat16_t, float, kRound>,
                        fusion::Sm90EVT<
                            fusion::Sm90Compute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                            fusion::Sm90AccFetch,
                            fusion::Sm90RowBroadcast<0, TileShape, cutlass::bfloat16_t, float, Stride<_0, _1, std::int64_t>>,
                            fusion::Sm90ColBroadcast<0, TileShape, float, float, Stride<_1, _0, std::int64_t>>>>>,
                fusion::Sm90Compute<Mish6, cutlass::bfloat16_t, float, kRound>,
                fusion::Sm90Compute<Clamp7, cutlass::bfloat16_t, float, kRound>,
                fusion::Sm90Compute<Select8, cutlass::bfloat16_t, float, kRound>>,
            fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>, 2, cutlass::multiplies>>,
        fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>>,
        fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
        fusion::Sm90RowReduction<cutlass::plus, cutlass::plus, cutlass::plus, 0, TileShape, float, float, kRound, Stride<_0, _1, std::int64_t>>,
        fusion::Sm90Compute<thread::Identity, float, float, kRound>>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm100, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    void, cutlass::layout::RowMajor, 8, ElementD, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::TmaWarpSpecialized1Sm, Visitors>::CollectiveOp;
using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm100, cutlass::arch::OpClassTensorOp,
    ElementA, cutlass::layout::RowMajor, 8, ElementB, cutlass::layout::RowMajor, 8, float, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecialized1SmSm100>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, MainLoop, Epilogue>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    unsigned long long fields[7];
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
        {
            {
                {
                    {address<const std::uint8_t>(p, 0), std::uint8_t(0), {n, _1{}, m * n}},  // AuxLoad mask
                    {
                        {
                            {
                                {},  // AccFetch
                                {address<const cutlass::bfloat16_t>(p, 1), cutlass::bfloat16_t(0), {_0{}, _1{}, n}},  // RowBroadcast gain
                                {address<const float>(p, 2), float(0), {_1{}, _0{}, m}},  // ColBroadcast shift
                                {},  // cutlass::homogeneous_multiply_add
                            },
                            {},  // thread::Identity = h
                        },
                        {address<float>(p, 6), -std::numeric_limits<float>::infinity(), {_1{}, _0{}, m}},  // ColReduction peak
                    },
                    {},  // Mish6
                    {},  // Clamp7
                    {},  // Select8
                },
                {{0.f, number(p, 4)}, {address<const float>(p, 3), nullptr}, {{_0{}, _0{}, std::int64_t(true)}, {_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast
                {},  // cutlass::multiplies = y
            },
            {{float(1.0 / double(m))}, {nullptr}, {{_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast 1 / count
            {},  // cutlass::multiplies = share
            {address<float>(p, 5), 0.f, {_0{}, _1{}, n}},  // RowReduction average
            {},  // thread::Identity = D
        },
        {},  // thread::Identity to ElementD
    };
    typename Kernel::Arguments all{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {int(m), int(n), int(p.to.k), int(p.to.batch)},
        {static_cast<const ElementA*>(p.to.a), {p.to.pitch_a, _1{}, p.to.step_a},
         static_cast<const ElementB*>(p.to.b), {_1{}, p.to.pitch_b, p.to.step_b}},
        {visitors, nullptr, {n, _1{}, m * n}, static_cast<ElementD*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}}};
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
