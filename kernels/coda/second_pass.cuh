// The second pass of a normalisation whose tiles do not wait in registers, by the consumers between their tiles. A warp
// takes the rows that it stored itself, centred by their units' means, normalises them and stores them: 16 rows x
// kSlice channels at a time in its staging buffers. Deferred: they still lie there. Streamed: the copy engine loads them
// back. Nothing but the image's statistics comes from other warpgroups.
#pragma once
#include "epilogue.cuh"

namespace coda {

// Eight neighbouring channels of one row of each of the visitor's tensor operands [i, Visitor::kTensors).
template <class Visitor, int i, bool kAny> struct Octets {
    typename decltype(Visitor::template tensor<i>(*static_cast<const typename Visitor::Params*>(nullptr)))::Octet own;
    Octets<Visitor, i + 1, (i + 1 < Visitor::kTensors)> rest;
    CODA_DEVICE void load(const typename Visitor::Params& p, u64 offset) { own = Visitor::template tensor<i>(p).octet(offset), rest.load(p, offset); }
    CODA_DEVICE void pair(int w, float* x, float* y) const {
        const float2 both = own.pair(w);
        *x = both.x, *y = both.y;
        rest.pair(w, x + 1, y + 1);
    }
};
template <class Visitor, int i> struct Octets<Visitor, i, false> {
    CODA_DEVICE void load(const typename Visitor::Params&, u64) {}
    CODA_DEVICE void pair(int, float*, float*) const {}
};

template <class Config, class Visitor> struct SecondPass {
    using First = Epilogue<Config, Visitor>;
    using At = typename First::At;
    static constexpr int kN = First::kN, kSlice = First::kSlice, kSlices = First::kSlices, kSlabBytes = First::kSliceBytes;
    static constexpr int kLanesPerRow = kSlice / 8;               // 16 bytes a lane
    static constexpr int kRowsAtOnce = smaller(16, 32 / kLanesPerRow);
    static constexpr int kPieces = 16 / kRowsAtOnce;              // of a slab, a lane
    static constexpr int kSteps = First::kStoresPerTile;          // slabs of a tile and warp
    static constexpr int kBuffers = First::kStoreBuffers;
    static constexpr int kLaterGroups = kSteps * (First::kSide == SideStore::kBefore ? 2 : 1);  // bulk groups of the next tile's first pass
    static constexpr int kCentres = divide_up(kN, 32);            // channels a lane
    // Shared memory of a warpgroup: columns (mean, factor, shift, the visitor's, four warps' offsets, the
    // deferred tile's centres), barriers of the slabs.
    static constexpr int kColumns = 3 + Visitor::kColumnsAfter;
    static constexpr int kFirstTensor = Visitor::kTensorsBefore, kTensors = Visitor::kTensors - kFirstTensor;
    static constexpr int kBarrierOffset = (kColumns + 4 + (First::kApart ? 1 : 0)) * kN * 4;
    static constexpr int kBytes = divide_up(kBarrierOffset + 4 * kBuffers * 8, 16) * 16;

    const First& first;
    u8* const memory;
    int image = -1, first_channel = -1;  // what the columns hold
    u32 rounds = 0;                      // that every slab has been loaded

    CODA_DEVICE float* column(int i) const { return reinterpret_cast<float*>(memory) + i * kN; }
    CODA_DEVICE float* offsets() const { return column(kColumns + first.thread / 32); }
    CODA_DEVICE u8* slab(int i) const { return first.staging(first.thread / 32) + i * kSlabBytes; }
    CODA_DEVICE u32 loaded(int i) const { return shared_address(memory + kBarrierOffset) + (first.thread / 32 * kBuffers + i) * 8; }

    // By one thread of the block, ahead of a fence and a barrier of the block.
    static CODA_DEVICE void init_barriers(u8* memory) {
        for (int i = 0; i < 4 * kBuffers; ++i) mbarrier_init(shared_address(memory + kBarrierOffset) + 8 * i, 1);
    }

    CODA_DEVICE void load_columns(int n) const {
        if constexpr (Visitor::kColumnsAfter > 0) {
            float values[Visitor::kColumnsAfter];
            Visitor::columns_after(first.visitor, first.uniform, image, first_channel + n, values);
#pragma unroll
            for (int i = 0; i < Visitor::kColumnsAfter; ++i) column(3 + i)[n] = values[i];
        }
    }

    // The image's statistics, unless the tile before had the same; by the whole warpgroup. False: not complete yet.
    template <bool kWait> CODA_DEVICE bool prepare(const At& at) {
        if (at.image == image && at.first_channel == first_channel) return true;
        image = -1;
        const ConvGeometry& g = first.geometry;
        if (!First::kApart && (first.thread & 31) == 0) tma_store_wait_read<0>();  // the staging buffers serve as scratch
        first.sync();
        constexpr int kEach = divide_up(kN, 128);  // channels a thread; their operands are on their way while it waits
        typename Visitor::Late late[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i)
            late[i] = Visitor::late(first.visitor, first.uniform, at.image, smaller(at.first_channel + first.thread + 128 * i, g.channels - 1));
        const bool complete = group_statistics<kWait, kN, First::kScratch, First::kUnit>(
            first.norm, at.image, at.first_channel, g.channels, first.epoch, at.slot == 0, reinterpret_cast<Moments*>(first.moments(0)), first.votes,
            first.thread, first.barrier, first.trace,
            [&](int i, int n, float mean, float variance) {
                const float2 affine = Visitor::affine(late[i], first.uniform, mean, variance);
                column(0)[n] = mean, column(1)[n] = affine.x, column(2)[n] = affine.y;
            },
            [&](int group, float mean, float variance) { first.record(at.image, group, mean, variance); });
        if (!complete) return false;
        image = at.image, first_channel = at.first_channel;
        if constexpr (Visitor::kColumnsAfter > 0) {
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int n = first.thread + 128 * i;
                if (n < kN && first_channel + n < g.channels) load_columns(n);
            }
            first.sync();
        }
        return true;
    }

    // The deferred tile's centres, once its values are kept; by the whole warpgroup.
    CODA_DEVICE void keep_centres() const {
        for (int n = first.thread; n < kN; n += 128) column(kColumns + 4)[n] = first.columns()[First::kMean * kN + n];
    }

    // The deferred tile.
    CODA_DEVICE void run_deferred(const At& at) {
        prepare<true>(at);
        const int warp = first.thread / 32, lane = first.thread & 31;
        for (int n = lane; n < kN; n += 32) offsets()[n] = fmaf(column(kColumns + 4)[n] - column(0)[n], column(1)[n], column(2)[n]);
        __syncwarp();
        const Chunk chunk(*this, lane);
#pragma unroll 2
        for (int step = 0; step < kSteps; ++step) finish(at, chunk, step % First::kBlocks * kSlices + step / First::kBlocks, step, warp, lane);
    }

    // What the eight channels of this lane need: read once a tile where each lane keeps its channels, else once a slab.
    struct Chunk {
        static constexpr bool kOnce = kSlices == 1 && Visitor::kColumnsAfter <= 1;
        float2 factor[4], offset[4];
        float columns[8][larger(1, Visitor::kColumnsAfter)];
        Chunk() = default;
        CODA_DEVICE Chunk(const SecondPass& pass, int lane) {
            if (kOnce) read(pass, 8 * (lane % kLanesPerRow));
        }
        CODA_DEVICE void read(const SecondPass& pass, int n) {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                factor[w] = *reinterpret_cast<const float2*>(pass.column(1) + n + 2 * w);
                offset[w] = *reinterpret_cast<const float2*>(pass.offsets() + n + 2 * w);
            }
#pragma unroll
            for (int c = 0; c < Visitor::kColumnsAfter; ++c)
#pragma unroll
                for (int i = 0; i < 8; ++i) columns[i][c] = pass.column(3 + c)[n + i];
        }
    };

    // Normalises slab i, which holds step `step` of the tile, and stores it.
    CODA_DEVICE void finish(const At& at, const Chunk& chunk, int i, int step, int warp, int lane) const {
        const int m = 64 * (step % First::kBlocks) + 16 * warp, slice = step / First::kBlocks * kSlice;
        normalise(at, chunk, slab(i), m, slice, lane);
        fence_async_shared();
        __syncwarp();
        if (lane == 0) First::store_slice(first.fixed.output, slab(i), at, m, slice), tma_store_commit();
    }

    // kLater: this warp has committed the stores of the next tile too. False: the image is not complete yet.
    template <bool kWait, bool kLater> CODA_DEVICE bool run(const At& at) {
        if (!prepare<kWait>(at)) return false;
        const int warp = first.thread / 32, lane = first.thread & 31;
        const int units = first.geometry.channels / First::kUnit;
        const Entry* slot = first.norm.slots + (size_t(at.image) * first.norm.slots_per_image + at.slot) * units;
        if (lane == 0) {
            delay_point();
            tma_store_wait<kLater ? kLaterGroups : 0>();  // the tile is written
            tma_store_wait_read<0>();               // the buffers are free
            fence_async_global();
        }
        Chunk chunk;
#pragma unroll 1
        for (int base = 0; base < kSteps; base += kBuffers, ++rounds) {
            if (lane == 0) {
                if (base > 0) tma_store_wait_read<0>();
#pragma unroll
                for (int i = 0; i < kBuffers && i < kSteps; ++i)
                    if (base + i < kSteps) load(at, base + i, i, warp);
            }
            if (base == 0) load_offsets(slot, lane);
            __syncwarp();
            if (base == 0) chunk = Chunk(*this, lane);
#pragma unroll
            for (int i = 0; i < kBuffers && i < kSteps; ++i) {
                const int step = base + i;
                if (step >= kSteps) break;
                mbarrier_wait(loaded(i), rounds & 1);
                finish(at, chunk, i, step, warp, lane);
            }
            if (kSteps % kBuffers != 0 && base + kBuffers > kSteps)  // keep the unused barriers in step
                if (lane == 0)
                    for (int i = kSteps % kBuffers; i < kBuffers; ++i) mbarrier_arrive(loaded(i));
        }
        return true;
    }

    CODA_DEVICE void load(const At& at, int step, int i, int warp) const {
        const int m = 64 * (step % First::kBlocks) + 16 * warp;
        mbarrier_arrive_expect(loaded(i), kSlabBytes);
        tma_load_4d(shared_address(slab(i)), first.fixed.output, loaded(i), at.first_channel + step / First::kBlocks * kSlice,
                    at.rows.store_x(m), at.rows.store_y(m), at.image);
    }

    // y = stored * factor + offset, with offset = (what the unit was centred by - mean) * factor + shift
    CODA_DEVICE void load_offsets(const Entry* slot, int lane) const {
        float centre[kCentres];
#pragma unroll
        for (int i = 0; i < kCentres; ++i)
            centre[i] = __uint_as_float(load_whole(slot + smaller(first_channel + lane + 32 * i, first.geometry.channels - 1) / First::kUnit).x);
#pragma unroll
        for (int i = 0; i < kCentres; ++i) {
            const int n = lane + 32 * i;
            if (n < kN) offsets()[n] = fmaf(centre[i] - column(0)[n], column(1)[n], column(2)[n]);
        }
    }

    // 16 rows from m of the tile, kSlice channels from `slice` of the tile, in place. Rows and channels outside the output
    // are computed too, from zeros; the store drops them.
    CODA_DEVICE void normalise(const At& at, Chunk columns, u8* slab, int m, int slice, int lane) const {
        const int chunk = lane % kLanesPerRow, first_row = lane / kLanesPerRow, n = slice + 8 * chunk;
        if (first_row >= 16) return;
        uint4 raw[kPieces];
        Octets<Visitor, kFirstTensor, (kTensors > 0)> tensors[kPieces] = {};
        constexpr bool kSide = First::kSide == SideStore::kAfter;
        auto at_row = [&](int i) {
            const int row = i * kRowsAtOnce + first_row;
            return reinterpret_cast<uint4*>(slab + SliceSwizzle<kSlice>::offset(row, chunk));
        };
        auto exists = [&](int i) { return at.rows.valid(m + i * kRowsAtOnce + first_row) && at.first_channel + n < first.geometry.channels; };
        auto offset_of = [&](int i) {
            return (u64(at.image) * first.geometry.rows + at.rows.pixel(m + i * kRowsAtOnce + first_row)) * first.geometry.channels + at.first_channel + n;
        };
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            raw[i] = *at_row(i);
            if (kTensors > 0 && exists(i)) tensors[i].load(first.visitor, offset_of(i));
        }
        if (!Chunk::kOnce) columns.read(*this, n);
        u32 words[kPieces][4], beside[kPieces][kSide ? 4 : 1];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const float2 stored = Visitor::Output::unpack(word_of(raw[i], w));
                const float x = fmaf(stored.x, columns.factor[w].x, columns.offset[w].x), y = fmaf(stored.y, columns.factor[w].y, columns.offset[w].y);
                float tensor[2][larger(1, kTensors)];
                tensors[i].pair(w, tensor[0], tensor[1]);
                words[i][w] = Visitor::Output::pack(Visitor::after(x, 0.f, columns.columns[2 * w], tensor[0], first.uniform),
                                                    Visitor::after(y, 0.f, columns.columns[2 * w + 1], tensor[1], first.uniform));
                if constexpr (kSide)
                    beside[i][w] = Visitor::Side::pack(Visitor::side(x, columns.columns[2 * w], tensor[0], first.uniform), Visitor::side(y, columns.columns[2 * w + 1], tensor[1], first.uniform));
            }
        }
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            *at_row(i) = {words[i][0], words[i][1], words[i][2], words[i][3]};
            if constexpr (kSide)
                if (exists(i)) *reinterpret_cast<uint4*>(static_cast<u16*>(first.fixed.side_memory) + offset_of(i)) = {beside[i][0], beside[i][1], beside[i][2], beside[i][3]};
        }
    }

    static CODA_DEVICE u32 word_of(const uint4& v, int w) { return w == 0 ? v.x : w == 1 ? v.y : w == 2 ? v.z : v.w; }
};

}  // namespace coda
