// What becomes of a CTA's tiles once they are multiplied, number `item` of the launch's: add(item, at, columns) of
// each, in their order, then end(). All CTAs are in flight at once where tiles wait.
#pragma once
#include "unisono/epilogue/general_spilled.cuh"
#include "unisono/mma/sums.cuh"
#include "unisono/params/sm80_conv_params.cuh"

namespace unisono {

template <class Kernel>
UNISONO_DEVICE typename Kernel::At place_of_item(const ConvGeometry& g, int item) {
  return Kernel::place_of(g, Kernel::tile_of(g, item), int(threadIdx.x) / 128);
}

// They are finished at once, or wait in registers.
template <class Kernel>
struct TilesInRegisters {
  using Tail = typename Kernel::Tail;
  Tail& tail;
  UNISONO_DEVICE void add(int, const typename Tail::At& at, const typename Tail::Columns& columns) {
    tail.finish(at, columns);
  }
  UNISONO_DEVICE void end() {}
};

// Those whose image is not complete wait in memory: every thread finds its own sums again, in f32; of a dual product
// the first's, in whose place is what waits. A CTA publishes the statistics of its tiles one after another, in the
// order of images. When it comes to the next image, or to its end, it waits for the one before: all its own tiles of
// that are published by then, and so they are, or soon will be, in all other CTAs, which wait for earlier images at
// most.
template <class Kernel>
struct TilesInMemory {
  using Tail = typename Kernel::Tail;
  using At = typename Tail::At;
  static constexpr int kQuads = Tail::kN / 8;

  Tail& tail;
  int first = int(blockIdx.x);  // that waits

  UNISONO_DEVICE float4* place(int item) const {
    return static_cast<float4*>(tail.waiting_memory()) +
           (size_t(item) * (Kernel::kThreads / 128) + threadIdx.x / 128) * (Tail::kBlocks * kQuads * 128) + tail.thread;
  }
  UNISONO_DEVICE At at(int item) const { return place_of_item<Kernel>(tail.geometry, item); }

  UNISONO_DEVICE void add(int item, const At& at, const typename Tail::Columns& columns) {
    tail.publish(at, columns);
    store_sums<kQuads>(place(item), tail.acc);
    complete_ahead_of(at.image);
  }
  UNISONO_DEVICE void end() { complete_ahead_of(tail.geometry.images); }

  // The tiles of images before `image`.
  UNISONO_DEVICE void complete_ahead_of(int image) {
    const int items = tail.geometry.tiles, step = gridDim.x;
    int end = first;
    for (; end < items && at(end).image < image; end += step) tail.share(at(end));
    for (; first < end; first += step) {
      const At of = at(first);
      typename Tail::Columns columns;
      columns.load(tail, of);
      load_sums<kQuads>(place(first), tail.acc);
      tail.open(of, columns);
      tail.complete(of);
    }
  }
};

// Accumulators of a general epilogue wait in memory for reductions of their row, of their image, or of all.
template <class Kernel>
struct AccumulatorsInMemory {
  using Tail = typename Kernel::Tail;
  using At = typename Tail::At;
  SpilledTiles<Tail> spilled;
  int number = 0;  // of this CTA's tiles
  UNISONO_DEVICE explicit AccumulatorsInMemory(Tail& tail) : spilled{tail, int(threadIdx.x) / 128} {}

  UNISONO_DEVICE void add(int, const At& at, const typename Tail::Columns& columns) {
    const ConvGeometry& g = spilled.tail.geometry;
    spilled.tail.open(at, columns);
    spilled.add(at, number++, [&](int i) { return place_of_item<Kernel>(g, blockIdx.x + i * gridDim.x); });
  }
  UNISONO_DEVICE void end() {}
};

template <class Kernel, class Config>
using TilesThatWait = Either<Config::kNorm == Norm::kStreamed, TilesInMemory<Kernel>,
                             Either<Spills<Config>::kValue, AccumulatorsInMemory<Kernel>, TilesInRegisters<Kernel>>>;

}  // namespace unisono
