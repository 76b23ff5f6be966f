// A matrix product and its epilogue by CUTLASS's visitors:
//   operand target[m,n] : bf16
//   f = acc + bias[n]
//   p = clamp(sigmoid(f), lower=0.001, upper=0.999)
//   y = fma(f, target[m,n] + -1, log(p))
//   loss = sum(y, over=m)
//   store y : bf16
//   store loss : f32
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/gemm/kernel/default_gemm_universal_with_visitor.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>

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
struct Clamp7 {};
template <int N>
struct Clamp7<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = math::clamp(x0[i], 0.001f, 0.999f);
        return y;
    }
};

template <class T>
struct Log8 {};
template <int N>
struct Log8<cutlass::Array<float, N>> {
    CUTLASS_DEVICE cutlass::Array<float, N> operator()(const cutlass::Array<float, N>& x0) const {
        cutlass::Array<float, N> y;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) y[i] = math::accurate::log(x0[i]);
        return y;
    }
};

using Visitors = threadblock::Sm80EVT<
    threadblock::VisitorAuxStore<ThreadMap, cutlass::bfloat16_t, kRound, Stride<std::int64_t, _1, std::int64_t>>,
    threadblock::Sm80EVT<
        unisono::evt::RowReduction<cutlass::plus, cutlass::atomic_add, ThreadMap, float, float, kRound, Stride<_0, _1, std::int64_t>>,
        threadblock::Sm80TopologicalVisitor<
            float, cute::tuple<seq<>, seq<>, seq<0>, seq<2>, seq<3>, seq<0, 1, 4>>,
            threadblock::Sm80EVT<
                threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
                threadblock::VisitorAccFetch,
                threadblock::VisitorRowBroadcast<ThreadMap, float, Stride<_0, _1, std::int64_t>>>,
            threadblock::Sm80EVT<
                threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
                threadblock::VisitorAuxLoad<ThreadMap, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>>,
                threadblock::VisitorScalarBroadcast<float, Stride<_0, _0, _0>>>,
            threadblock::VisitorCompute<thread::Sigmoid, float, float, kRound>,
            threadblock::VisitorCompute<Clamp7, float, float, kRound>,
            threadblock::VisitorCompute<Log8, float, float, kRound>,
            threadblock::VisitorCompute<cutlass::homogeneous_multiply_add, float, float, kRound>>>>;

using Kernel = typename cutlass::gemm::kernel::DefaultGemmWithVisitor<
    ElementA, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    ElementB, cutlass::layout::RowMajor, cutlass::ComplexTransform::kNone, 8,
    ElementD, cutlass::layout::RowMajor, kAlignmentD, float, float,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, TileShape, WarpShape, cutlass::gemm::GemmShape<16, 8, 16>,
    Visitors, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>, 4,
    cutlass::arch::OpMultiplyAdd, 1>::GemmKernel;

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

int run(const Parameter& p, cudaStream_t stream) {
    const std::int64_t m = p.to.m, n = p.to.n;
    typename Visitors::Arguments visitors{
        {
            {
                {
                    {},  // AccFetch
                    {address<const float>(p, 0), float(0), {_0{}, _1{}, std::int64_t(0)}},  // RowBroadcast bias
                    {},  // cutlass::plus = f
                },
                {
                    {address<cutlass::bfloat16_t>(p, 1), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad target
                    {{(-1.f)}, {nullptr}, {}},  // ScalarBroadcast
                    {},  // cutlass::plus
                },
                {},  // thread::Sigmoid
                {},  // Clamp7 = p
                {},  // Log8
                {},  // cutlass::homogeneous_multiply_add = y
            },
            {address<float>(p, 2), 0.f, {_0{}, _1{}, std::int64_t(0)}},  // RowReduction loss
        },
        {static_cast<cutlass::bfloat16_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore D
    };
    const typename Kernel::Arguments all(
        cutlass::gemm::GemmUniversalMode::kBatched, {int(m), int(n), int(p.to.k)}, int(p.to.batch), visitors,
        p.to.a, p.to.b, nullptr, nullptr, p.to.step_a, p.to.step_b, 0, 0, p.to.pitch_a, p.to.pitch_b, n, n);
    const cutlass::Status status = Kernel::can_implement(all);
    if (status != cutlass::Status::kSuccess) return int(status);
    if (p.fields[0] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // bias
    if (const cudaError_t error = begin_with(0.f, address<float>(p, 2), n, stream)) return 1000 + int(error);
    const typename Kernel::Params params(all, int(p.to.sms), 1);
    return launched<Kernel>(params, params.get_grid_dims(), stream);
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
