// Two products of one A with an epilogue of visitors that read both accumulators: CUTLASS 2.x has main loops of one.
#pragma once
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/threadblock/epilogue_base.h>
#include <cutlass/gemm/gemm.h>
#include <cutlass/epilogue/threadblock/fusion/visitors.hpp>

#include <cstdint>

namespace unisono::evt {

// What visitors are handed as the accumulator of an element
struct Accumulators {
  float first, second;
};

// threadblock::VisitorAccFetch of one of the two
template <float Accumulators::*Which>
struct AccumulatorFetch : cutlass::epilogue::threadblock::VisitorImpl2x<> {
  using cutlass::epilogue::threadblock::VisitorImpl2x<>::VisitorImpl2x;

  struct Callbacks : cutlass::epilogue::threadblock::EmptyCallbacks {
    template <int N>
    CUTLASS_DEVICE cutlass::Array<float, N> visit(int, int, int, int, const cutlass::Array<Accumulators, N>& both) {
      cutlass::Array<float, N> values;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < N; ++i) values[i] = both[i].*Which;
      return values;
    }
  };

  template <class ProblemShape>
  CUTLASS_DEVICE auto get_callbacks(cutlass::gemm::GemmCoord, int, ProblemShape) {
    return Callbacks{};
  }
};
using FirstAccumulator = AccumulatorFetch<&Accumulators::first>;
using SecondAccumulator = AccumulatorFetch<&Accumulators::second>;

// threadblock::EpilogueWithVisitorCallbacks for two accumulators: in each step both pass through shared memory, to the
// threads that visit them
template <class Default, class Visitors_>
struct EpilogueOfTwo
    : cutlass::epilogue::threadblock::EpilogueBase<typename Default::Shape, typename Default::WarpMmaOperator::Shape,
                                                   Default::kPartitionsK, typename Default::AccumulatorFragmentIterator,
                                                   typename Default::WarpTileIterator, typename Default::Padding,
                                                   Default::kFragmentsPerIteration> {
  using Base =
      cutlass::epilogue::threadblock::EpilogueBase<typename Default::Shape, typename Default::WarpMmaOperator::Shape,
                                                   Default::kPartitionsK, typename Default::AccumulatorFragmentIterator,
                                                   typename Default::WarpTileIterator, typename Default::Padding,
                                                   Default::kFragmentsPerIteration>;
  using Visitors = Visitors_;
  using FragmentIterator = typename Default::AccumulatorFragmentIterator;
  using LoadIterator = typename Default::SharedLoadIterator;
  static_assert(Default::kPartitionsK == 1 && Default::kFragmentsPerIteration == 1, "a step is one fragment of a warp");

  static constexpr int kSteps = Default::OutputTileIterator::kIterations, kWidth = Default::kElementsPerAccess;
  static constexpr int kColumns = LoadIterator::ThreadMap::Iterations::kColumn;
  static constexpr int kPieces = LoadIterator::Fragment::kElements / kWidth;  // of a thread's rows, in a step
  static_assert(kSteps * kPieces * kWidth == Base::AccumulatorTile::kElements, "every accumulator is visited once");
  static constexpr int kApart = int(sizeof(typename Base::SharedStorage) / sizeof(float));

  struct SharedStorage {
    typename Base::SharedStorage accumulators[2];
    typename Visitors::SharedStorage visitors;
  };

  LoadIterator loads;
  Visitors visitors;

  CUTLASS_DEVICE EpilogueOfTwo(const typename Visitors::Params& params, SharedStorage& shared, int thread, int warp,
                               int lane)
      : Base(shared.accumulators[0], thread, warp, lane),
        loads(shared.accumulators[0].reference(), thread),
        visitors(params, shared.visitors) {}

  CUTLASS_DEVICE void store(FragmentIterator& from) {
    typename FragmentIterator::Fragment fragment;
    from.load(fragment);
    ++from;
    this->warp_tile_iterator_.store(fragment);
  }

  template <class ProblemShape>
  CUTLASS_DEVICE void operator()(const typename Base::AccumulatorTile& first,
                                 const typename Base::AccumulatorTile& second, cutlass::gemm::GemmCoord tile,
                                 ProblemShape shape, int thread) {
    auto callbacks = visitors.get_callbacks(tile, thread, shape);
    callbacks.begin_epilogue();
    FragmentIterator of_first(first), of_second(second);
    CUTLASS_PRAGMA_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      callbacks.begin_step(step);
      __syncthreads();  // the step before has been read
      store(of_first);
      this->warp_tile_iterator_.add_pointer_offset(kApart);
      store(of_second);
      this->warp_tile_iterator_.add_pointer_offset(-kApart);
      __syncthreads();
      typename LoadIterator::Fragment values0, values1;
      loads.load(values0);
      loads.add_pointer_offset(kApart);
      loads.load(values1);
      loads.add_pointer_offset(-kApart);
      CUTLASS_PRAGMA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        const int row = piece / kColumns, column = piece % kColumns;
        cutlass::Array<Accumulators, kWidth> both;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kWidth; ++i) both[i] = {values0[piece * kWidth + i], values1[piece * kWidth + i]};
        if (column == 0) callbacks.begin_row(row);
        callbacks.visit(step, row, column, piece, both);
        if (column + 1 == kColumns) callbacks.end_row(row);
      }
      callbacks.end_step(step);
    }
    callbacks.end_epilogue();
  }
};

// A CTA computes one tile (m, n): first = A · B0, second = A · B1, one main loop after the other, then the visitors. A
// is read twice, the second time mostly from L2.
template <class Mma_, class Epilogue_, class Swizzle>
struct DualWithVisitors {
  using Mma = Mma_;
  using Epilogue = Epilogue_;
  using Visitors = typename Epilogue::Visitors;
  using IteratorA = typename Mma::IteratorA;
  using IteratorB = typename Mma::IteratorB;
  using Tile = typename Mma::Shape;
  static constexpr int kThreadCount = 32 * Mma::WarpCount::kCount;

  struct Operand {
    const void* memory;
    std::int64_t pitch, step;  // elements from row to row, and from matrix to matrix
  };

  struct Params {
    cutlass::gemm::GemmCoord extents;  // (m, n, k)
    cutlass::gemm::GemmCoord tiles;    // and matrices
    int swizzle_log_tile;
    typename IteratorA::Params iterator_a;
    typename IteratorB::Params iterator_b;
    const typename IteratorA::Element* a;
    const typename IteratorB::Element* b[2];
    std::int64_t step_a, step_b;
    typename Visitors::Params visitors;

    Params(const cutlass::gemm::GemmCoord& of, int batch, const Operand& left, const Operand& right, const void* right1,
           const typename Visitors::Arguments& arguments)
        : extents(of),
          tiles(Swizzle::get_tiled_shape(of, {Tile::kM, Tile::kN, Tile::kK}, batch)),
          swizzle_log_tile(Swizzle::get_log_tile(tiles)),
          iterator_a(typename IteratorA::Layout(left.pitch)),
          iterator_b(typename IteratorB::Layout(right.pitch)),
          a(static_cast<const typename IteratorA::Element*>(left.memory)),
          b{static_cast<const typename IteratorB::Element*>(right.memory),
            static_cast<const typename IteratorB::Element*>(right1)},
          step_a(left.step),
          step_b(right.step),
          visitors(Visitors::to_underlying_arguments(of, arguments, nullptr)) {}

    dim3 grid() const { return Swizzle::get_grid_shape(tiles); }
  };

  union SharedStorage {
    typename Mma::SharedStorage main_loop;
    typename Epilogue::SharedStorage epilogue;
  };

  // What is loaded 16 bytes at a time begins at a multiple of them
  static cutlass::Status can_implement(const Operand& left, const Operand& right, const void* right1) {
    constexpr std::int64_t of_a = IteratorA::AccessType::kElements, of_b = IteratorB::AccessType::kElements;
    const auto is_placed = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0; };
    const bool placed = is_placed(left.memory) && is_placed(right.memory) && is_placed(right1);
    const bool strided =
        left.pitch % of_a == 0 && left.step % of_a == 0 && right.pitch % of_b == 0 && right.step % of_b == 0;
    return placed && strided ? cutlass::Status::kSuccess : cutlass::Status::kErrorMisalignedOperand;
  }

  CUTLASS_DEVICE static void multiply(const Params& p, SharedStorage& shared, const cutlass::gemm::GemmCoord& tile,
                                      const typename IteratorB::Element* b, typename Mma::FragmentC& sums) {
    const int thread = int(threadIdx.x), warp = cutlass::canonical_warp_idx_sync(), lane = thread % 32;
    const int m = p.extents.m(), n = p.extents.n(), k = p.extents.k();
    IteratorA iterator_a(p.iterator_a, const_cast<typename IteratorA::Element*>(p.a) + tile.k() * p.step_a, {m, k},
                         thread, {tile.m() * Tile::kM, 0});
    IteratorB iterator_b(p.iterator_b, const_cast<typename IteratorB::Element*>(b) + tile.k() * p.step_b, {k, n},
                         thread, {0, tile.n() * Tile::kN});
    sums.clear();
    Mma mma(shared.main_loop, thread, warp, lane);
    mma((k + Tile::kK - 1) / Tile::kK, sums, iterator_a, iterator_b, sums);
    __syncthreads();  // what comes next writes to the same shared memory
  }

  CUTLASS_DEVICE static void invoke(const Params& p, SharedStorage& shared) {
    const cutlass::gemm::GemmCoord tile = Swizzle::get_tile_offset(p.swizzle_log_tile);
    if (tile.m() >= p.tiles.m() || tile.n() >= p.tiles.n()) return;
    typename Mma::FragmentC first, second;
    multiply(p, shared, tile, p.b[0], first);
    multiply(p, shared, tile, p.b[1], second);
    const int thread = int(threadIdx.x), warp = cutlass::canonical_warp_idx_sync();
    Epilogue epilogue(p.visitors, shared.epilogue, thread, warp, thread % 32);
    const auto shape =
        cute::make_shape(std::int32_t(p.extents.m()), std::int32_t(p.extents.n()), std::int32_t(p.tiles.k()));
    epilogue(first, second, tile, shape, thread);
  }
};

}  // namespace unisono::evt
