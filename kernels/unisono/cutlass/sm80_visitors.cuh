// What the visitors of CUTLASS 2.x lack: atomic extrema that propagate NaN, scalar reductions that add a warp's sum
// once, initial values of reductions, and the launch.
#pragma once
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/threadblock/epilogue_with_visitor_callbacks.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>

#include <cstdint>

namespace unisono::evt {

// *at = fold(*at, value) for a fold that compares and swaps
template <class Fold>
CUTLASS_DEVICE void fold_atomically(float* at, float value, Fold fold) {
  auto* bits = reinterpret_cast<unsigned*>(at);
  unsigned seen = *bits, expected;
  do {
    expected = seen;
    const unsigned folded = __float_as_uint(fold(__uint_as_float(expected), value));
    if (folded == expected) return;
    seen = atomicCAS(bits, expected, folded);
  } while (seen != expected);
}

template <class T>
struct AtomicMaximum {
  CUTLASS_DEVICE void operator()(float* at, float value) const {
    fold_atomically(at, value, cutlass::maximum_with_nan_propagation<float>{});
  }
};
template <class T>
struct AtomicMinimum {
  CUTLASS_DEVICE void operator()(float* at, float value) const {
    fold_atomically(at, value, cutlass::minimum_with_nan_propagation<float>{});
  }
};

// threadblock::VisitorScalarReduction, in CUTLASS 4.2, lets all 32 threads of a warp add the warp's sum
template <template <class> class Fold, template <class> class Atomic, class ThreadMap, class Output, class Compute,
          cutlass::FloatRoundStyle Round, class Stride>
struct ScalarReduction
    : cutlass::epilogue::threadblock::VisitorScalarReduction<Fold, Atomic, ThreadMap, Output, Compute, Round, Stride> {
  using Base =
      cutlass::epilogue::threadblock::VisitorScalarReduction<Fold, Atomic, ThreadMap, Output, Compute, Round, Stride>;
  using Base::Base;

  template <class Callbacks>
  struct OncePerWarp : Callbacks {
    CUTLASS_DEVICE explicit OncePerWarp(const Callbacks& all) : Callbacks(all) {}

    CUTLASS_DEVICE void end_epilogue() {
      namespace threadblock = cutlass::epilogue::threadblock;
      threadblock::intra_warp_row_reduce<Fold, ThreadMap::kWarpSize>(this->reduction_accum);
      if (this->is_writing_thread)
        threadblock::atomic_reduce<Atomic, Round>(&this->tC_gScalar(cute::_0{}, cute::_0{}), this->reduction_accum);
    }
  };

  template <class ProblemShape>
  CUTLASS_DEVICE auto get_callbacks(cutlass::gemm::GemmCoord tile, int thread, ProblemShape shape) {
    const auto all = Base::get_callbacks(tile, thread, shape);
    return OncePerWarp<cute::remove_cvref_t<decltype(all)>>(all);
  }
};

// threadblock::VisitorRowReduction, whose fold of a fragment ends without the value that it promises
template <template <class> class Fold, template <class> class Atomic, class ThreadMap, class Output, class Compute,
          cutlass::FloatRoundStyle Round, class Stride>
struct RowReduction
    : cutlass::epilogue::threadblock::VisitorRowReduction<Fold, Atomic, ThreadMap, Output, Compute, Round, Stride> {
  using Base =
      cutlass::epilogue::threadblock::VisitorRowReduction<Fold, Atomic, ThreadMap, Output, Compute, Round, Stride>;
  using Base::Base;

  template <class Callbacks>
  struct Folding : Callbacks {
    CUTLASS_DEVICE explicit Folding(const Callbacks& all) : Callbacks(all) {}

    template <class Accumulator, class Input, int N>
    CUTLASS_DEVICE auto visit(int step, int row, int column, int, const cutlass::Array<Accumulator, N>&,
                              const cutlass::Array<Input, N>& values) {
      const auto converted = cutlass::NumericArrayConverter<Compute, Input, N, Round>{}(values);
      auto sums = cute::recast<cutlass::Array<Compute, N>>(cute::coalesce(this->tRS_rSrc));
      if (cute::get<0>(this->tRS_cSrc(column, row, step)) < this->m) {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < N; ++i) sums[column][i] = Fold<Compute>{}(sums[column][i], converted[i]);
      }
      return values;
    }
  };

  template <class ProblemShape>
  CUTLASS_DEVICE auto get_callbacks(cutlass::gemm::GemmCoord tile, int thread, ProblemShape shape) {
    const auto all = Base::get_callbacks(tile, thread, shape);
    return Folding<cute::remove_cvref_t<decltype(all)>>(all);
  }
};

namespace {

__global__ void fill(float value, float* at, std::int64_t count) {
  const std::int64_t i = blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x;
  if (i < count) at[i] = value;
}

// Enqueues at[0 … count) = value
inline cudaError_t begin_with(float value, float* at, std::int64_t count, cudaStream_t stream) {
  fill<<<unsigned((count + 255) / 256), 256, 0, stream>>>(value, at, count);
  return cudaGetLastError();
}

// 0, or 1000 and a cudaError_t
template <class Kernel>
int launched(const typename Kernel::Params& params, dim3 grid, cudaStream_t stream) {
  constexpr int shared = int(sizeof(typename Kernel::SharedStorage));
  const auto kernel = cutlass::Kernel2<Kernel>;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared))
    return 1000 + int(error);
  kernel<<<grid, Kernel::kThreadCount, shared, stream>>>(params);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? 0 : 1000 + int(error);
}

}  // namespace

}  // namespace unisono::evt
