// A convolution and its epilogue by CUTLASS's visitors:
//   operand r[m,n] : bf16
//   h = fma(acc, scale[n], shift[m])
//   y = cast(fma(mish(h), alpha[], r[m,n]), f16)
//   s = sum(y, over=m)
//   store y : bf16
//   store h : f32
//   store s : f32
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/epilogue/threadblock/epilogue_with_visitor_callbacks.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>

#include "unisono/cutlass/sm80_conv.cuh"
#include "unisono/cutlass/sm80_visitors.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::evt {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace thread = cutlass::epilogue::thread;

namespace threadblock = cutlass::epilogue::threadblock;
using TileShape = cutlass::gemm::GemmShape<128, 128, 32>;
using WarpShape = cutlass::gemm::GemmShape<64, 64, 32>;
using ElementA = cutlass::bfloat16_t;
using ElementB = cutlass::bfloat16_t;
using ElementD = cutlass::bfloat16_t;
constexpr int kAlignmentD = 8;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
using ThreadMap = threadblock::OutputTileThreadLayout<TileShape, WarpShape, ElementD, kAlignmentD, 1>;

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

using Visitors = threadblock::Sm80EVT<
    threadblock::VisitorAuxStore<ThreadMap, cutlass::bfloat16_t, kRound, Stride<std::int64_t, _1, std::int64_t>>,
    threadblock::Sm80EVT<
        unisono::evt::RowReduction<cutlass::plus, cutlass::atomic_add, ThreadMap, float, float, kRound, Stride<_0, _1, std::int64_t>>,
        threadblock::Sm80EVT<
            threadblock::VisitorCompute<thread::Identity, cutlass::half_t, float, kRound>,
            threadblock::Sm80EVT<
                threadblock::VisitorCompute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                threadblock::Sm80EVT<
                    threadblock::VisitorCompute<Mish4, float, float, kRound>,
                    threadblock::Sm80EVT<
                        threadblock::VisitorAuxStore<ThreadMap, float, kRound, Stride<std::int64_t, _1, std::int64_t>>,
                        threadblock::Sm80EVT<
                            threadblock::VisitorCompute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                            threadblock::VisitorAccFetch,
                            threadblock::VisitorRowBroadcast<ThreadMap, float, Stride<_0, _1, std::int64_t>>,
                            threadblock::VisitorColBroadcast<ThreadMap, float, Stride<_1, _0, std::int64_t>>>>>,
                threadblock::VisitorScalarBroadcast<float, Stride<_0, _0, _0>>,
                threadblock::VisitorAuxLoad<ThreadMap, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>>>>>>;

using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>;
using Default = typename cutlass::conv::kernel::DefaultConv2dFprop<
    ElementA, cutlass::layout::TensorNHWC, ElementB, cutlass::layout::TensorNHWC,
    ElementD, cutlass::layout::TensorNHWC, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    TileShape, WarpShape, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<ElementD, kAlignmentD, float, float>, Swizzle, 4,
    cutlass::arch::OpMultiplyAdd, cutlass::conv::IteratorAlgorithm::kOptimized,
    cutlass::conv::StrideSupport::kStrided, 8, 8>::Kernel;
using Epilogue = threadblock::EpilogueWithVisitorCallbacks<typename Default::Epilogue, Visitors, 1>;
using Kernel = ConvWithVisitors<typename Default::Mma, Epilogue, Swizzle>;

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
    const std::int64_t m = p.to.m, n = p.to.n;
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
                    {{number(p, 2)}, {nullptr}, {}},  // ScalarBroadcast alpha
                    {address<cutlass::bfloat16_t>(p, 3), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r
                    {},  // cutlass::homogeneous_multiply_add
                },
                {},  // thread::Identity = y
            },
            {address<float>(p, 5), 0.f, {_0{}, _1{}, std::int64_t(0)}},  // RowReduction s
        },
        {static_cast<cutlass::bfloat16_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore D
    };
    const cutlass::conv::Conv2dProblemSize problem(
        o.images, o.h, o.w, int(p.to.k), int(n), o.r, o.s, o.p, o.q, o.pad_top, o.pad_left, o.stride_h,
        o.stride_w, o.dilation_h, o.dilation_w, cutlass::conv::Mode::kCrossCorrelation);
    const cutlass::Status status = Kernel::can_implement(problem, p.to.pitch_a);
    if (status != cutlass::Status::kSuccess) return int(status);
    if (p.fields[0] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // scale
    if (const cudaError_t error = begin_with(0.f, address<float>(p, 5), n, stream)) return 1000 + int(error);
    const typename Kernel::Params params(problem, p.to.a, p.to.pitch_a, p.to.b, visitors);
    return launched<Kernel>(params, params.grid(), stream);
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
