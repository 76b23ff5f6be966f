// A convolution and its epilogue by CUTLASS's visitors:
//   operand r[m,n] : bf16
//   h = fma(acc, scale[n], shift[m])
//   y = cast(fma(mish(h), alpha[], r[m,n]), f16)
//   s = sum(y, over=m)
//   store y : bf16
//   store h : f32
//   store s : f32
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/device_kernel.h>
#include <cutlass/kernel_hardware_info.h>
#include <cutlass/conv/collective/collective_builder.hpp>
#include <cutlass/conv/convolution.h>
#include <cutlass/conv/kernel/conv_universal.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>

#include "unisono/epilogue/math.cuh"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::evt {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace thread = cutlass::epilogue::thread;

using TileShape = Shape<_128, _128, Shape<_64>>;
using ClusterShape = Shape<_1, _1, _1>;
using ElementA = cutlass::bfloat16_t;
using ElementB = cutlass::bfloat16_t;
using ElementC = cutlass::bfloat16_t;
using ElementD = cutlass::bfloat16_t;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

template <class T>
struct Mish4 {};
template <int N>
struct Mish4<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = math::accurate::mish(x0[i]);
        return y;
    }
};

using Visitors = fusion::Sm90EVT<
    fusion::Sm90Compute<thread::Identity, ElementD, float, kRound>,
    fusion::Sm90EVT<
        fusion::Sm90RowReduction<cutlass::plus, cutlass::plus, cutlass::plus, 0, TileShape, float, float, kRound, Stride<_0, _1, std::int64_t>>,
        fusion::Sm90EVT<
            fusion::Sm90Compute<thread::Identity, cutlass::half_t, float, kRound>,
            fusion::Sm90EVT<
                fusion::Sm90Compute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                fusion::Sm90EVT<
                    fusion::Sm90Compute<Mish4, float, float, kRound>,
                    fusion::Sm90EVT<
                        fusion::Sm90AuxStore<0, void, float, kRound, Stride<std::int64_t, _1, std::int64_t>, void, void>,
                        fusion::Sm90EVT<
                            fusion::Sm90Compute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                            fusion::Sm90AccFetch,
                            fusion::Sm90RowBroadcast<0, TileShape, float, float, Stride<_0, _1, std::int64_t>>,
                            fusion::Sm90ColBroadcast<0, TileShape, float, float, Stride<_1, _0, std::int64_t>>>>>,
                fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>>,
                fusion::Sm90SrcFetch<ElementC>>>>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm100, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    ElementC, cutlass::layout::RowMajor, 8, ElementD, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::TmaWarpSpecialized1Sm, Visitors>::CollectiveOp;
using Problem = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kFprop, 2>;
using MainLoop = typename cutlass::conv::collective::CollectiveBuilder<
    cutlass::arch::Sm100, cutlass::arch::OpClassTensorOp, cutlass::conv::Operator::kFprop,
    ElementA, cutlass::layout::TensorNHWC, 8, ElementB, cutlass::layout::TensorNHWC, 8, float, TileShape,
    ClusterShape, cutlass::conv::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::conv::KernelImplicitTmaWarpSpecialized1SmSm100>::CollectiveOp;
using Kernel = cutlass::conv::kernel::ConvUniversal<Problem, MainLoop, Epilogue>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    CutlassEvtWindow window;
    unsigned long long fields[6];
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

int run(const Parameter& p, cudaStream_t stream) {
    const CutlassEvtWindow& o = p.window;
    const std::int64_t m = p.to.m, n = p.to.n, c = p.to.k, pixel = p.to.pitch_a;
    const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {o.images, o.h, o.w, int(c)},
                      {pixel * o.w * o.h, pixel * o.w, pixel, 1}, {int(n), o.r, o.s, int(c)},
                      {c * o.s * o.r, c * o.s, c, 1}, {o.pad_top, o.pad_left}, {o.pad_bottom, o.pad_right},
                      {o.stride_h, o.stride_w}, {o.dilation_h, o.dilation_w}, 1);
    const auto tiled = MainLoop::get_problem_shape_MNKL(problem);
    const auto shape = make_shape(get<0>(tiled), get<1>(tiled), get<2>(tiled), 1);  // one matrix
    typename Visitors::Arguments visitors{
        {
            {
                {
                    {
                        {
                            {
                                {},  // AccFetch
                                {address<const float>(p, 0), float(0), {_0{}, _1{}, std::int64_t(0)}},  // RowBroadcast scale
                                {address<const float>(p, 1), float(0), {_1{}, _0{}, m}},  // ColBroadcast shift
                                {},  // cutlass::homogeneous_multiply_add = h
                            },
                            {address<float>(p, 4), {n, _1{}, m * n}},  // AuxStore h
                        },
                        {},  // Mish4
                    },
                    {{number(p, 2)}, {nullptr}, {{_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast alpha
                    {},  // SrcFetch r
                    {},  // cutlass::homogeneous_multiply_add
                },
                {},  // thread::Identity = y
            },
            {address<float>(p, 5), 0.f, {_0{}, _1{}, std::int64_t(0)}},  // RowReduction s
        },
        {},  // thread::Identity to ElementD
    };
    const typename MainLoop::Arguments operands{static_cast<const ElementA*>(p.to.a),
                                               static_cast<const ElementB*>(p.to.b)};
    const typename Epilogue::Arguments results{visitors, address<const ElementC>(p, 3), {n, _1{}, m * n}, static_cast<ElementD*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}};
    if (!MainLoop::can_implement(problem, operands) || !Epilogue::can_implement(shape, results))
        return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Epilogue::get_workspace_size(shape, results);
    if (bytes > std::size_t(p.to.workspace_bytes)) return int(cutlass::Status::kErrorWorkspaceNull);
    if (bytes > 0)
        if (const cudaError_t error = cudaMemsetAsync(p.to.workspace, 0, bytes, stream)) return 1000 + int(error);
    const cutlass::Status status = Epilogue::initialize_workspace(shape, results, p.to.workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    const auto after = Epilogue::to_underlying_arguments(shape, results, p.to.workspace);
    cutlass::KernelHardwareInfo hardware;
    hardware.sm_count = int(p.to.sms);
    const typename Kernel::TileSchedulerArguments scheduler{};
    typename Kernel::Params params{
        tiled, MainLoop::to_underlying_arguments(problem, operands, nullptr, hardware), after,
        Kernel::TileScheduler::to_underlying_arguments(problem, TileShape{}, typename Kernel::AtomThrShapeMNK{},
                                                       ClusterShape{}, hardware, scheduler, nullptr),
        hardware};
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
