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
using ElementD = cutlass::half_t;
constexpr int kAlignmentD = 8;
constexpr auto kRound = cutlass::FloatRoundStyle::round_to_nearest;
using ThreadMap = threadblock::OutputTileThreadLayout<TileShape, WarpShape, ElementD, kAlignmentD, 1>;

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

using Visitors = threadblock::Sm80EVT<
    threadblock::VisitorAuxStore<ThreadMap, cutlass::half_t, kRound, Stride<std::int64_t, _1, std::int64_t>>,
    threadblock::Sm80TopologicalVisitor<
        float, cute::tuple<seq<>, seq<>, seq<0, 1>, seq<2>, seq<0>>,
        threadblock::Sm80EVT<
            threadblock::VisitorCompute<cutlass::multiplies, float, float, kRound>,
            threadblock::Sm80TopologicalVisitor<
                float, cute::tuple<seq<>, seq<>, seq<1>, seq<1>, seq<0, 2, 3>>,
                threadblock::VisitorAuxLoad<ThreadMap, std::uint8_t, Stride<std::int64_t, _1, std::int64_t>>,
                threadblock::Sm80EVT<
                    threadblock::VisitorColReduction<cutlass::maximum_with_nan_propagation, unisono::evt::AtomicMaximum, ThreadMap, float, float, kRound, Stride<_1, _0, std::int64_t>>,
                    threadblock::Sm80EVT<
                        threadblock::VisitorCompute<thread::Identity, cutlass::bfloat16_t, float, kRound>,
                        threadblock::Sm80EVT<
                            threadblock::VisitorCompute<cutlass::homogeneous_multiply_add, float, float, kRound>,
                            threadblock::VisitorAccFetch,
                            threadblock::VisitorRowBroadcast<ThreadMap, cutlass::bfloat16_t, Stride<_0, _1, std::int64_t>>,
                            threadblock::VisitorColBroadcast<ThreadMap, float, Stride<_1, _0, std::int64_t>>>>>,
                threadblock::VisitorCompute<Mish6, cutlass::bfloat16_t, float, kRound>,
                threadblock::VisitorCompute<Clamp7, cutlass::bfloat16_t, float, kRound>,
                threadblock::VisitorCompute<Select8, cutlass::bfloat16_t, float, kRound>>,
            threadblock::VisitorScalarBroadcast<float, Stride<_0, _0, int>, 2, cutlass::multiplies>>,
        threadblock::VisitorScalarBroadcast<float, Stride<_0, _0, _0>>,
        threadblock::VisitorCompute<cutlass::multiplies, float, float, kRound>,
        unisono::evt::RowReduction<cutlass::plus, cutlass::atomic_add, ThreadMap, float, float, kRound, Stride<_0, _1, std::int64_t>>,
        threadblock::VisitorCompute<thread::Identity, float, float, kRound>>>;

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

int run(const Parameter& p, cudaStream_t stream) {
    const std::int64_t m = p.to.m, n = p.to.n;
    typename Visitors::Arguments visitors{
        {
            {
                {
                    {address<std::uint8_t>(p, 0), std::uint8_t(0), {n, _1{}, m * n}},  // AuxLoad mask
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
                {{0.f, number(p, 4)}, {address<const float>(p, 3), nullptr}, {_0{}, _0{}, 1}},  // ScalarBroadcast
                {},  // cutlass::multiplies = y
            },
            {{float(1.0 / double(m))}, {nullptr}, {}},  // ScalarBroadcast 1 / count
            {},  // cutlass::multiplies = share
            {address<float>(p, 5), 0.f, {_0{}, _1{}, n}},  // RowReduction average
            {},  // thread::Identity = D
        },
        {static_cast<cutlass::half_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore D
    };
    const typename Kernel::Arguments all(
        cutlass::gemm::GemmUniversalMode::kBatched, {int(m), int(n), int(p.to.k)}, int(p.to.batch), visitors,
        p.to.a, p.to.b, nullptr, nullptr, p.to.step_a, p.to.step_b, 0, 0, p.to.pitch_a, p.to.pitch_b, n, n);
    const cutlass::Status status = Kernel::can_implement(all);
    if (status != cutlass::Status::kSuccess) return int(status);
    if (p.fields[1] % 16 != 0) return int(cutlass::Status::kErrorMisalignedOperand);  // gain
    if (const cudaError_t error = begin_with(-std::numeric_limits<float>::infinity(), address<float>(p, 6), m * p.to.batch, stream)) return 1000 + int(error);
    if (const cudaError_t error = begin_with(0.f, address<float>(p, 5), n * p.to.batch, stream)) return 1000 + int(error);
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
