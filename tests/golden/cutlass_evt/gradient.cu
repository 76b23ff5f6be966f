// A gradient of filters and its epilogue by CUTLASS's visitors:
//   operand c[m,n] : f32
//   h = acc * alpha[]
//   y = fma(c[m,n], beta[], h)
//   energy = sum_squares(h, over=n)
//   store y : f32
//   store h : bf16
//   store energy : f32
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

#include "unisono/cutlass/sm90_wgrad.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::evt {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace thread = cutlass::epilogue::thread;

using TileShape = Shape<_128, _64, _64>;
using ClusterShape = Shape<_1, _1, _1>;
using ElementA = cutlass::bfloat16_t;
using ElementB = cutlass::bfloat16_t;
using ElementC = float;
using ElementD = float;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;

using WindowShape = Shape<_128, Shape<_64>, Shape<_64>>;  // of the main loop

using Visitors = fusion::Sm90TopologicalVisitor<
    float, cute::tuple<seq<>, seq<>, seq<>, seq<0, 1, 2>, seq<2, 2>, seq<4>, seq<3>>,
    fusion::Sm90SrcFetch<ElementC>,
    fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>>,
    fusion::Sm90EVT<
        fusion::Sm90AuxStore<0, void, cutlass::bfloat16_t, kRound, Stride<std::int64_t, _1, std::int64_t>, void, void>,
        fusion::Sm90EVT<
            fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
            fusion::Sm90AccFetch,
            fusion::Sm90ScalarBroadcast<float, Stride<_0, _0, std::int64_t>>>>,
    fusion::Sm90Compute<cutlass::homogeneous_multiply_add, float, float, kRound>,
    fusion::Sm90Compute<cutlass::multiplies, float, float, kRound>,
    fusion::Sm90ColReduction<cutlass::plus, cutlass::plus, cutlass::plus, 0, TileShape, float, float, kRound, Stride<_1, _0, std::int64_t>>,
    fusion::Sm90Compute<thread::Identity, float, float, kRound>>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    ElementC, cutlass::layout::RowMajor, 4, ElementD, cutlass::layout::RowMajor, 4,
    cutlass::epilogue::TmaWarpSpecialized, Visitors>::CollectiveOp;
using Problem = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kWgrad, 2>;
using MainLoop = typename cutlass::conv::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, cutlass::conv::Operator::kWgrad,
    ElementA, cutlass::layout::TensorNHWC, 8, ElementB, cutlass::layout::TensorNHWC, 8, float, WindowShape,
    ClusterShape, cutlass::conv::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::conv::KernelImplicitTmaWarpSpecializedSm90>::CollectiveOp;
using Kernel = cutlass::conv::kernel::ConvUniversal<Problem, MainLoop, OneExtentOfColumns<Epilogue>>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    CutlassEvtWindow window;
    unsigned long long fields[5];
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
    const std::int64_t m = p.to.m, n = p.to.n, c = p.to.k;
    const Problem problem(cutlass::conv::Mode::kCrossCorrelation, {o.images, o.h, o.w, int(c)},
                      {c * o.w * o.h, c * o.w, c, 1}, {int(m), o.r, o.s, int(c)},
                      {c * o.s * o.r, c * o.s, c, 1}, {o.pad_top, o.pad_left}, {o.pad_bottom, o.pad_right},
                      {o.stride_h, o.stride_w}, {o.dilation_h, o.dilation_w}, 1);
    const auto tiled = MainLoop::get_problem_shape_MNKL(problem);
    const auto shape = make_shape(get<0>(tiled), int(n), get<2>(tiled), 1);  // one matrix
    typename Visitors::Arguments visitors{
        {},  // SrcFetch c
        {{number(p, 1)}, {nullptr}, {{_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast beta
        {
            {
                {},  // AccFetch
                {{number(p, 2)}, {nullptr}, {{_0{}, _0{}, std::int64_t(false)}}},  // ScalarBroadcast alpha
                {},  // cutlass::multiplies = h
            },
            {static_cast<cutlass::bfloat16_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore h
        },
        {},  // cutlass::homogeneous_multiply_add = y
        {},  // cutlass::multiplies = square
        {address<float>(p, 3), 0.f, {_1{}, _0{}, m}},  // ColReduction energy
        {},  // thread::Identity = D
    };
    const typename MainLoop::Arguments operands{static_cast<const ElementA*>(p.to.a),
                                               static_cast<const ElementB*>(p.to.b)};
    const typename Epilogue::Arguments results{visitors, address<const ElementC>(p, 0), {n, _1{}, m * n}, address<ElementD>(p, 4), {n, _1{}, m * n}};
    if (!MainLoop::can_implement(problem, operands) || !Epilogue::can_implement(shape, results))
        return int(cutlass::Status::kErrorInvalidProblem);
    const std::size_t bytes = Epilogue::get_workspace_size(shape, results);
    if (bytes > std::size_t(p.to.workspace_bytes)) return int(cutlass::Status::kErrorWorkspaceNull);
    if (bytes > 0)
        if (const cudaError_t error = cudaMemsetAsync(p.to.workspace, 0, bytes, stream)) return 1000 + int(error);
    const cutlass::Status status = Epilogue::initialize_workspace(shape, results, p.to.workspace, stream);
    if (status != cutlass::Status::kSuccess) return int(status);
    const auto after = Epilogue::to_underlying_arguments(shape, results, p.to.workspace);
    typename Kernel::Params params{tiled, MainLoop::to_underlying_arguments(problem, operands, nullptr), after};
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
