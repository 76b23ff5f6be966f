// A convolution with an epilogue of visitors: CUTLASS 2.x has the main loops, and visitors for products alone.
#pragma once
#include <cutlass/conv/conv2d_problem_size.h>
#include <cutlass/conv/convolution.h>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/threadblock/epilogue_with_visitor_callbacks.h>

namespace unisono::evt {

// A CTA computes one tile (m, n) of rows (image, p, q) and channels: acc = Σ over taps and channels, by an
// implicit-GEMM main loop of CUTLASS, then the visitors.
template <class Mma_, class Epilogue_, class Swizzle>
struct ConvWithVisitors {
  using Mma = Mma_;
  using Epilogue = Epilogue_;
  using Visitors = typename Epilogue::FusionCallbacks;
  using Problem = cutlass::conv::Conv2dProblemSize;
  using Tile = typename Mma::Shape;
  static constexpr auto kOperator = cutlass::conv::Operator::kFprop;
  static constexpr int kThreadCount = 32 * Mma::WarpCount::kCount;

  struct Params {
    Problem problem;
    cutlass::gemm::GemmCoord extents;  // (rows, channels, taps · channels of x)
    cutlass::gemm::GemmCoord tiles;
    int swizzle_log_tile;
    int steps, steps_per_channel;  // of the main loop
    typename Mma::IteratorA::Params iterator_a;
    typename Mma::IteratorB::Params iterator_b;
    const typename Mma::IteratorA::Element* a;
    const typename Mma::IteratorB::Element* b;
    typename Visitors::Params visitors;

    // a: (N, H, W, C), pixels `pitch_a` elements apart; b: (K, R, S, C)
    Params(const Problem& of, const void* x, std::int64_t pitch_a, const void* w,
           const typename Visitors::Arguments& arguments)
        : problem(of),
          extents(cutlass::conv::implicit_gemm_problem_size(kOperator, of)),
          tiles(Swizzle::get_tiled_shape(extents, {Tile::kM, Tile::kN, Tile::kK}, 1)),
          swizzle_log_tile(Swizzle::get_log_tile(tiles)),
          steps(cutlass::conv::implicit_gemm_k_iterations(kOperator, Tile::kK, of, Mma::IteratorA::kIteratorAlgorithm)),
          steps_per_channel(
              cutlass::conv::implicit_gemm_k_iterations_per_channel(kOperator, of, Mma::IteratorA::kIteratorAlgorithm)),
          iterator_a(Mma::IteratorA::getParams(of, pixels(int(pitch_a), of.W, of.H))),
          iterator_b(of, pixels(of.C, of.S, of.R)),
          a(static_cast<const typename Mma::IteratorA::Element*>(x)),
          b(static_cast<const typename Mma::IteratorB::Element*>(w)),
          visitors(Visitors::to_underlying_arguments(extents, arguments, nullptr)) {}

    static cutlass::layout::TensorNHWC pixels(int pitch, int width, int height) {
      return {pitch, pitch * width, pitch * width * height};
    }
    dim3 grid() const { return Swizzle::get_grid_shape(tiles); }
  };

  union SharedStorage {
    typename Mma::SharedStorage main_loop;
    typename Epilogue::SharedStorage epilogue;
  };

  // Offsets into the images, their borders included, are computed in 31 bits
  static cutlass::Status can_implement(const Problem& problem, std::int64_t pitch_a) {
    const std::int64_t lines = std::int64_t(problem.N) * problem.H + problem.pad_h;
    if (lines * (std::int64_t(problem.W) + problem.pad_w) >= (std::int64_t(1) << 31) / pitch_a)
      return cutlass::Status::kErrorInvalidProblem;
    if (Mma::IteratorA::can_implement(problem) != cutlass::Status::kSuccess)
      return cutlass::Status::kErrorInvalidProblem;
    return Mma::IteratorB::can_implement(problem);
  }

  CUTLASS_DEVICE static void invoke(const Params& p, SharedStorage& shared) {
    const cutlass::gemm::GemmCoord tile = Swizzle::get_tile_offset(p.swizzle_log_tile);
    if (tile.m() >= p.tiles.m() || tile.n() >= p.tiles.n()) return;
    const int thread = int(threadIdx.x), warp = cutlass::canonical_warp_idx_sync(), lane = thread % 32;
    typename Mma::IteratorA iterator_a(p.iterator_a, p.problem, p.a, thread, {tile.m() * Tile::kM, 0});
    typename Mma::IteratorB iterator_b(p.iterator_b, p.problem, p.b, thread, {0, tile.n() * Tile::kN});
    typename Mma::FragmentC accumulators;
    accumulators.clear();
    Mma mma(shared.main_loop, thread, warp, lane);
    mma(p.steps, accumulators, iterator_a, iterator_b, accumulators, p.steps_per_channel);
    Epilogue epilogue(p.visitors, shared.epilogue, thread, warp, lane);
    const auto shape = cute::make_shape(std::int32_t(p.extents.m()), std::int32_t(p.extents.n()), std::int32_t(1));
    epilogue(accumulators, tile, shape, thread);
  }
};

}  // namespace unisono::evt
