// A matrix product and its epilogue by CUTLASS's visitors:
//   operand r3[m,n] : bf16
//   operand r2[m,n] : bf16
//   operand r1[m,n] : bf16
//   y = r3[m,n] + (r2[m,n] + (r1[m,n] + acc))
//   store y : bf16
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

using Visitors = threadblock::Sm80EVT<
    threadblock::VisitorAuxStore<ThreadMap, cutlass::bfloat16_t, kRound, Stride<std::int64_t, _1, std::int64_t>>,
    threadblock::Sm80EVT<
        threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
        threadblock::VisitorAuxLoad<ThreadMap, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>>,
        threadblock::Sm80EVT<
            threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
            threadblock::VisitorAuxLoad<ThreadMap, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>>,
            threadblock::Sm80EVT<
                threadblock::VisitorCompute<cutlass::plus, float, float, kRound>,
                threadblock::VisitorAuxLoad<ThreadMap, cutlass::bfloat16_t, Stride<std::int64_t, _1, std::int64_t>>,
                threadblock::VisitorAccFetch>>>>;

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
            {address<cutlass::bfloat16_t>(p, 0), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r3
            {
                {address<cutlass::bfloat16_t>(p, 1), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r2
                {
                    {address<cutlass::bfloat16_t>(p, 2), cutlass::bfloat16_t(0), {n, _1{}, m * n}},  // AuxLoad r1
                    {},  // AccFetch
                    {},  // cutlass::plus
                },
                {},  // cutlass::plus
            },
            {},  // cutlass::plus
        },
        {static_cast<cutlass::bfloat16_t*>(p.to.d), {p.to.pitch_d, _1{}, m * p.to.pitch_d}},  // AuxStore D
    };
    const typename Kernel::Arguments all(
        cutlass::gemm::GemmUniversalMode::kBatched, {int(m), int(n), int(p.to.k)}, int(p.to.batch), visitors,
        p.to.a, p.to.b, nullptr, nullptr, p.to.step_a, p.to.step_b, 0, 0, p.to.pitch_a, p.to.pitch_b, n, n);
    const cutlass::Status status = Kernel::can_implement(all);
    if (status != cutlass::Status::kSuccess) return int(status);
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
