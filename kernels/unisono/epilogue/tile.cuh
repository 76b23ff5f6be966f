// What the parts of an epilogue know of a kernel, none of them its instructions: its Tile, the sums of one warpgroup
// and what becomes of them. Where kSwap is false, a Tile has
//
//   EpilogueVisitor, Fragment                epilogue/visitor.cuh, epilogue/fragment.cuh
//   Configuration                            kWide and kMeets of epilogue/general.cuh, kTileN, kWarpgroupRows
//   Norm kNorm, At                           epilogue/norm.cuh; WarpgroupTile
//   int kN, kPixels, kBlocks                 channels, rows, blocks of 64 rows
//   int kTogether                            neighbouring channels that exist together and lie aligned: 8, 2 or 1
//   int kSlice, kSlices                      channels that a warp stores, or reduces over its rows, at a time; slices
//   int kBefore, kAfter, kMean, kColumns     column values, at columns() + c * kN: the visitor's; mean, factor, shift
//   Ring<first, end, fetched>                operands [m,n] in the order of pairs: epilogue/tensors.cuh
//   Fetching<whether a pass reads any>       Fetch of epilogue/sm90_fetch.cuh, or NothingFetched
//   sync()                                   a barrier of the warpgroup
//   thread, acc, visitor, uniform, geometry, epoch, fixed.folds
//   memory + kFoldOffset                     shared memory of reductions: epilogue/general_needs.cuh
//   slots(), tiles_across()                  warpgroups' shares of an image's tiles of the same channels; tiles across
//
// A kernel whose tiles wait in memory (epilogue/general_spilled.cuh) also says
//
//   int kLoaded, waiting_memory()            columns that are loaded ahead; and its Configuration a CTA's tiles:
//                                            kConsumerGroups at a time, of kTileWarpgroups each, kClusterM x kClusterN
//                                            CTAs one number
//
// and it stores pairs of a slice, in the order of for_pairs_of_slice(), by TMA or by ordinary stores:
//
//   store_pairs<in order, fetches>(at, b, s, pairs)   epilogue/packed_pairs.cuh
//   store_main_pairs(at, slice, packed)
//   store_before(at, b, s, packed)           of the second store, before a normalisation
#pragma once
#include "unisono/epilogue/fragment.cuh"
#include "unisono/epilogue/norm.cuh"
#include "unisono/epilogue/visitor.cuh"
#include "unisono/ptx/arithmetic.cuh"

namespace unisono {

// What a pass over a tile does for operands that are fetched (Fetch of epilogue/sm90_fetch.cuh) where none are.
template <class Tile>
struct NothingFetched {
  using At = typename Tile::At;
  Tile& tile;
  template <class Tensors>
  UNISONO_DEVICE void await(int, Tensors&) const {}
  UNISONO_DEVICE void refill(const At&, int) const {}
  UNISONO_DEVICE void refill_read(const At&, int) const {}
};

// Calls f(x, y, columns of x, columns of y, tensors of x, tensors of y) for each pair of slice s of block b, in their
// order, with kOperands operands from `ring`, which loads ahead up to pair `end`. Of a dual product x, y are of the
// first; the second's come after the operands.
template <int kOperands, class Tile, class Tensors, class F>
UNISONO_DEVICE void for_pairs_of_slice(const Tile& tile, const typename Tile::At& at, int b, int s, Tensors& ring,
                                       int end, F&& f) {
  using Fragment = typename Tile::Fragment;
  constexpr int kColumns = Tile::kColumns, kTensors = larger(1, kOperands + Tile::kProducts - 1);
  int p = (b * Tile::kSlices + s) * (Tile::kSlice / 4);
#pragma unroll
  for (int i = 0; i < Tile::kSlice / 8; ++i) {
    const float* const columns = tile.columns() + Fragment::channel(tile.thread, p);
    float one[larger(1, kColumns)], two[larger(1, kColumns)];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float2 pair = *reinterpret_cast<const float2*>(columns + c * Tile::kN);
      one[c] = pair.x, two[c] = pair.y;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half, ++p) {
      float t1[kTensors] = {}, t2[kTensors] = {};
      ring.take(p, end, t1, t2, at);
#pragma unroll
      for (int i = 1; i < Tile::kProducts; ++i) {
        t1[kOperands + i - 1] = as_float(Fragment::value(tile.acc, p, 0, i));
        t2[kOperands + i - 1] = as_float(Fragment::value(tile.acc, p, 1, i));
      }
      f(Fragment::value(tile.acc, p, 0), Fragment::value(tile.acc, p, 1), one, two, t1, t2);
    }
  }
}

}  // namespace unisono
