// Moments of the accumulators that a warp holds, in the layouts of wgmma's fragments (epilogue/sm90_fragment.cuh).
#pragma once
#include "unisono/exchange/moments.cuh"

namespace unisono {

// (mean, M2) of a lane's kValues values of an entry, kRows of a channel. kMasked: those that do not exist are left out.
// Else `mean` is the sum, for now.
template <int kRows, int kValues, bool kMasked, class Value, class Valid>
UNISONO_DEVICE void lane_moments(const Value& value, const Valid& valid, float inverse, float& mean, float& m2) {
  if constexpr (kMasked) {
    const float pivot = valid(0) ? value(0) : 0.f;  // the reciprocal's error meets only differences
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      if (valid(i % kRows)) sum += value(i) - pivot;
    mean = fmaf(sum, inverse, pivot);
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      if (valid(i % kRows)) {
        const float deviation = value(i) - mean;
        m2 = fmaf(deviation, deviation, m2);
      }
  } else {
    static_assert((kRows & (kRows - 1)) == 0, "the tree of sums needs a power of two of rows");
    // Equal counts: a tree of sums, with M2 += (difference of sums)^2 / (2 n), n the values of each
    float sums[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) sums[i] = value(i);
#pragma unroll
    for (int n = 1; n < kValues; n *= 2) {
      float squares = 0.f;
#pragma unroll
      for (int i = 0; i < kValues; i += 2 * n) {
        const float difference = sums[i + n] - sums[i];
        squares = fmaf(difference, difference, squares);
        sums[i] += sums[i + n];
      }
      m2 = fmaf(squares, 0.5f / n, m2);
    }
    mean = sums[0];
  }
}

// One warp's (mean, M2) over its rows, from accumulators in the matrix instruction's layout, for every kWidth
// neighbouring channels together: moments[kColumns / kWidth] in shared memory, kWidth 1 or 2. kMasked: rows that do not
// exist are left out. Shared memory is what the main loop of the other consumer group is short of, and a shuffle costs
// it as much as a load: two channels at once halve the shuffles. After the accumulators of these columns there may be
// those of a second product.
template <int kBlocks, int kColumns, int kWidth, bool kMasked, int kCount, class Rows>
UNISONO_DEVICE void warp_moments(const float (&acc)[kBlocks][kCount], float2* moments, const Rows& rows, int warp) {
  static_assert(kCount >= kColumns / 2, "a lane has a quarter of the columns of two rows");
  constexpr int kRows = 2 * kBlocks, kValues = kRows * kWidth;  // a lane's rows, and its values in an entry
  const int lane = threadIdx.x & 31;
  auto valid = [&](int i) { return !kMasked || rows.valid(64 * (i / 2) + 16 * warp + (lane >> 2) + 8 * (i & 1)); };
  float count = 0.f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) count += valid(i) ? float(kWidth) : 0.f;
  const float inverse = count > 0.f ? __fdividef(1.f, count) : 0.f;

  // A butterfly over the eight lanes of an entry's rows: each step halves the entries that a lane keeps.
  // share: the partner's part of the joint count; weight: the factor of the squared difference.
  float share[3], weight[3], own = count;
#pragma unroll
  for (int step = 0; step < 3; ++step) {
    const float other = kMasked ? __shfl_xor_sync(~0u, own, 16 >> step) : own;
    share[step] = own + other > 0.f ? __fdividef(other, own + other) : 0.f;
    weight[step] = own * share[step];
    own += other;
  }

  constexpr int kBatch = 8;                        // entries a lane reduces at once
  constexpr int kEntries = kColumns / 4 / kWidth;  // a lane's: entry e is pair e * kWidth / 2 of its channels
#pragma unroll
  for (int batch = 0; batch < divide_up(kEntries, kBatch); ++batch) {
    float mean[kBatch], m2[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      mean[k] = m2[k] = 0.f;
      const int entry = kBatch * batch + k;
      if (entry >= kEntries) continue;
      auto value = [&](int i) {  // rows first, then the second channel's
        const int row = i % kRows, pair = entry * kWidth / 2, channel = kWidth == 2 ? i / kRows : entry & 1;
        return acc[row / 2][4 * pair + 2 * (row & 1) + channel];
      };
      lane_moments<kRows, kValues, kMasked>(value, valid, inverse, mean[k], m2[k]);
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
        m2[k] = fmaf(delta * (kMasked ? weight[step] : 0.5f / (kValues << step)), delta,
                     kept_m2 + __shfl_xor_sync(~0u, sent_m2, 16 >> step));
        mean[k] = kMasked ? fmaf(delta, share[step], kept_mean) : kept_mean + other;
      }
    }
    if (!kMasked) mean[0] *= 1.f / (8 * kValues);
    // This lane now holds k = 4*bit4 + 2*bit3 + bit2 of its batch.
    const int entry = kBatch * batch + (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
    const int place = kWidth == 2 ? 4 * entry + (lane & 3) : 8 * (entry >> 1) + 2 * (lane & 3) + (entry & 1);
    if (entry < kEntries) moments[place] = {mean[0], m2[0]};
  }
}

// Channels first (epilogue/sm90_fragment.cuh): (mean, M2) of this warp's channels over all rows, in moments[channels of
// the tile] in shared memory. If kCentre the accumulators are left centred by their channels' means. `count` rows
// exist; kMasked: the others are left out.
template <int kBlocks, int kCount, bool kCentre, bool kMasked, class Rows>
UNISONO_DEVICE void channel_moments(float (&acc)[kBlocks][kCount], float2* moments, const Rows& rows, float count,
                                    int warp) {
  constexpr int kEach = kCount / 2,
                kWays = 8;  // rows of a channel in a lane; sums side by side, which keeps their rounding small
  const int lane = threadIdx.x & 31;
  auto valid = [&](int i) { return !kMasked || rows.valid(8 * (i / 2) + 2 * (lane & 3) + (i & 1)); };
  const float inverse = kMasked ? (count > 0.f ? __fdividef(1.f, count) : 0.f) : 1.f / (4 * kEach);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto value = [&](int i) -> float& { return acc[b][4 * (i / 2) + 2 * half + (i & 1)]; };
      float sums[kWays];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float x = valid(i) ? value(i) : 0.f;
        sums[i % kWays] = i < kWays ? x : sums[i % kWays] + x;
      }
#pragma unroll
      for (int n = kWays / 2; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; ++i) sums[i] += sums[i + n];
      const float sum = sum_over<4>(sums[0]);
      float mean = sum * inverse;
      if constexpr (kMasked)
        mean = fmaf(fmaf(-mean, count, sum), inverse, mean);  // the quotient without the reciprocal's error
      float squares[4] = {};
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float deviation = value(i) - mean;
        if constexpr (kCentre) value(i) = deviation;
        if (valid(i)) squares[i % 4] = fmaf(deviation, deviation, squares[i % 4]);
      }
      const float m2 = sum_over<4>((squares[0] + squares[1]) + (squares[2] + squares[3]));
      if ((lane & 3) == 0) moments[64 * b + 16 * warp + lane / 4 + 8 * half] = {mean, m2};
    }
}

}  // namespace unisono
