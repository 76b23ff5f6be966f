// The second pass of a normalisation whose tiles do not wait in registers, by the consumers between their tiles. A warp
// takes the rows that it stored itself, centred by their units' means, normalises them and stores them: 16 rows x
// kSlice channels at a time in its staging buffers. Deferred: they still lie there. Streamed: the copy engine loads them
// back. Nothing but the image's statistics comes from other warpgroups.
#pragma once
#include "epilogue.cuh"

namespace coda {

template <class Config, class Visitor> struct SecondPass {
    using First = Epilogue<Config, Visitor>;
    using Element = typename Config::Element;
    using At = typename First::At;
    static constexpr int kN = First::kN, kSlice = First::kSlice, kSlices = First::kSlices, kSlabBytes = First::kSliceBytes;
    static constexpr int kLanesPerRow = kSlice / 8;               // 16 bytes a lane
    static constexpr int kRowsAtOnce = smaller(16, 32 / kLanesPerRow);
    static constexpr int kPieces = 16 / kRowsAtOnce;              // of a slab, a lane
    static constexpr int kSteps = First::kStoresPerTile;          // slabs of a tile and warp
    static constexpr int kBuffers = First::kStoreBuffers;
    static constexpr int kCentres = divide_up(kN, 32);            // channels a lane
    // Shared memory of a warpgroup: columns (mean, factor = scale times rstd, shift, the visitor's, four warps' offsets, the
    // deferred tile's centres), barriers of the slabs.
    static constexpr int kColumns = 3 + Visitor::kColumns;
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

    template <int i = 0> CODA_DEVICE void load_columns(int n) const {
        if constexpr (i < Visitor::kColumns) {
            column(3 + i)[n] = Visitor::template column<i>(first.visitor, image, first_channel + n);
            load_columns<i + 1>(n);
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
        float scale[kEach], shift[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int channel = smaller(at.first_channel + first.thread + 128 * i, g.channels - 1);
            scale[i] = Visitor::scale(first.visitor, at.image, channel), shift[i] = Visitor::shift(first.visitor, at.image, channel);
        }
        if (!group_statistics<kWait, kN, First::kScratch, First::kUnit>(first.norm, at.image, at.first_channel, g.channels, first.epoch, at.slot == 0,
                                                          reinterpret_cast<Moments*>(first.moments(0)), column(0), column(1), first.votes, first.thread, first.barrier))
            return false;
        image = at.image, first_channel = at.first_channel;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int n = first.thread + 128 * i;
            if (n >= kN || first_channel + n >= g.channels) break;
            column(1)[n] *= scale[i], column(2)[n] = shift[i];
            load_columns(n);
        }
        first.sync();
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
#pragma unroll 2
        for (int step = 0; step < kSteps; ++step) finish(at, step % First::kBlocks * kSlices + step / First::kBlocks, step, warp, lane);
    }

    // Normalises slab i, which holds step `step` of the tile, and stores it.
    CODA_DEVICE void finish(const At& at, int i, int step, int warp, int lane) const {
        const int m = 64 * (step % First::kBlocks) + 16 * warp, slice = step / First::kBlocks * kSlice;
        normalise(at, slab(i), m, slice, lane);
        fence_async_shared();
        __syncwarp();
        if (lane == 0) {
            tma_store_4d(first.output, shared_address(slab(i)), at.first_channel + slice, at.rows.store_x(m), at.rows.store_y(m), at.image);
            tma_store_commit();
        }
    }

    // kLater: this warp has committed the stores of the next tile too. False: the image is not complete yet.
    template <bool kWait, bool kLater> CODA_DEVICE bool run(const At& at) {
        if (!prepare<kWait>(at)) return false;
        const int warp = first.thread / 32, lane = first.thread & 31;
        const int units = first.geometry.channels / First::kUnit;
        const uint4* slot = first.norm.slots + (size_t(at.image) * first.norm.slots_per_image + at.slot) * units;
        if (lane == 0) {
            tma_store_wait<kLater ? kSteps : 0>();  // the tile is written
            tma_store_wait_read<0>();               // the buffers are free
            fence_async_global();
        }
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
#pragma unroll
            for (int i = 0; i < kBuffers && i < kSteps; ++i) {
                const int step = base + i;
                if (step >= kSteps) break;
                mbarrier_wait(loaded(i), rounds & 1);
                finish(at, i, step, warp, lane);
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
        tma_load_4d(shared_address(slab(i)), first.output, loaded(i), at.first_channel + step / First::kBlocks * kSlice,
                    at.rows.store_x(m), at.rows.store_y(m), at.image);
    }

    // y = stored * factor + offset, with offset = (what the unit was centred by - mean) * factor + shift
    CODA_DEVICE void load_offsets(const uint4* slot, int lane) const {
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

    template <int i = 0> CODA_DEVICE void load_tensors(const At& at, int m, int channel, uint4 (&words)[larger(1, Visitor::kTensors)]) const {
        if constexpr (i < Visitor::kTensors) {
            const u64 offset = (u64(at.image) * first.geometry.rows + at.rows.pixel(m)) * first.geometry.channels + channel;
            if (at.rows.valid(m) && channel < first.geometry.channels)
                words[i] = __ldg(reinterpret_cast<const uint4*>(static_cast<const u16*>(Visitor::template tensor<i>(first.visitor)) + offset));
            load_tensors<i + 1>(at, m, channel, words);
        }
    }

    // 16 rows from m of the tile, kSlice channels from `slice` of the tile, in place. Rows and channels outside the output
    // are computed too, from zeros; the store drops them.
    CODA_DEVICE void normalise(const At& at, u8* slab, int m, int slice, int lane) const {
        constexpr int kRowBytes = kSlice * 2;
        constexpr int kShift = kRowBytes == 128 ? 0 : kRowBytes == 64 ? 1 : 2, kMask = kRowBytes / 16 - 1;
        const int chunk = lane % kLanesPerRow, first_row = lane / kLanesPerRow, n = slice + 8 * chunk;
        if (first_row >= 16) return;
        uint4 raw[kPieces], tensors[kPieces][larger(1, Visitor::kTensors)];
        auto at_row = [&](int i) {
            const int row = i * kRowsAtOnce + first_row;
            return reinterpret_cast<uint4*>(slab + row * kRowBytes + ((chunk ^ (row >> kShift & kMask)) << 4));
        };
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            raw[i] = *at_row(i);
            load_tensors(at, m + i * kRowsAtOnce + first_row, at.first_channel + n, tensors[i]);
        }
        u32 words[kPieces][4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const float2 factor = *reinterpret_cast<const float2*>(column(1) + n + 2 * w);
            const float2 offset = *reinterpret_cast<const float2*>(offsets() + n + 2 * w);
            float columns[2][larger(1, Visitor::kColumns)];
#pragma unroll
            for (int c = 0; c < Visitor::kColumns; ++c) columns[0][c] = column(3 + c)[n + 2 * w], columns[1][c] = column(3 + c)[n + 2 * w + 1];
#pragma unroll
            for (int i = 0; i < kPieces; ++i) {
                const float2 pair = Element::unpack(word_of(raw[i], w));
                float tensor[2][larger(1, Visitor::kTensors)];
#pragma unroll
                for (int t = 0; t < Visitor::kTensors; ++t) {
                    const float2 both = Element::unpack(word_of(tensors[i][t], w));
                    tensor[0][t] = both.x, tensor[1][t] = both.y;
                }
                words[i][w] = Element::pack(Visitor::after(fmaf(pair.x, factor.x, offset.x), columns[0], tensor[0], first.visitor),
                                            Visitor::after(fmaf(pair.y, factor.y, offset.y), columns[1], tensor[1], first.visitor));
            }
        }
#pragma unroll
        for (int i = 0; i < kPieces; ++i) *at_row(i) = {words[i][0], words[i][1], words[i][2], words[i][3]};
    }

    static CODA_DEVICE u32 word_of(const uint4& v, int w) { return w == 0 ? v.x : w == 1 ? v.y : w == 2 ? v.z : v.w; }
};

}  // namespace coda
