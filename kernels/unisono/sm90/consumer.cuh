// What a consumer warpgroup does tile by tile, and what the spare warps of the producer's warpgroup do meanwhile.
#pragma once
#include "unisono/epilogue/normalise.cuh"
#include "unisono/sm90/conv_kernel.cuh"

namespace unisono {

// The accumulators of a tile. Where the main loop has room for them, operands of its epilogue are fetched meanwhile.
template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::multiply_tile(const ConvParams& p, Tail& tail, Accumulators& acc,
                                                              u32 shared, const Barriers& barriers, u32 done, int loads,
                                                              int rank, int member, int group, bool first_tile,
                                                              const At& at) {
  const ConvGeometry& g = p.geometry;
  const int first_row = member * Config::kWarpgroupRows;
  if constexpr (kDirect)
    Direct<Config>::multiply(acc, Gatherer::of(p, nullptr), at.rows, at.image, at.first_channel, tail.thread);
  else {
    Either<kSpread, SpreadFetch<Tail>, NothingSpread> spread(tail, at, loads * (kHaloTile ? g.taps_h * g.taps_w : 1));
    multiply(acc, g, shared, barriers, done, loads, rank, first_row, group ^ 1, first_tile, Voids::of_rows(g, at.rows),
             spread);
    spread.finish();
  }
}

// Split-K: the first part of a tile adds up the others', which only hand theirs over. Whether this is the first.
template <class Config, class Visitor>
UNISONO_DEVICE bool ConvFprop<Config, Visitor>::join_parts(const ConvParams& p, Tail& tail, Accumulators& acc, int item,
                                                           int member, u32 epoch) {
  const ConvGeometry& g = p.geometry;
  const int rest = part(g, item);
  const size_t base = size_t(tile_of(g, item)) * (g.splits - 1) * kTileWarpgroups + member;
  if (rest > 0) {
    give_partial(p.split, base + (rest - 1) * kTileWarpgroups, acc, epoch, tail.thread, tail.barrier);
    return false;
  }
  for (int other = 0; other < g.splits - 1; ++other)
    add_partial(p.split, base + other * kTileWarpgroups, acc, epoch, tail.thread, tail.barrier);
  return true;
}

template <class Tail>
UNISONO_DEVICE void end_tile(Tail& tail, Trace& trace) {
  trace.mark(5);
  ++trace.tile;
  tail.sync();  // the columns are about to be overwritten
}

// The epilogue of a tile whose accumulators are complete, by the way of normalising: not at all;
template <class Kernel, Norm kNorm>
struct TileEnd {
  using Tail = typename Kernel::Tail;
  UNISONO_DEVICE TileEnd(Tail&, int) {}
  template <class... Others>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int, int, Others&&...) {
    store_normalised(tail, at);
    if (Tail::kMoments > 0) tail.reduce_and_publish(at);
    end_tile(tail, trace);
  }
};
// by stages of reductions;
template <class Kernel>
struct TileEnd<Kernel, Norm::kGeneral> {
  using Tail = typename Kernel::Tail;
  typename Kernel::Spilled spilled;
  UNISONO_DEVICE TileEnd(Tail& tail, int consumer) : spilled{tail, consumer} {}
  template <class HeldTile, class... Others>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int i, int,
                             const HeldTile& held_tile, Others&&...) {
    spilled.add(at, i, held_tile);
    end_tile(tail, trace);
  }
};
// over the channels of rows, at once
template <class Kernel, bool kDeferred>
struct RowsEnd {
  using Tail = typename Kernel::Tail;
  template <class... Others>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int, int, Others&&...) {
    apply_before(tail, at);
    trace.mark(3);
    store_normalised(tail, at);
    end_tile(tail, trace);
  }
};
// or after the next tile's main loop, during which the other tiles of the row publish what they have of it;
template <class Kernel>
struct RowsEnd<Kernel, true> {
  using Tail = typename Kernel::Tail;
  static constexpr int kRows = Tail::Fragment::kThreadRows;
  typename Kernel::Accumulators waiting = {};
  RowTriple published[kRows] = {};
  typename Kernel::At before{};
  bool waits = false;

  template <class... Others>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int, int, Others&&...) {
    apply_before(tail, at);
    RowTriple own[kRows];
    RowStatistics<Tail>{tail, at}.publish(own);
    trace.mark(3);
    exchange(tail.acc);
    tail.set ^= Tail::kColumns * Tail::kN * 4;
    if (waits) store_normalised(tail, before, published);
#pragma unroll
    for (int r = 0; r < kRows; ++r) published[r] = own[r];
    before = at, waits = true;
    end_tile(tail, trace);
  }
  // The last tile's row.
  UNISONO_DEVICE void drain(Tail& tail) {
    if (!waits) return;
    exchange(tail.acc);
    tail.set ^= Tail::kColumns * Tail::kN * 4;
    store_normalised(tail, before, published);
  }
  UNISONO_DEVICE void exchange(typename Kernel::Accumulators& acc) {
#pragma unroll
    for (int b = 0; b < Tail::kAccBlocks; ++b)
#pragma unroll
      for (int i = 0; i < Tail::kAccCount; ++i) {
        const float x = as_float(acc[b][i]);
        acc[b][i] = as_float(waiting[b][i]), waiting[b][i] = x;
      }
  }
};
template <class Kernel>
struct TileEnd<Kernel, Norm::kRows> : RowsEnd<Kernel, Kernel::Tail::kDeferred> {
  UNISONO_DEVICE TileEnd(typename Kernel::Tail&, int) {}
};
// in registers, when the statistics of all tiles are there;
template <class Kernel>
struct TileEnd<Kernel, Norm::kResident> {
  using Tail = typename Kernel::Tail;
  UNISONO_DEVICE TileEnd(Tail&, int) {}
  template <class... Others>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int, int, Others&&...) {
    apply_before(tail, at);
    tail.reduce_and_publish(at);
    trace.mark(3);
    put_statistics<Tail::kStatisticsAtOnce>(typename Tail::Exchanged(), tail, at, [&] { trace.mark(6); });
    trace.mark(4);
    store_normalised(tail, at);
    end_tile(tail, trace);
  }
};
// later: the tile waits, and earlier ones make room for it.
template <class Kernel>
struct TileEnd<Kernel, Norm::kStreamed> {
  using Tail = typename Kernel::Tail;
  UNISONO_DEVICE TileEnd(Tail&, int) {}
  template <class HeldTile>
  UNISONO_DEVICE void finish(Tail& tail, Trace& trace, const typename Kernel::At& at, int i, int group,
                             const HeldTile& held_tile, typename Kernel::Again& again,
                             typename Kernel::Pending& pending, typename Kernel::At& before) {
    apply_before(tail, at);
    tail.reduce_and_publish(at);
    trace.mark(3);
    if (i > group) pending.template make_room<false>(again, held_tile, i - Kernel::kConsumerGroups, before, at);
    trace.mark(4);
    again.keep(at);
    before = at;
    end_tile(tail, trace);
  }
};

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::consume(const Params& params, u8* memory, u32 shared,
                                                        const Barriers& barriers, int rank, int consumer, u32 epoch) {
  const ConvParams& p = params.fixed;
  const ConvGeometry& g = p.geometry;
  const typename Visitor::Uniform uniform = Visitor::uniform(params.visitor);
  const int member = consumer % kTileWarpgroups, group = consumer / kTileWarpgroups;
  Accumulators acc;
  Trace trace{p.timeline};
  Tail tail{p,
            g,
            p.norm,
            params.visitor,
            uniform,
            memory + kOffsetTail + consumer * kWarpgroupBytes,
            int(threadIdx.x) % 128,
            1 + consumer,
            epoch,
            acc,
            trace,
            params.further(),
            barriers.fetched(consumer)};
  Again again{tail, consumer_group_memory(memory, group), own_memory(memory, consumer), barriers.columns(group)};
  const int first = blockIdx.x / kClusterCtas, step = gridDim.x / kClusterCtas;
  auto held_tile = [&](int i) { return warpgroup_tile(g, tile_of(g, first + i * step), rank, member); };
  auto loads = [&](int i) { return loads_of(g, first + i * step).count(); };
  u32 done = group ? loads(0) : 0;  // loads of this CTA before the item
  u32 order_parity = group == 0;    // the first is the first group's
  Pending pending{group, kByChannels || kConsumerGroups * step % g.tiles_n == 0};
  At before{};  // streamed: this consumer group's tile before
  TileEnd<ConvFprop, Config::kNorm> end(tail, consumer);

  for (int i = group; first + i * step < items(g);
       done += loads(i) + (kConsumerGroups > 1 ? loads(i + 1) : 0), i += kConsumerGroups) {
    const At at = held_tile(i);
    trace.mark(0);
    if (part(g, first + i * step) == 0) Fetches::open(tail, at);
    typename Tail::Columns columns;
    columns.load(tail, at);
    if (kConsumerGroups > 1 && !kDirect) {
      mbarrier_wait(barriers.order(group), order_parity);
      order_parity ^= 1;
    }
    trace.mark(1);
    multiply_tile(p, tail, acc, shared, barriers, done, loads(i), rank, member, group, i == group, at);
    trace.mark(2);
    if constexpr (kSplit)
      if (!join_parts(p, tail, acc, first + i * step, member, epoch)) continue;
    if constexpr (Tail::kLoaded > 0) columns.put(tail, at), tail.sync();  // on their way during the main loop
    end.finish(tail, trace, at, i, group, held_tile, again, pending, before);
  }
  if constexpr (kStreamed) {
    const int mine = divide_up(divide_up(items(g) - first, step) - group, kConsumerGroups);
    if (mine > 0) pending.drain(again, held_tile, group + (mine - 1) * kConsumerGroups, before);
  }
  if constexpr (Tail::kDeferred) end.drain(tail);
  if ((threadIdx.x & 31) == 0) tma_store_wait_read<0>();  // shared memory outlives the stores' reads
  __syncwarp();
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::assist(const Params& params, u8* memory, const Barriers& barriers,
                                                       int rank, int warp, u32 epoch) {
  const ConvParams& p = params.fixed;
  auto beside = ConversionOf<ConvFprop>::beside(params, memory, warp, epoch);
  if constexpr (kStreamed) {
    if (warp == 0) return merge_segments(p, rank, epoch, 0, 1, beside);
    const int group = warp - 1;
    if (group >= kConsumerGroups) return beside.finish();
    const typename Visitor::Uniform uniform = Visitor::uniform(params.visitor);
    typename Again::Preparer preparer{
        p,     params.visitor,       uniform, consumer_group_memory(memory, group), barriers.columns(group),
        epoch, int(threadIdx.x) & 31};
    const int step = gridDim.x / kClusterCtas;
    for (int item = blockIdx.x / kClusterCtas + group * step; item < items(p.geometry);
         item += kConsumerGroups * step) {
      const At at = warpgroup_tile(p.geometry, item, rank, 0);
      beside.through(at.image);
      preparer.prepare(at);
    }
    beside.finish();
  } else if constexpr (kExchange) {
    merge_segments(p, rank, epoch, warp, 4 - kProducers / 32, beside);
  } else {
    if constexpr (Tail::kDeferred) share_rows(p, rank, epoch, warp, 4 - kProducers / 32);
    beside.finish();
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::share_rows(const ConvParams& p, int rank, u32 epoch, int warp,
                                                           int warps) {
  const ConvGeometry& g = p.geometry;
  for (int item = blockIdx.x / kClusterCtas; item < items(g); item += gridDim.x / kClusterCtas)
    for (int member = 0; member < kTileWarpgroups; ++member)
      RowStatistics<Tail>::Exchange::of(p, warpgroup_tile(g, item, rank, member), 0, int(threadIdx.x) & 31, epoch,
                                        g.tiles_m * kClusterM * kTileWarpgroups, g.tiles_n * kClusterN)
          .share(warp, warps);
}

template <class Config, class Visitor>
template <class Beside>
UNISONO_DEVICE void ConvFprop<Config, Visitor>::merge_segments(const ConvParams& p, int rank, u32 epoch, int warp,
                                                               int warps, Beside& beside) {
  if (p.norm.segment_slots == 1) return beside.finish();
  const ConvGeometry& g = p.geometry;
  for (int item = blockIdx.x / kClusterCtas; item < items(g); item += gridDim.x / kClusterCtas)
    for (int member = 0; member < kTileWarpgroups; ++member) {
      if (part(g, item) > 0) break;
      const At at = warpgroup_tile(g, tile_of(g, item), rank, member);
      beside.through(at.image);
      merge_share<typename Tail::Statistic, typename Tail::PiecesOf>(p.norm, at.image, at.slot, at.first_channel,
                                                                     g.channels, epoch, warp, warps);
    }
  beside.finish();
}

}  // namespace unisono
