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
    const int lane = threadIdx.x & 31;
    auto valid = [&](int i) { return !kMasked || rows.valid(64 * (i / 2) + 16 * warp + (lane >> 2) + 8 * (i & 1)); };
    float count = 0.f;
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) count += valid(i) ? 1.f : 0.f;
    const float inverse = count > 0.f ? __fdividef(1.f, count) : 0.f;

    // Butterfly over the eight lanes that hold a column's rows; each step halves the columns a lane keeps.
    // share: the partner's part of the joint count; weight: the factor of the squared difference.
    float share[3], weight[3], own = count;
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const float other = kMasked ? __shfl_xor_sync(~0u, own, 16 >> step) : own;
        share[step] = !kMasked ? 0.5f : own + other > 0.f ? __fdividef(other, own + other) : 0.f;
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

}  // namespace coda
