// A dual matrix product and its epilogue by CUTLASS's visitors:
//   u = fma(acc1, scale[m], up[n])
//   h = acc0 + gate[n]
//   y = u * silu(h)
//   peak = max(u, over=m)
//   store y : bf16
//   store h : f32
//   store peak : f32
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/gemm/kernel/default_gemm_universal.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>

#include "unisono/cutlass/sm80_dual.cuh"
#include "unisono/cutlass/sm80_visitors.cuh"
#include "unisono/epilogue/math.cuh"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::evt {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;
namespace thread = cutlass::epilogue::thread;

namespace threadblock = cutlass::epilogue::threadblock;
using TileShape = cutlass::gemm::GemmShape<128, 64, 32>;
using WarpShape = cutlass::gemm::GemmShape<64, 32, 32>;
using ElementA = cutlass::bfloat16_t;
using ElementB = cutlass::bfloat16_t;
using ElementD = cutlass::bfloat16_t;
constexpr int kAlignmentD = 8;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
using ThreadMap = threadblock::OutputTileThreadLayout<TileShape, WarpShape, ElementD, kAlignmentD, 1>;

using Visitors = threadblock::Sm80EVT<
    threadblock::VisitorAuxStore<ThreadMap, cutlass::bfloat16_t, kRound, Stride<std::int64_t, _1, std::int64_t>>,
    threadblock::Sm80EVT<
        threadblock::VisitorCompute<cutlass::multiplies, float, float, kRound>,
        threadblock::Sm80EVT<
            unisono::evt::RowReduction<cutlass::maximum_with_nan_propagation, unisono::evt::AtomicMaximum, ThreadMap, float, float, kRound, Stride<_0, _1, std::int64_t>>,
            threadblock::Sm80EVT<
                threadblock::VisitorCompute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                SecondAccumulator,
                threadblock::VisitorColBroadcast<ThreadMap, float, Stride<_1, _0, std::int64_t>>,
                threadblock::VisitorRowBroadcast<ThreadMap, float, Stride<_0, _1, std::int64_t>>>>,
        threadblock::Sm80EVT<
            threadblock::VisitorCompute<thread::SiLu, float, float, kRound>,
            threadblock::Sm80EVT<
                threadblock::VisitorAuxStore<ThreadMap, float, kRound, Stride<std::int64_t, _1, std::int64_t>>,
                threadblock::Sm80EVT<
                    threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
                    FirstAccumulator,
                    threadblock::VisitorRowBroadcast<ThreadMap, float, Stride<_0, _1, std::int64_t>>>>>>>;

using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>;
using Default = typename cutlass::gemm::kernel::DefaultGemmUniversal<
    ElementA, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    ElementB, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    ElementD, cutlass::layout::RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    TileShape, WarpShape, cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<ElementD, kAlignmentD, float, float>, Swizzle, 4,
    cutlass::arch::OpMultiplyAdd>::GemmKernel;
using Epilogue = EpilogueOfTwo<typename Default::Epilogue, Visitors>;
using Kernel = DualWithVisitors<typename Default::Mma, Epilogue, Swizzle>;

// The problem, and what the visitors read
struct Parameter {
    CutlassEvtParams to;
    CutlassEvtSecond second;
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
    const std::int64_t m = p.to.m, n = p.to.n;
    typename Visitors::Arguments visitors{
        {
            {
                {
                    {},  // AccFetch of the second product
                    {address<const float>(p, 0), float(0), {_1{}, _0{}, m}},  // ColBroadcast scale
                    {address<const float>(p, 1), float(0), {_0{}, _1{}, std::int64_t(0)}},  // RowBroadcast up
                    {},  // cutlass::homogeneous_multiply_add = u
                },
                {address<float>(p, 4), -std::numeric_limits<float>::infinity(), {_0{}, _1{}, std::int64_t(0)}},  // RowReduction peak
            },
            {
                {
                    {
                        {},  // AccFetch
                        {address<const float>(p, 2), float(0), {_0{}, _1{}, std::int64_t(0)}},  // RowBroadcast gate
                        {},  // cutlass::plus = h
                    },
                    {address<float>(p, 3), {n, _1{}, m * n}},  // AuxStore h
                },
                {},  // thread::SiLu
            },
            {},  // cutlass::multiplies = y
        },
        {static_cast<cutlass::bfloat16_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore D
    };
    const typename Kernel::Operand left{p.to.a, p.to.pitch_a, p.to.step_a};
    const typename Kernel::Operand right{p.to.b, p.to.pitch_b, p.to.step_b};
    const cutlass::Status status = Kernel::can_implement(left, right, p.second.b);
    if (status != cutlass::Status::kSuccess) return int(status);
    if (p.fields[1] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // up
    if (p.fields[2] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // gate
    if (const cudaError_t error = begin_with(-std::numeric_limits<float>::infinity(), address<float>(p, 4), n, stream)) return 1000 + int(error);
    const typename Kernel::Params params({int(m), int(n), int(p.to.k)}, int(p.to.batch), left, right, p.second.b,
                                         visitors);
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
