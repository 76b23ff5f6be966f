// What a CTA has of a tile: all of it, or a part of its k, where tiles are fewer than the CTAs that the chip has room
// for. Items are tiles, or the parts of one after those of another.
#pragma once
#include "unisono/mma/split_k.cuh"
#include "unisono/params/sm80_conv_params.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

struct WholeTiles {
  static constexpr bool kWaits = false;
  static UNISONO_DEVICE int items(const ConvGeometry& g) { return g.tiles; }
  static UNISONO_DEVICE int tile_of(const ConvGeometry&, int item) { return item; }
  static UNISONO_DEVICE Range steps_of(const ConvGeometry&, int, int steps) { return {0, steps}; }
  template <class Tail>
  static UNISONO_DEVICE bool collect(const SplitParams&, const ConvGeometry&, int, int, const Tail&) {
    return true;
  }
};

// geometry.splits parts of a tile, all in flight at once. The first part's CTA adds the others' sums to its own, in
// their order, and has the epilogue.
struct SplitTiles {
  static constexpr bool kWaits = true;
  static UNISONO_DEVICE int items(const ConvGeometry& g) { return g.tiles * g.splits; }
  static UNISONO_DEVICE int tile_of(const ConvGeometry& g, int item) { return divided(item, g.by_splits); }
  static UNISONO_DEVICE int part_of(const ConvGeometry& g, int item) { return item - tile_of(g, item) * g.splits; }
  static UNISONO_DEVICE Range steps_of(const ConvGeometry& g, int item, int steps) {
    const int part = part_of(g, item);
    return {divided(steps * part, g.by_splits), divided(steps * (part + 1), g.by_splits)};
  }
  // By a warpgroup of that many: whether it has the epilogue.
  template <class Tail>
  static UNISONO_DEVICE bool collect(const SplitParams& p, const ConvGeometry& g, int item, int warpgroups,
                                     const Tail& tail) {
    const int part = part_of(g, item), others = g.splits - 1;
    const size_t first = size_t(tile_of(g, item)) * others * warpgroups + int(threadIdx.x) / 128;
    if (part > 0) {
      give_partial(p, first + (part - 1) * warpgroups, tail.acc, tail.epoch, tail.thread, tail.barrier);
    } else {
      for (int i = 0; i < others; ++i)
        add_partial(p, first + i * warpgroups, tail.acc, tail.epoch, tail.thread, tail.barrier);
    }
    return part == 0;
  }
};

}  // namespace unisono
