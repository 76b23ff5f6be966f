// Conv2d forward as an implicit matrix product for sm_90a: persistent, warp-specialised, NHWC times KRSC.
//
// One producer warp fills a ring of shared-memory stages by the copy engine: activations by im2col loads, filters by
// tiled loads, each multicast along the cluster where blocks share it. Two consumer warpgroups multiply. Cooperative:
// each holds half of the tile's rows. Ping-pong: each holds a tile of its own and they take turns at the tensor
// cores, so that one's epilogue runs beside the other's main loop.
//
// A configuration is a struct:
//   using Element = Bf16 or F16;
//   static constexpr int kTileM, kTileN, kTileK;  // rows of a block's tile (of each warpgroup's in ping-pong); 32 or 64 deep
//   static constexpr int kStages, kStoreBuffers, kClusterM, kClusterN;
//   static constexpr bool kPingPong;
//   static constexpr int kWarpgroupRows;          // kTileM, or half of it if cooperative
//   static constexpr Norm kNorm;
#pragma once
#include "streamed.cuh"
#include "wgmma.cuh"

namespace coda {

template <class Config, class Visitor> struct ConvFprop {
    using Element = typename Config::Element;
    using Tail = Epilogue<Config, Visitor>;
    using Again = SecondPass<Config, Visitor>;
    static constexpr int kM = Config::kTileM, kN = Config::kTileN, kK = Config::kTileK;
    static constexpr int kStages = Config::kStages;
    static constexpr int kClusterM = Config::kClusterM, kClusterN = Config::kClusterN;
    static constexpr int kClusterBlocks = kClusterM * kClusterN;
    static constexpr int kBlocks = Config::kWarpgroupRows / 64;
    static constexpr bool kPingPong = Config::kPingPong;
    static constexpr int kThreads = 384;  // a producer warpgroup and two consumers
    static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;  // 40 + 2 * 232 = 504 = 3 * 168

    static constexpr int kBytesA = kM * kK * 2, kBytesB = kN * kK * 2, kRowBytes = kK * 2;
    static constexpr int kWarpgroupBytes = divide_up(Tail::kWarpgroupBytes, 1024) * 1024;
    static constexpr int kOffsetB = kStages * kBytesA;
    static constexpr int kOffsetTail = kOffsetB + kStages * kBytesB;
    static constexpr int kOffsetBarriers = kOffsetTail + 2 * kWarpgroupBytes;
    static constexpr int kSharedBytes = kOffsetBarriers + 8 * (2 * kStages + 2) + 16 + 1024;  // 1024: alignment
    static_assert(kSharedBytes <= 232448, "the tile, its stages and its epilogue exceed a block's shared memory");
    static_assert(kBytesB % 1024 == 0 && kBytesA % 1024 == 0, "stages keep the swizzle's alignment");

    struct Params {
        TensorMap activation, filter, output;
        ConvGeometry geometry;
        GroupNormParams norm;
        typename Visitor::Params visitor;
        u16* output_data;  // streamed mode reads it back
        u64* timeline;     // see Trace; null without CODA_TRACE
    };

    struct Barriers {
        u32 base;
        CODA_DEVICE u32 full(u32 stage) const { return base + 8 * stage; }
        CODA_DEVICE u32 empty(u32 stage) const { return base + 8 * (kStages + stage); }
        CODA_DEVICE u32 turn(int warpgroup) const { return base + 8 * (2 * kStages + warpgroup); }
    };

    static CODA_DEVICE void wait(u32 barrier, u32 parity) {
        if constexpr (kClusterBlocks > 1) mbarrier_wait_cluster(barrier, parity);
        else mbarrier_wait(barrier, parity);
    }

    static CODA_DEVICE void run(const Params& p) {
        extern __shared__ u8 unaligned[];
        u8* memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
        const u32 shared = shared_address(memory);
        const Barriers barriers{shared + kOffsetBarriers};
        const int warpgroup = threadIdx.x / 128, warp = threadIdx.x / 32;
        const int rank = kClusterBlocks > 1 ? int(cluster_rank()) : 0;
        const u32 epoch = Config::kNorm == Norm::kNone ? 0 : *reinterpret_cast<const volatile u32*>(p.norm.epoch);

        if (threadIdx.x == 0) {
            tma_prefetch(p.activation), tma_prefetch(p.filter), tma_prefetch(p.output);
            // A stage is free once the consumers of every block that shares a tile with this one have read it.
            const int readers = (kPingPong ? 4 : 8) * (kClusterM + kClusterN - 1);
            for (int s = 0; s < kStages; ++s) mbarrier_init(barriers.full(s), 1), mbarrier_init(barriers.empty(s), readers);
            for (int w = 0; w < 2; ++w) mbarrier_init(barriers.turn(w), 4);
            mbarrier_init_fence();
        }
        if constexpr (kClusterBlocks > 1) cluster_sync();
        else __syncthreads();

        if (warpgroup == 0) {
            register_release<kProducerRegisters>();
            if (warp == 0 && threadIdx.x == 0) produce(p, shared, barriers, rank);
        } else {
            register_acquire<kConsumerRegisters>();
            consume(p, memory, shared, barriers, rank, warpgroup - 1, epoch);
        }
        if constexpr (kClusterBlocks > 1) {
            __syncwarp();
            cluster_sync();  // no block leaves while another may still signal it or deliver to it
        } else {
            __syncthreads();
        }
        if (Config::kNorm != Norm::kNone && threadIdx.x == 0) leave_launch(p.norm, epoch);
    }

    static CODA_DEVICE void produce(const Params& p, u32 shared, const Barriers& barriers, int rank) {
        const ConvGeometry& g = p.geometry;
        const int rank_m = rank / kClusterN, rank_n = rank % kClusterN;
        u16 row_blocks = 0, column_blocks = 0;  // the blocks that share this one's activations, and its filters
        for (int i = 0; i < kClusterN; ++i) row_blocks |= 1 << (rank_m * kClusterN + i);
        for (int i = 0; i < kClusterM; ++i) column_blocks |= 1 << (i * kClusterN + rank_n);
        RingPosition<kStages> at(0);
        u32 turn_a = 0, turn_b = 0;  // the blocks of a cluster take turns at loading what they share

        for (int index = blockIdx.x / kClusterBlocks; index < g.tiles; index += gridDim.x / kClusterBlocks) {
            const Tile tile = tile_at<kClusterM, kClusterN>(g, index, rank);
            const int pixels = g.height * g.width;
            const int row = tile.tile_m * kM;
            const int image = tile.image + row / pixels;
            const int q = row % pixels % g.width, first_p = row % pixels / g.width;
            const int w = q * g.stride_w - g.pad_w, h = first_p * g.stride_h - g.pad_h;
            for (int r = 0; r < g.taps_h; ++r)
                for (int s = 0; s < g.taps_w; ++s)
                    for (int c = 0; c < g.channel_blocks; ++c) {
                        const u32 full = barriers.full(at.stage);
                        wait(barriers.empty(at.stage), at.parity ^ 1);
                        mbarrier_arrive_expect(full, kBytesA + kBytesB);
                        const Im2colCoordinates from{c * kK, w, h, image, u16(s * g.dilation_w), u16(r * g.dilation_h)};
                        const u32 to_a = shared + at.stage * kBytesA, to_b = shared + kOffsetB + at.stage * kBytesB;
                        if constexpr (kClusterN == 1) tma_load_im2col(to_a, p.activation, full, from);
                        else if (turn_a == u32(rank_n)) tma_load_im2col_multicast(to_a, p.activation, full, from, row_blocks);
                        if constexpr (kClusterM == 1) tma_load_3d(to_b, p.filter, full, c * kK, r * g.taps_w + s, tile.tile_n * kN);
                        else if (turn_b == u32(rank_m))
                            tma_load_3d_multicast(to_b, p.filter, full, c * kK, r * g.taps_w + s, tile.tile_n * kN, column_blocks);
                        if (++turn_a == kClusterN) turn_a = 0;
                        if (++turn_b == kClusterM) turn_b = 0;
                        at.advance();
                    }
        }
    }

    // acc = the tile's product over all k-blocks; releases each stage once read.
    static CODA_DEVICE void multiply(float (&acc)[kBlocks][kN / 2], u32 shared, const Barriers& barriers, RingPosition<kStages> at,
                                     int k_blocks, int rank, int first_row, int turn_to_give) {
        u32 previous = 0;
        const u64 base_a = operand_descriptor<kRowBytes>(shared + first_row * kRowBytes);
        const u64 base_b = operand_descriptor<kRowBytes>(shared + kOffsetB);
        for (int block = 0; block < k_blocks; ++block) {
            wait(barriers.full(at.stage), at.parity);
            const u64 stage_a = base_a + at.stage * (kBytesA >> 4), stage_b = base_b + at.stage * (kBytesB >> 4);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < kK / 16; ++k)
#pragma unroll
                for (int b = 0; b < kBlocks; ++b)
                    wgmma<Element, kN>(acc[b], stage_a + ((b * 64 * kRowBytes + k * 32) >> 4), stage_b + ((k * 32) >> 4), block | k);
            wgmma_commit();
            if (block > 0) {
                wgmma_wait<1>();
                release(barriers.empty(previous), rank);
            }
            previous = at.stage;
            at.advance();
        }
        if (kPingPong && (threadIdx.x & 31) == 0) mbarrier_arrive(barriers.turn(turn_to_give));
        wgmma_wait<0>();
        release(barriers.empty(previous), rank);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) wgmma_hold(acc[b]);
    }

    // One arrival a warp, at every block whose loads reach this one's stage.
    static CODA_DEVICE void release(u32 barrier, int rank) {
        const int lane = threadIdx.x & 31;
        if constexpr (kClusterBlocks == 1) {
            if (lane == 0) mbarrier_arrive(barrier);
        } else {
            const int rank_m = rank / kClusterN, rank_n = rank % kClusterN;
            if (lane < kClusterN) mbarrier_arrive_cluster(barrier, rank_m * kClusterN + lane);
            else if (lane < kClusterN + kClusterM && lane - kClusterN != rank_m)
                mbarrier_arrive_cluster(barrier, (lane - kClusterN) * kClusterN + rank_n);
        }
    }

    static CODA_DEVICE typename Tail::Place place_of(const ConvGeometry& g, const GroupNormParams& norm, int index, int rank, int warpgroup) {
        const Tile tile = tile_at<kClusterM, kClusterN>(g, index, rank);
        const int half = kPingPong ? 0 : warpgroup;
        const int slot = kPingPong ? tile.tile_m : 2 * tile.tile_m + half;
        return {tile.image, tile.tile_m * kM + half * Config::kWarpgroupRows, tile.tile_n * kN,
                {tile.image, slot, tile.tile_n, g.tiles_n * kClusterN, tile.tile_n * kN}};
    }

    static CODA_DEVICE void consume(const Params& p, u8* memory, u32 shared, const Barriers& barriers, int rank, int warpgroup, u32 epoch) {
        const ConvGeometry& g = p.geometry;
        float acc[kBlocks][kN / 2];
        u32* vote = reinterpret_cast<u32*>(memory + kOffsetBarriers + 8 * (2 * kStages + 2)) + warpgroup;
        Tail tail{p.output, g, p.norm, p.visitor, memory + kOffsetTail + warpgroup * kWarpgroupBytes, vote,
                  int(threadIdx.x) % 128, 1 + warpgroup, epoch, acc};
        const int first = blockIdx.x / kClusterBlocks, step = gridDim.x / kClusterBlocks;
        const int stride = kPingPong ? 2 : 1;  // in steps, from one tile of this warpgroup to its next
        const int k_blocks = g.k_blocks();
        int pending = kPingPong ? warpgroup : 0;  // streamed: the first of this warpgroup's tiles not yet normalised
        Trace trace{p.timeline};
        u32 turn_parity = warpgroup == 0;         // the first turn is the first warpgroup's

        for (int i = kPingPong ? warpgroup : 0; first + i * step < g.tiles; i += stride) {
            const auto at = place_of(g, p.norm, first + i * step, rank, warpgroup);
            trace.mark(0);
            tail.load_columns(at);
            tail.sync();
            if constexpr (kPingPong) {
                mbarrier_wait(barriers.turn(warpgroup), turn_parity);
                turn_parity ^= 1;
            }
            trace.mark(1);
            multiply(acc, shared, barriers, RingPosition<kStages>(u32(i) * k_blocks), k_blocks, rank,
                     kPingPong ? 0 : warpgroup * Config::kWarpgroupRows, warpgroup ^ 1);
            trace.mark(2);
            if constexpr (Config::kNorm == Norm::kNone) {
                tail.store_normalised(at);
            } else {
                tail.apply_before(at);
                tail.reduce_and_write_slot(at);
                trace.mark(3);
                if constexpr (Config::kNorm == Norm::kResident) {
                    tail.publish(at);
                    trace.mark(4);
                    tail.wait_for_image(at.image);
                    trace.mark(5);
                    tail.load_group_columns(at);
                    tail.store_normalised(at);
                } else {
                    tail.store_centred(at);
                    trace.mark(4);
                    tail.publish(at);
                    trace.mark(5);
                    for (int budget = 2; budget > 0 && pending < i; --budget) {
                        const auto earlier = place_of(g, p.norm, first + pending * step, rank, warpgroup);
                        if (!warp_sees_image(p.norm, earlier.image, epoch)) break;
                        Again::template run<1>(tail, earlier, p.output_data);
                        pending += stride;
                    }
                }
            }
            trace.mark(6);
            ++trace.tile;
            tail.sync();  // the columns are about to be overwritten
        }
        if constexpr (Config::kNorm == Norm::kStreamed)
            for (; first + pending * step < g.tiles; pending += stride) {
                const auto at = place_of(g, p.norm, first + pending * step, rank, warpgroup);
                Watchdog watchdog;
                while (!warp_sees_image(p.norm, at.image, epoch)) watchdog.tick();
                Again::template run<0>(tail, at, p.output_data);
            }
        if ((threadIdx.x & 31) == 0) tma_store_wait_read<0>();  // shared memory outlives the stores' reads
        __syncwarp();
    }

    static CODA_DEVICE bool warp_sees_image(const GroupNormParams& norm, int image, u32 epoch) {
        const bool ready = (threadIdx.x & 31) == 0 && image_ready(norm, image, epoch);
        return __shfl_sync(~0u, ready, 0);
    }
};

}  // namespace coda
