// Normalisation statistics shared by the blocks of one launch.
//
// Every warpgroup reduces the rows of its tile to (mean, M2) per channel and writes them to a slot of its own; M2 is the
// sum of squared deviations from the mean. The last of a segment's slots to arrive merges them to one; the last
// segment of an image merges the segments, then channels to groups, and raises the image's flag. Every merge is
// Chan's formula in index order, whoever performs it: no float atomics, the same bits each run. Counts follow
// from geometry and are not stored.
//
// Counters only grow. A launch has an epoch, read from the workspace; counter i is complete at (epoch + 1) * arrivals
// (modulo 2^32), and the last block out advances the epoch, so that a replay needs no memset.
#pragma once
#include "barrier.cuh"

namespace coda {

struct GroupNormParams {
    float2* slots;          // (images, slots, channels): mean and M2 over one warpgroup's rows
    float2* segments;       // (images, segments, channels); the same array as `slots` if a segment is one slot
    float2* totals;         // (images, channels): mean and M2 over the image
    float2* groups;         // (images, channels): mean and 1/sqrt(variance + eps) of the channel's group
    u32* segment_counters;  // (images, tiles_n, segments)
    u32* image_counters;    // (images)
    u32* image_flags;       // (images): epoch + 1 once `groups` holds this launch's values
    u32* epoch;             // one
    u32* exits;             // one: blocks that have left
    int slots_per_image, segment_slots, segments_per_image, slot_rows, group_channels;
    float epsilon;
    float *mean, *rstd;  // (images, channels / group_channels), or null
};

struct Moments {
    float count, mean, m2;
};

CODA_DEVICE void merge(Moments& into, float count, float mean, float m2) {
    const float total = into.count + count;
    const float share = total > 0.f ? __fdividef(count, total) : 0.f;
    const float delta = mean - into.mean;
    into.mean = fmaf(delta, share, into.mean);
    into.m2 = fmaf(delta * delta, into.count * share, into.m2 + m2);
    into.count = total;
}

// Merges `parts` consecutive parts of an image of `rows` rows, part i holding the rows [i, i+1) * part_rows.
CODA_DEVICE Moments merge_parts(const float2* part, int stride, int first, int parts, int part_rows, int rows) {
    Moments all{0.f, 0.f, 0.f};
    constexpr int kBatch = 8;  // loads in flight
    for (int base = 0; base < parts; base += kBatch) {
        float2 values[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (base + i < parts) values[i] = load_l2(part + size_t(base + i) * stride);
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (base + i < parts) {
                const int begin = (first + base + i) * part_rows;
                const int count = larger(0, smaller(part_rows, rows - begin));
                if (count > 0) merge(all, float(count), values[i].x, values[i].y);
            }
    }
    return all;
}

// One warpgroup's (mean, M2) of `kColumns` channels from accumulators in the matrix instruction's layout.
// Returns per warp, in warp_moments (4, kColumns), then merged over the warpgroup into slot columns.
template <int kBlocks, int kColumns, bool kMasked>
CODA_DEVICE void warp_moments(const float (&acc)[kBlocks][kColumns / 2], float2* moments, int first_row, int rows) {
    const int lane = threadIdx.x & 31;
    // Rows of this lane: first_row + 64*block + lane/4 + {0, 8}; valid where below `rows`.
    auto valid = [&](int i) { return !kMasked || first_row + 64 * (i / 2) + (lane >> 2) + 8 * (i & 1) < rows; };
    float count = 0.f;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) count += valid(i) ? 1.f : 0.f;
    const float inverse = count > 0.f ? __fdividef(1.f, count) : 0.f;

    // Butterfly over the eight lanes that hold a column's rows; each step halves the columns a lane keeps.
    // share: the partner's part of the joint count; weight: the factor of the squared difference.
    float share[3], weight[3], own = count;
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const float other = __shfl_xor_sync(~0u, own, 16 >> step);
        share[step] = own + other > 0.f ? __fdividef(other, own + other) : 0.f;
        weight[step] = own * share[step];
        own += other;
    }

    constexpr int kBatch = 8;  // columns a lane reduces at once: four column pairs, 32 columns of the tile
#pragma unroll
    for (int batch = 0; batch < divide_up(kColumns, 32); ++batch) {
        float mean[kBatch], m2[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
            mean[k] = m2[k] = 0.f;
            const int pair = 4 * batch + k / 2;
            if (pair >= kColumns / 8) continue;
            float sum = 0.f;
#pragma unroll
            for (int i = 0; i < 2 * kBlocks; ++i)
                if (valid(i)) sum += acc[i / 2][4 * pair + 2 * (i & 1) + (k & 1)];
            mean[k] = sum * inverse;
#pragma unroll
            for (int i = 0; i < 2 * kBlocks; ++i)
                if (valid(i)) {
                    const float deviation = acc[i / 2][4 * pair + 2 * (i & 1) + (k & 1)] - mean[k];
                    m2[k] = fmaf(deviation, deviation, m2[k]);
                }
        }
#pragma unroll
        for (int step = 0; step < 3; ++step) {
            const int half = kBatch >> (step + 1);
            const bool upper = lane & (16 >> step);
#pragma unroll
            for (int k = 0; k < half; ++k) {
                const float kept_mean = upper ? mean[k + half] : mean[k], sent_mean = upper ? mean[k] : mean[k + half];
                const float kept_m2 = upper ? m2[k + half] : m2[k], sent_m2 = upper ? m2[k] : m2[k + half];
                const float delta = __shfl_xor_sync(~0u, sent_mean, 16 >> step) - kept_mean;
                m2[k] = fmaf(delta * delta, weight[step], kept_m2 + __shfl_xor_sync(~0u, sent_m2, 16 >> step));
                mean[k] = fmaf(delta, share[step], kept_mean);
            }
        }
        // This lane now holds k = 4*bit4 + 2*bit3 + bit2 of its batch.
        const int k = (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
        const int column = 32 * batch + 8 * (k >> 1) + 2 * (lane & 3) + (k & 1);
        if (column < kColumns) moments[column] = {mean[0], m2[0]};
    }
}

// Where a slot lies: image, its number in the image, and the tile's place among the channels.
struct SlotPlace {
    int image, slot, tile_n, tiles_n, first_channel;
};

// Merges an image's segments to `groups` and to mean and rstd; by one warpgroup.
CODA_DEVICE void finish_image(const GroupNormParams& p, int image, int rows, int channels, int thread, int barrier) {
    const int segment_rows = p.segment_slots * p.slot_rows;
    const float2* segments = p.segments + size_t(image) * p.segments_per_image * channels;
    float2* totals = p.totals + size_t(image) * channels;
    for (int c = thread; c < channels; c += 128) {
        const Moments m = merge_parts(segments + c, channels, 0, p.segments_per_image, segment_rows, rows);
        totals[c] = {m.mean, m.m2};
    }
    named_barrier(barrier, 128);
    const int groups = channels / p.group_channels;
    for (int g = thread; g < groups; g += 128) {
        Moments m{0.f, 0.f, 0.f};
        for (int i = 0; i < p.group_channels; ++i) {
            const float2 t = totals[g * p.group_channels + i];
            merge(m, float(rows), t.x, t.y);
        }
        const float rstd = rsqrtf(m.m2 / m.count + p.epsilon);
        for (int i = 0; i < p.group_channels; ++i)
            p.groups[size_t(image) * channels + g * p.group_channels + i] = {m.mean, rstd};
        if (p.mean) p.mean[size_t(image) * groups + g] = m.mean;
        if (p.rstd) p.rstd[size_t(image) * groups + g] = rstd;
    }
}

// After the warpgroup's slot is written: signals, and merges what this arrival completes. `barrier` is a named
// barrier of the warpgroup; `vote` a word of shared memory of the warpgroup.
template <int kColumns>
CODA_DEVICE void publish_slot(const GroupNormParams& p, SlotPlace at, int rows, int channels, u32 epoch, int thread,
                              int barrier, u32* vote) {
    const int segment = at.slot / p.segment_slots;
    const int first = segment * p.segment_slots;
    const int arrivals = smaller(p.segment_slots, p.slots_per_image - first);
    bool last = true;
    named_barrier(barrier, 128);  // the slot is written by all threads
    if (p.segment_slots > 1) {
        if (thread == 0) {
            __threadfence();
            u32* counter = p.segment_counters + (size_t(at.image) * at.tiles_n + at.tile_n) * p.segments_per_image + segment;
            *vote = add_acquire_release(counter, 1) + 1 == (epoch + 1) * arrivals;
            __threadfence();
        }
        named_barrier(barrier, 128);
        last = *vote;
        if (last) {
            const float2* slots = p.slots + (size_t(at.image) * p.slots_per_image + first) * channels;
            float2* merged = p.segments + (size_t(at.image) * p.segments_per_image + segment) * channels;
            for (int n = thread; n < kColumns; n += 128) {
                const int c = at.first_channel + n;
                if (c >= channels) break;
                const Moments m = merge_parts(slots + c, channels, first, arrivals, p.slot_rows, rows);
                merged[c] = {m.mean, m.m2};
            }
        }
        named_barrier(barrier, 128);
    }
    if (!last) return;
    if (thread == 0) {
        __threadfence();
        *vote = add_acquire_release(p.image_counters + at.image, 1) + 1 ==
                (epoch + 1) * u32(at.tiles_n * p.segments_per_image);
        __threadfence();
    }
    named_barrier(barrier, 128);
    if (!*vote) return;
    finish_image(p, at.image, rows, channels, thread, barrier);
    named_barrier(barrier, 128);
    if (thread == 0) {
        __threadfence();
        store_release(p.image_flags + at.image, epoch + 1);
    }
}

CODA_DEVICE bool image_ready(const GroupNormParams& p, int image, u32 epoch) {
    return load_acquire(p.image_flags + image) == epoch + 1;
}

// Called by one thread of each block after all its warps are done with counters.
CODA_DEVICE void leave_launch(const GroupNormParams& p, u32 epoch) {
    u32 before;  // the counter wraps to 0 at the last block, whatever the grid
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(p.exits), "r"(gridDim.x - 1) : "memory");
    if (before == gridDim.x - 1) store_release(p.epoch, epoch + 1);
}

}  // namespace coda
