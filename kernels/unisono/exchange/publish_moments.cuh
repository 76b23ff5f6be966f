// The moments of the rows that a warpgroup holds, a piece of channels each: to its slot of an exchange, or of a
// tensor's moments, whose pieces are units of kMoments channels.
#pragma once
#include "unisono/exchange/moment_store.cuh"
#include "unisono/exchange/statistics_exchange.cuh"
#include "unisono/exchange/warp_moments.cuh"

namespace unisono {

template <class Tile>
struct MomentPublisher {
  using At = typename Tile::At;
  static constexpr int kN = Tile::kN, kUnit = Tile::kUnit, kPixels = Tile::kPixels, kBlocks = Tile::kBlocks,
                       kMean = Tile::kMean, kMoments = Tile::kMoments;
  static constexpr int kAccBlocks = Tile::kAccBlocks, kAccCount = Tile::kAccCount;
  static constexpr bool kSwap = Tile::kSwap, kCut = Tile::kCut, kCentred = Tile::kCentred,
                        kNormalises = Tile::kNormalises;

  const Tile& tile;

  // `full`: all rows of the tile exist.
  UNISONO_DEVICE void publish(const At& at, bool full) const {
    if constexpr (kSwap)
      publish_channels(at, full);
    else
      publish_rows(at, full);
  }

  UNISONO_DEVICE void put(const At& at, int unit, const Moments& m) const {
    const int channel = at.first_channel + unit * kUnit;
    if (channel < tile.geometry.channels) put_piece(at, channel / kUnit, m);
  }
  UNISONO_DEVICE void put_piece(const At& at, int piece, const Moments& m) const {
    const int pieces = Tile::PiecesOf::before(tile.norm, tile.geometry.channels);
    Message<Moments>* const message =
        slots_of<Moments>(tile.norm) + (size_t(at.image) * tile.norm.slots_per_image + at.slot) * pieces + piece;
    if constexpr (kMoments > 0)
      put_moments(message->entries, m);
    else
      write_message(message, m, tile.epoch);
  }

  UNISONO_DEVICE void publish_channels(const At& at, bool full) const {
    const int warp = tile.thread / 32;
    float2* moments_of = reinterpret_cast<float2*>(tile.moments(0));  // of all channels
    float count = kPixels;
    if (full) {
      channel_moments<kAccBlocks, kAccCount, kCentred, false>(tile.acc, moments_of, at.rows, count, warp);
    } else {
      int rows = 0;
#pragma unroll 1
      for (int m = 0; m < kPixels; m += 16) rows += at.rows.valid_of_16(m);
      count = float(rows);
      channel_moments<kAccBlocks, kAccCount, kCentred, true>(tile.acc, moments_of, at.rows, count, warp);
    }
    tile.sync();
    if constexpr (kCut)
      publish_pieces<1, 1>(
          at, [&](int, int n) { return moments_of[n]; }, [&](int) { return count; });
    else
      publish_units_of_channels(at, moments_of, count);
  }
  UNISONO_DEVICE void publish_units_of_channels(const At& at, const float2* moments_of, float count) const {
    for (int u = tile.thread; u < kN / kUnit; u += 128) {
      const float2* channels = moments_of + u * kUnit;
      const float pivot = channels[0].x;
      float sum = 0.f, m2 = 0.f;
#pragma unroll
      for (int i = 0; i < kUnit; ++i) sum += channels[i].x - pivot;
      const float mean = fmaf(sum, 1.f / kUnit, pivot);
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        const float delta = channels[i].x - mean;
        m2 += fmaf(delta * delta, count, channels[i].y);
      }
      put(at, u, {count * kUnit, mean, m2});
      if constexpr (kNormalises) {
#pragma unroll
        for (int i = 0; i < kUnit; ++i) tile.columns()[kMean * kN + u * kUnit + i] = kCentred ? channels[i].x : mean;
      }
    }
  }

  // Neighbouring lanes divide what a piece consists of: of each warp's rows, kWarps of them, entry(warp, i) of the
  // channels from kWidth * i on. Means are relative to the first's, and divided once a lane.
  template <int kWidth, int kWarps, class Entry, class Count>
  UNISONO_DEVICE void publish_pieces(const At& at, const Entry& entry, const Count& count) const {
    const auto publish = [&](int piece, int from, int to, int lane, int lanes) {
      const int begin = from / kWidth * kWarps + lane, end = to / kWidth * kWarps;
      const float pivot = from < to ? entry(0, from / kWidth).x : 0.f;
      Moments own = Moments::identity();
      for (int i = begin; i < end; i += lanes) {
        const float weight = count(i % kWarps) * kWidth;
        own.mean = fmaf(weight, entry(i % kWarps, i / kWarps).x - pivot, own.mean);
        own.count += weight;
      }
      own.mean = own.count > 0.f ? __fdividef(own.mean, own.count) : 0.f;
      for (int i = begin; i < end; i += lanes) {
        const float2 part = entry(i % kWarps, i / kWarps);
        const float delta = part.x - pivot - own.mean;
        own.m2 += fmaf(delta * delta, count(i % kWarps) * kWidth, part.y);
      }
      Moments all = Moments::over_lanes(own, lanes);
      all.mean += pivot;
      if (from < to && lane == 0) put_piece(at, piece, all);
      if constexpr (kNormalises)
        for (int n = from + lane; n < to; n += lanes)
          tile.columns()[kMean * kN + n] = kCentred ? entry(0, n).x : all.mean;
    };
    for_pieces<typename Tile::PiecesOf>(tile.norm, tile.thread, at.first_channel, tile.geometry.channels, publish);
  }

  // values[i] without an address: the values stay in registers.
  static UNISONO_DEVICE float element(const float (&values)[4], int i) {
    return i < 2 ? i == 0 ? values[0] : values[1] : i == 2 ? values[2] : values[3];
  }

  UNISONO_DEVICE void publish_rows(const At& at, bool full) const {
    constexpr int kWidth = kUnit % 2 == 0 ? 2 : 1, kParts = kUnit / kWidth;  // entries of a unit in a warp's moments
    const int warp = tile.thread / 32;
    float2* of_warp = reinterpret_cast<float2*>(tile.moments(warp));
    if (full)
      warp_moments<kBlocks, kN, kWidth, false>(tile.acc, of_warp, at.rows, warp);
    else
      warp_moments<kBlocks, kN, kWidth, true>(tile.acc, of_warp, at.rows, warp);
    tile.sync();
    float count[4], inverse = 1.f / (64 * kBlocks * kParts), total = 64 * kBlocks;  // rows of the warps
#pragma unroll
    for (int w = 0; w < 4; ++w) count[w] = 16 * kBlocks;
    if (!full) {
      total = 0.f;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        int rows = 0;
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) rows += at.rows.valid_of_16(64 * b + 16 * w);
        total += count[w] = float(rows);
      }
      inverse = total > 0.f ? __fdividef(1.f, total * kParts) : 0.f;
    }
    if constexpr (kCut)
      publish_pieces<kWidth, 4>(
          at, [&](int w, int i) { return reinterpret_cast<const float2*>(tile.moments(w))[i]; },
          [&](int w) { return element(count, w); });
    else
      publish_units_of_rows<kWidth>(at, count, total, inverse);
  }
  template <int kWidth>
  UNISONO_DEVICE void publish_units_of_rows(const At& at, const float (&count)[4], float total, float inverse) const {
    constexpr int kParts = kUnit / kWidth;
    // Few units: four neighbouring lanes a unit, each with the rows of one warp; many: a thread a unit.
    constexpr int kUnits = kN / kUnit, kLanes = kUnits <= 32 ? 4 : 1, kOwn = 4 / kLanes;  // warps whose rows a lane has
    const int first = kLanes > 1 ? int(threadIdx.x) & 3 : 0;
    float weight[kOwn];
#pragma unroll
    for (int w = 0; w < kOwn; ++w) weight[w] = kLanes == 1 ? count[w] : element(count, first);
    for (int own = tile.thread / kLanes; own / (32 / kLanes) * (32 / kLanes) < kUnits;
         own += 128 / kLanes) {  // whole warps
      const int u = smaller(own, kUnits - 1);
      auto part = [&](int w, int i) { return reinterpret_cast<const float2*>(tile.moments(w))[u * kParts + i]; };
      const float pivot = part(0, 0).x;
      float sum = 0.f, m2 = 0.f;
#pragma unroll
      for (int i = 0; i < kParts; ++i)
#pragma unroll
        for (int w = 0; w < kOwn; ++w) sum = fmaf(weight[w], part(first + w, i).x - pivot, sum);
      if constexpr (kLanes > 1) sum = sum_over<4>(sum);
      const float mean = fmaf(sum, inverse, pivot);
#pragma unroll
      for (int i = 0; i < kParts; ++i)
#pragma unroll
        for (int w = 0; w < kOwn; ++w) {
          const float2 moment = part(first + w, i);
          const float delta = moment.x - mean;
          m2 += fmaf(delta * delta, weight[w] * kWidth, moment.y);
        }
      if constexpr (kLanes > 1) m2 = sum_over<4>(m2);
      if (own >= kUnits) continue;
      if (first == 0) put(at, u, {total * kUnit, mean, m2});
      if constexpr (kNormalises) {
#pragma unroll
        for (int i = 0; i < kUnit; i += kLanes)
          if (i + first < kUnit) tile.columns()[kMean * kN + u * kUnit + i + first] = mean;
      }
    }
  }
};

}  // namespace unisono
