// Mean and M2 (the sum of squared deviations from the mean) of accumulators, merged by Chan's formula: no cancellation,
// whatever the offset of the values.
#pragma once
#include "types.cuh"

namespace coda {

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

// One warp's (mean, M2) of each of kColumns channels over its rows, from accumulators in the matrix instruction's
// layout, to moments[kColumns] in shared memory. kMasked: rows that do not exist are left out.
template <int kBlocks, int kColumns, bool kMasked, class Rows>
CODA_DEVICE void warp_moments(const float (&acc)[kBlocks][kColumns / 2], float2* moments, const Rows& rows, int warp) {
    constexpr int kRows = 2 * kBlocks;  // of a lane
    static_assert((kRows & (kRows - 1)) == 0, "the tree of sums needs a power of two of rows");
    const int lane = threadIdx.x & 31;
    auto valid = [&](int i) { return !kMasked || rows.valid(64 * (i / 2) + 16 * warp + (lane >> 2) + 8 * (i & 1)); };
    float count = 0.f;
#pragma unroll
    for (int i = 0; i < kRows; ++i) count += valid(i) ? 1.f : 0.f;
    const float inverse = count > 0.f ? __fdividef(1.f, count) : 0.f;

    // Butterfly over the eight lanes that hold a column's rows; each step halves the columns a lane keeps.
    // share: the partner's part of the joint count; weight: the factor of the squared difference.
    float share[3], weight[3], own = count;
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const float other = kMasked ? __shfl_xor_sync(~0u, own, 16 >> step) : own;
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
            auto value = [&](int i) { return acc[i / 2][4 * pair + 2 * (i & 1) + (k & 1)]; };
            if constexpr (kMasked) {
                float sum = 0.f;
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    if (valid(i)) sum += value(i);
                mean[k] = sum * inverse;
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    if (valid(i)) {
                        const float deviation = value(i) - mean[k];
                        m2[k] = fmaf(deviation, deviation, m2[k]);
                    }
            } else {  // equal counts: a tree of sums, with M2 += (difference of sums)^2 / (2 n), n the rows of each
                float sums[kRows];
#pragma unroll
                for (int i = 0; i < kRows; ++i) sums[i] = value(i);
#pragma unroll
                for (int n = 1; n < kRows; n *= 2) {
                    float squares = 0.f;
#pragma unroll
                    for (int i = 0; i < kRows; i += 2 * n) {
                        const float difference = sums[i + n] - sums[i];
                        squares = fmaf(difference, difference, squares);
                        sums[i] += sums[i + n];
                    }
                    m2[k] = fmaf(squares, 0.5f / n, m2[k]);
                }
                mean[k] = sums[0];  // the sum, for now
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
                const float other = __shfl_xor_sync(~0u, sent_mean, 16 >> step);
                const float delta = other - kept_mean;
                m2[k] = fmaf(delta * (kMasked ? weight[step] : 0.5f / (kRows << step)), delta, kept_m2 + __shfl_xor_sync(~0u, sent_m2, 16 >> step));
                mean[k] = kMasked ? fmaf(delta, share[step], kept_mean) : kept_mean + other;
            }
        }
        if (!kMasked) mean[0] *= 1.f / (8 * kRows);
        // This lane now holds k = 4*bit4 + 2*bit3 + bit2 of its batch.
        const int k = (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
        const int column = 32 * batch + 8 * (k >> 1) + 2 * (lane & 3) + (k & 1);
        if (column < kColumns) moments[column] = {mean[0], m2[0]};
    }
}

}  // namespace coda
