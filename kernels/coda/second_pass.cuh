// The second pass of a streamed normalisation, by a warpgroup of its own beside the consumers. Each of its warps loads
// back the rows that the same warp of a consumer stored, centred by their units' means, normalises them and stores
// them in place: 16 rows x kSlice channels at a time through a ring of shared-memory slabs, loads and stores by the copy
// engine. It waits for the image's statistics and for that warp's stores; nothing waits for it.
#pragma once
#include "epilogue.cuh"

namespace coda {

template <class Config, class Visitor> struct SecondPass {
    using First = Epilogue<Config, Visitor>;
    using Element = typename Config::Element;
    using At = typename First::At;
    static constexpr int kN = First::kN, kSlice = First::kSlice, kSlabBytes = First::kSliceBytes;
    static constexpr int kLanesPerRow = kSlice / 8;               // 16 bytes a lane
    static constexpr int kRowsAtOnce = smaller(16, 32 / kLanesPerRow);
    static constexpr int kPieces = 16 / kRowsAtOnce;              // of a slab, a lane
    static constexpr int kSteps = First::kStoresPerTile;          // slabs of a tile and warp
    static constexpr int kRing = 4, kAhead = kRing - 2;           // slabs a warp; loads in flight; one store being read
    static constexpr int kScratch = larger(128, kN + 126);
    static constexpr int kCentres = divide_up(kN, 32);            // channels a lane
    // Shared memory: the ring, its barriers, then columns: mean, factor (scale times rstd), shift, the visitor's, four
    // warps' offsets; scratch.
    static constexpr int kColumns = 3 + Visitor::kColumns;
    static constexpr int kRingBytes = divide_up(4 * kRing * kSlabBytes, 1024) * 1024;
    static constexpr int kBarrierBytes = 4 * kRing * 8;
    static constexpr int kBytes = kRingBytes + kBarrierBytes + (kColumns + 4) * kN * 4 + kScratch * int(sizeof(Moments));

    const TensorMap& output;
    const ConvGeometry& geometry;
    const GroupNormParams& norm;
    const typename Visitor::Params& visitor;
    u8* const memory;
    const int thread, barrier;
    const u32 epoch;
    Trace trace;
    int image = -1, first_channel = -1;  // what the columns hold

    CODA_DEVICE float* column(int i) const { return reinterpret_cast<float*>(memory + kRingBytes + kBarrierBytes) + i * kN; }
    CODA_DEVICE float* offsets() const { return column(kColumns + thread / 32); }
    CODA_DEVICE u8* slab(u32 number) const { return memory + (thread / 32 * kRing + number % kRing) * kSlabBytes; }
    CODA_DEVICE u32 loaded(u32 number) const { return shared_address(memory + kRingBytes) + (thread / 32 * kRing + number % kRing) * 8; }

    // By one thread of the block, ahead of a fence and a barrier of the block.
    static CODA_DEVICE void init_barriers(u8* memory) {
        for (int i = 0; i < 4 * kRing; ++i) mbarrier_init(shared_address(memory + kRingBytes) + 8 * i, 1);
    }

    template <int i = 0> CODA_DEVICE void load_columns(int n) const {
        if constexpr (i < Visitor::kColumns) {
            column(3 + i)[n] = Visitor::template column<i>(visitor, image, first_channel + n);
            load_columns<i + 1>(n);
        }
    }

    // Waits for the image's statistics, unless the tile before had the same.
    CODA_DEVICE void prepare(const At& at) {
        if (at.image == image && at.first_channel == first_channel) return;
        image = at.image, first_channel = at.first_channel;
        named_barrier(barrier, 128);  // every warp is done with the columns
        group_statistics<kN, kScratch>(norm, image, first_channel, geometry.channels, epoch, at.slot == 0,
                                       reinterpret_cast<Moments*>(column(kColumns + 4)), column(0), column(1), thread, barrier);
        for (int n = thread; n < kN && first_channel + n < geometry.channels; n += 128) {
            column(1)[n] *= Visitor::scale(visitor, image, first_channel + n);
            column(2)[n] = Visitor::shift(visitor, image, first_channel + n);
            load_columns(n);
        }
        named_barrier(barrier, 128);
    }

    // What the tile's channels were centred by, this lane's; false if the tile's slot is not written yet.
    CODA_DEVICE bool load_centres(const At& at, float (&centre)[kCentres]) const {
        const int units = geometry.channels / norm.unit_channels;
        const uint4* slot = norm.slots + (size_t(at.image) * norm.slots_per_image + at.slot) * units;
        uint4 entry[kCentres];
#pragma unroll
        for (int i = 0; i < kCentres; ++i)
            entry[i] = load_whole(slot + smaller(at.first_channel + int(thread & 31) + 32 * i, geometry.channels - 1) / norm.unit_channels);
        bool written = true;
#pragma unroll
        for (int i = 0; i < kCentres; ++i) centre[i] = __uint_as_float(entry[i].x), written &= entry[i].w == epoch + 1;
        return __all_sync(~0u, written);
    }

    // All tiles of this block: place(v) is the v-th, of consumer v % 2; `stored` counts the tiles a consumer warp has stored.
    template <class PlaceOf> CODA_DEVICE void run(int visits, const PlaceOf& place, const u32* stored) {
        const int warp = thread / 32, lane = thread & 31;
        const u32 slabs = u32(visits) * kSteps;
        u32 next = 0;            // the next slab to load
        At load_at = place(0);
        float centre[kCentres];
        bool have_centres = false;

        auto load_ahead = [&](u32 now) {  // by lane 0
            while (next < slabs && next <= now + kAhead) {
                const int visit = next / kSteps, step = next % kSteps;
                if (step == 0) {
                    const u32 word = shared_address(stored + 4 * (visit % 2) + warp);
                    if (next > now && load_acquire_shared(word) < u32(visit / 2 + 1)) return;
                    Watchdog watchdog;
                    while (load_acquire_shared(word) < u32(visit / 2 + 1)) __nanosleep(200), watchdog.tick();
                    load_at = place(visit);
                    fence_async_global();
                }
                tma_store_wait_read<1>();  // the slab kRing before this one is free: at most the last store is still read
                const int m = 64 * (step % First::kBlocks) + 16 * warp;
                mbarrier_arrive_expect(loaded(next), kSlabBytes);
                tma_load_4d(shared_address(slab(next)), output, loaded(next), load_at.first_channel + step / First::kBlocks * kSlice,
                            load_at.rows.store_x(m), load_at.rows.store_y(m), load_at.image);
                ++next;
            }
        };

        u32 now = 0;
        for (int visit = 0; visit < visits; ++visit) {
            trace.tile = visit;
            trace.mark(0);
            const At at = place(visit);
            prepare(at);
            trace.mark(1);
            if (lane == 0) load_ahead(now);
            __syncwarp();
            Watchdog watchdog;
            while (!have_centres) have_centres = load_centres(at, centre), watchdog.tick();
            // y = stored * factor + offset, with offset = (centre - mean) * factor + shift
#pragma unroll
            for (int i = 0; i < kCentres; ++i) {
                const int n = lane + 32 * i;
                if (n < kN) offsets()[n] = fmaf(centre[i] - column(0)[n], column(1)[n], column(2)[n]);
            }
            __syncwarp();
            have_centres = visit + 1 < visits && load_centres(place(visit + 1), centre);
            trace.mark(2);
#pragma unroll 1
            for (int step = 0; step < kSteps; ++step, ++now) {
                if (lane == 0) load_ahead(now);
                __syncwarp();
                mbarrier_wait(loaded(now), now / kRing & 1);
                const int m = 64 * (step % First::kBlocks) + 16 * warp, slice = step / First::kBlocks * kSlice;
                normalise(at, slab(now), m, slice, lane);
                fence_async_shared();
                __syncwarp();
                if (lane == 0) {
                    tma_store_4d(output, shared_address(slab(now)), at.first_channel + slice, at.rows.store_x(m), at.rows.store_y(m), at.image);
                    tma_store_commit();
                }
            }
            trace.mark(3);
        }
        if (lane == 0) tma_store_wait_read<0>();
        __syncwarp();
    }

    template <int i = 0> CODA_DEVICE void load_tensors(const At& at, int m, int channel, uint4 (&words)[larger(1, Visitor::kTensors)]) const {
        if constexpr (i < Visitor::kTensors) {
            const u64 offset = (u64(at.image) * geometry.rows + at.rows.pixel(m)) * geometry.channels + channel;
            if (at.rows.valid(m) && channel < geometry.channels)
                words[i] = __ldg(reinterpret_cast<const uint4*>(static_cast<const u16*>(Visitor::template tensor<i>(visitor)) + offset));
            load_tensors<i + 1>(at, m, channel, words);
        }
    }

    // 16 rows from m of the tile, kSlice channels from `slice` of the tile, in place. Rows and channels outside the output
    // are computed too, from zeros; the store drops them.
    CODA_DEVICE void normalise(const At& at, u8* slab, int m, int slice, int lane) const {
        constexpr int kRowBytes = kSlice * 2;
        constexpr int kShift = kRowBytes == 128 ? 0 : kRowBytes == 64 ? 1 : 2, kMask = kRowBytes / 16 - 1;
        const int chunk = lane % kLanesPerRow, first = lane / kLanesPerRow, n = slice + 8 * chunk;
        if (first >= 16) return;
        uint4 raw[kPieces], tensors[kPieces][larger(1, Visitor::kTensors)];
        auto at_row = [&](int i) {
            const int row = i * kRowsAtOnce + first;
            return reinterpret_cast<uint4*>(slab + row * kRowBytes + ((chunk ^ (row >> kShift & kMask)) << 4));
        };
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            raw[i] = *at_row(i);
            load_tensors(at, m + i * kRowsAtOnce + first, at.first_channel + n, tensors[i]);
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
                words[i][w] = Element::pack(Visitor::after(fmaf(pair.x, factor.x, offset.x), columns[0], tensor[0], visitor),
                                            Visitor::after(fmaf(pair.y, factor.y, offset.y), columns[1], tensor[1], visitor));
            }
        }
#pragma unroll
        for (int i = 0; i < kPieces; ++i) *at_row(i) = {words[i][0], words[i][1], words[i][2], words[i][3]};
    }

    static CODA_DEVICE u32 word_of(const uint4& v, int w) { return w == 0 ? v.x : w == 1 ? v.y : w == 2 ? v.z : v.w; }
};

}  // namespace coda
