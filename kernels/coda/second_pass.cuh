// The second pass of a streamed normalisation, by a warpgroup of its own beside the consumers: each of its warps
// re-reads the rows that the same warp of a consumer stored, centred by their tile's channel means, normalises them
// and stores them in place. It waits for the image's statistics and for that warp's stores; nothing waits for it.
#pragma once
#include "epilogue.cuh"

namespace coda {

template <class Config, class Visitor> struct SecondPass {
    using First = Epilogue<Config, Visitor>;
    using Element = typename Config::Element;
    using At = typename First::At;
    static constexpr int kN = First::kN, kSlice = First::kSlice;
    static constexpr int kLanesPerRow = kSlice / 8;              // 16 bytes a lane
    static constexpr int kRowsAtOnce = smaller(16, 32 / kLanesPerRow);
    static constexpr int kLoads = 16 / kRowsAtOnce;              // a lane, in 16 rows of a slice
    static constexpr int kScratch = larger(128, kN + 126);
    static constexpr u32 kNowhere = ~0u;
    // Columns in shared memory: mean, factor (scale times rstd), shift, the visitor's; then four warps' offsets.
    static constexpr int kColumns = 3 + Visitor::kColumns;
    static constexpr int kBytes = (kColumns + 4) * kN * 4 + kScratch * int(sizeof(Moments));

    const ConvGeometry& geometry;
    const GroupNormParams& norm;
    const typename Visitor::Params& visitor;
    u16* const output;
    float* const memory;
    const int thread, barrier;
    const u32 epoch;
    Trace trace;
    int image = -1, first_channel = -1;  // what the columns hold

    CODA_DEVICE float* column(int i) const { return memory + i * kN; }
    CODA_DEVICE float* offsets() const { return memory + (kColumns + thread / 32) * kN; }

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

    template <int i = 0> CODA_DEVICE void load_tensors(u64 offset, uint4 (&words)[larger(1, Visitor::kTensors)]) const {
        if constexpr (i < Visitor::kTensors) {
            words[i] = __ldg(reinterpret_cast<const uint4*>(static_cast<const u16*>(Visitor::template tensor<i>(visitor)) + offset));
            load_tensors<i + 1>(offset, words);
        }
    }

    // `stored`: the word by which the consumer warp counts its stored tiles; `tiles`: how many it must show.
    CODA_DEVICE void run(const At& at, u32 stored, u32 tiles) {
        trace.mark(0);
        prepare(at);
        trace.mark(1);
        const int warp = thread / 32, lane = thread & 31;
        Watchdog watchdog;
        while (load_acquire_shared(stored) < tiles) watchdog.tick();
        fence_async_global();
        trace.mark(2);

        // A step is 16 rows of a slice, kLoads pieces a lane; the next step's loads are in flight.
        const int chunk = lane % kLanesPerRow, row = lane / kLanesPerRow;
        const u32 channels = geometry.channels;
        u16* const base = output + u64(at.image) * geometry.rows * channels + first_channel;
        u32 where[First::kBlocks][kLoads];  // elements from the base, or kNowhere
#pragma unroll
        for (int b = 0; b < First::kBlocks; ++b)
#pragma unroll
            for (int i = 0; i < kLoads; ++i) {
                const int m = 64 * b + 16 * warp + i * kRowsAtOnce + row;
                where[b][i] = row < 16 && at.rows.valid(m) ? u32(at.rows.pixel(m)) * channels + 8 * chunk : kNowhere;
            }
        uint4 values[2][kLoads];
        auto load = [&](int step) {
            const int slice = step / First::kBlocks, b = step % First::kBlocks;
#pragma unroll
            for (int i = 0; i < kLoads; ++i)
                if (where[b][i] != kNowhere && first_channel + slice * kSlice + 8 * chunk < channels)
                    values[step % 2][i] = load_l2(reinterpret_cast<const uint4*>(base + slice * kSlice + where[b][i]));
        };
        load(0);
        // y = stored * factor + offset, with offset = (what the tile was centred by - mean) * factor + shift
        const int units = channels / norm.unit_channels;
        const uint4* slot = norm.slots + (size_t(at.image) * norm.slots_per_image + at.slot) * units;
        for (int n = lane; n < kN && first_channel + n < channels; n += 32) {
            const float centre = __uint_as_float(load_whole(slot + (first_channel + n) / norm.unit_channels).x);
            offsets()[n] = fmaf(centre - column(0)[n], column(1)[n], column(2)[n]);
        }
        __syncwarp();
        trace.mark(3);
        constexpr int kSteps = First::kSlices * First::kBlocks;
        float factor[8], offset[8];  // of this lane's channels in the slice
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const int slice = step / First::kBlocks, b = step % First::kBlocks, n = slice * kSlice + 8 * chunk;
            if (step + 1 < kSteps) load(step + 1);
            if (b == 0)
#pragma unroll
                for (int k = 0; k < 8; ++k) factor[k] = column(1)[n + k], offset[k] = offsets()[n + k];
#pragma unroll
            for (int i = 0; i < kLoads; ++i) {
                if (where[b][i] == kNowhere || first_channel + n >= channels) continue;
                u16* const to = base + slice * kSlice + where[b][i];
                uint4 tensors[larger(1, Visitor::kTensors)];
                load_tensors(u64(to - output), tensors);
                *reinterpret_cast<uint4*>(to) = normalise(values[step % 2][i], factor, offset, n, tensors);
            }
        }
        trace.mark(4);
        __syncwarp();  // the offsets are free
    }

    CODA_DEVICE uint4 normalise(const uint4& raw, const float (&factor)[8], const float (&offset)[8], int n, const uint4 (&tensors)[larger(1, Visitor::kTensors)]) const {
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const float2 pair = Element::unpack(words[w]);
            float columns[2][larger(1, Visitor::kColumns)], tensor[2][larger(1, Visitor::kTensors)];
#pragma unroll
            for (int c = 0; c < Visitor::kColumns; ++c)
                columns[0][c] = column(3 + c)[n + 2 * w], columns[1][c] = column(3 + c)[n + 2 * w + 1];
#pragma unroll
            for (int t = 0; t < Visitor::kTensors; ++t) {
                const u32 word = w == 0 ? tensors[t].x : w == 1 ? tensors[t].y : w == 2 ? tensors[t].z : tensors[t].w;
                const float2 both = Element::unpack(word);
                tensor[0][t] = both.x, tensor[1][t] = both.y;
            }
            words[w] = Element::pack(Visitor::after(fmaf(pair.x, factor[2 * w], offset[2 * w]), columns[0], tensor[0], visitor),
                                     Visitor::after(fmaf(pair.y, factor[2 * w + 1], offset[2 * w + 1]), columns[1], tensor[1], visitor));
        }
        return {words[0], words[1], words[2], words[3]};
    }
};

}  // namespace coda
