// A normalisation over the channels of each row, by one statistic of a row: of its tile, or where a row's channels span
// several tiles (Config::kMeets) merged from what each of them has of the row.
//
// Each warpgroup writes an entry for each of its rows (exchange/message.cuh), one for its tile, and waits for those of
// all tiles across, which are neighbours in the order of tiles and all in flight: the exchange of epilogue/general.cuh,
// of one level. Across more than kDirectly tiles, what all of them would read grows with the square of their number, so
// each of them merges its share of the rows, writes an entry for each, and waits for those of its own.
#pragma once
#include "unisono/epilogue/row_parts.cuh"
#include "unisono/exchange/message.cuh"
#include "unisono/mma/sm90_wgmma.cuh"
#include "unisono/ptx/arithmetic.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Tile>
struct RowStatistics {
  using Visitor = typename Tile::EpilogueVisitor;
  using At = typename Tile::At;
  static constexpr int kBlocks = Tile::kBlocks, kRows = 2 * kBlocks, kN = Tile::kN;
  static constexpr Stores kStores = Tile::kStores;
  static constexpr RowStatistic kKind = RowStatisticOf<Visitor>::kValue;
  static constexpr bool kMeets = Tile::kRowsMeet;
  static constexpr int kDirectly = 8;  // by counts: two trips to L2 in turn, or a quarter of `across`
  static constexpr int kAtOnce = 4;    // entries that a lane has in flight

  const Tile& tile;
  const At& at;

  UNISONO_DEVICE int lane() const { return tile.thread & 31; }
  // Channels of the tile that exist.
  UNISONO_DEVICE int channels() const { return tile.geometry.channels - (kMeets ? at.first_channel : 0); }
  UNISONO_DEVICE int row_of(int r) const { return 64 * (r / 2) + tile.thread / 32 * 16 + lane() / 4 + 8 * (r & 1); }

  // f(element of row r, whether it exists) of this lane's. Eight channels exist together or not at all, unless the
  // number of channels is arbitrary.
  template <class F>
  UNISONO_DEVICE void for_each(int r, F&& f) const {
    const int b = r / 2, half = r & 1;
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
      if (8 * j < channels()) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          f(tile.acc[b][4 * j + 2 * half + e], kStores == Stores::kTma || 8 * j + 2 * (lane() & 3) + e < channels());
      }
  }

  // The tile's part of row r, over the row's four lanes.
  UNISONO_DEVICE RowTriple part_of(int r) const {
    if constexpr (kKind == RowStatistic::kMoments) {
      return moments_of(r);
    } else if constexpr (kKind == RowStatistic::kSquares) {
      float sum = 0.f;
      for_each(r, [&](float& x, bool exists) { sum = exists ? fmaf(as_float(x), as_float(x), sum) : sum; });
      return {over_four_lanes(sum), 0.f, 0.f};
    } else {
      float maximum = __uint_as_float(0xff800000u);
      for_each(r, [&](float& x, bool exists) { maximum = exists ? max_nan(maximum, as_float(x)) : maximum; });
#pragma unroll
      for (int bit = 1; bit <= 2; bit *= 2) maximum = max_nan(maximum, __shfl_xor_sync(~0u, maximum, bit));
      const float centre = maximum == __uint_as_float(0xff800000u) ? 0.f : maximum;
      float sum = 0.f;
      for_each(r, [&](float& x, bool exists) {
        const float e = Visitor::exponential(as_float(x) - centre);
        sum += exists ? e : 0.f;
        x = as_float(e);
      });
      return {maximum, over_four_lanes(sum), 0.f};
    }
  }
  // The four lanes of a row share a pivot, so that a large common offset costs no bits; deviations are taken from the
  // mean.
  UNISONO_DEVICE RowTriple moments_of(int r) const {
    const int here = smaller(kN, channels());
    const float inverse = 1.f / float(here),
                pivot = __shfl_sync(~0u, as_float(tile.acc[r / 2][2 * (r & 1)]), lane() & ~3);
    float sum = 0.f, m2 = 0.f;
    float pair[2];
    int e = 0;
    for_each(r, [&](float& x, bool exists) {
      pair[e] = exists ? as_float(x) - pivot : 0.f;
      if (e == 1) sum += pair[0] + pair[1];
      e ^= 1;
    });
    const float mean = fmaf(over_four_lanes(sum), inverse, pivot);
    for_each(r, [&](float& x, bool exists) {
      pair[e] = exists ? as_float(x) - mean : 0.f;
      if (e == 1) m2 = fmaf(pair[0], pair[0], fmaf(pair[1], pair[1], m2));
      e ^= 1;
    });
    return {float(here), mean, over_four_lanes(m2)};
  }

  // From a row's statistic, and what its tile has of it, to what normalises its elements.
  UNISONO_DEVICE RowAffine affine_of(const RowTriple& all, const RowTriple& own) const {
    const typename Visitor::Late late{};
    if constexpr (kKind == RowStatistic::kMoments) {
      const float2 affine = Visitor::affine(late, tile.uniform, all.y, all.z * (1.f / float(tile.geometry.channels)));
      return {all.y, affine.x, affine.y};
    } else if constexpr (kKind == RowStatistic::kSquares) {
      const float2 affine = Visitor::affine(late, tile.uniform, 0.f, all.x * (1.f / float(tile.geometry.channels)));
      return {0.f, affine.x, affine.y};
    } else {
      const float2 affine = Visitor::affine(late, tile.uniform, all.x, all.y);
      return {0.f, affine.x * (exponential_from<Visitor>(own.x, all.x) / all.y), affine.y};
    }
  }

  // What normalises each row of the tile: row 64 b + 16 warp + lane / 4 + 8 half is number 2 b + half.
  UNISONO_DEVICE void of(RowAffine (&rows)[kRows]) const {
    RowTriple own[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = part_of(r);
    if constexpr (kMeets) {
      RowTriple all[kRows];
      exchange(own, all);
#pragma unroll
      for (int r = 0; r < kRows; ++r) rows[r] = affine_of(all[r], own[r]);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) rows[r] = affine_of(own[r], own[r]);
    }
  }

  // Entries of the rows of this warpgroup's part of a line of tiles: `across` of each, and behind those of all lines
  // one of each that is merged.
  UNISONO_DEVICE size_t lines() const { return size_t(tile.geometry.images) * tile.slots() * Tile::kPixels; }
  UNISONO_DEVICE size_t first_line() const { return (size_t(at.image) * tile.slots() + at.slot) * Tile::kPixels; }
  UNISONO_DEVICE Entry* entries() const { return reinterpret_cast<Entry*>(tile.fixed.folds.rows); }

  // The statistics of this thread's rows, of all tiles across.
  UNISONO_DEVICE void exchange(const RowTriple (&own)[kRows], RowTriple (&all)[kRows]) const {
    const int across = tile.tiles_across();
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if ((r & 3) == (lane() & 3))
        write_entry(entries() + (first_line() + row_of(r)) * across + at.first_channel / kN, own[r].x, own[r].y,
                    own[r].z, tile.epoch);
    if (across <= 4) {
      merge_all<1>(across, all);
    } else if (across <= kDirectly) {
      merge_all<2>(across, all);
    } else {
      merge_share(across);
      read_merged(across, all);
    }
  }
  // Every fourth tile a lane, in order, then the four lanes of a row. kBatch of a lane's tiles are in flight.
  template <int kBatch>
  UNISONO_DEVICE void merge_all(int across, RowTriple (&all)[kRows]) const {
    Part part[kRows];
    for (int t = lane() & 3; t < across; t += 4 * kBatch) {
      uint4 entry[kRows * kBatch];
      await<kRows * kBatch>(entry, [&](int i) {
        return entries() + (first_line() + row_of(i % kRows)) * across + smaller(t + 4 * (i / kRows), across - 1);
      });
#pragma unroll
      for (int i = 0; i < kRows * kBatch; ++i)
        if (kBatch == 1 || t + 4 * (i / kRows) < across) add(part[i % kRows], entry[i]);
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r) all[r] = part[r].template over<4>();
  }
  // Row t, t + across, … of tile t, a warp for each: every 32nd tile a lane, in order, then the lanes.
  UNISONO_DEVICE void merge_share(int across) const {
    for (int row = at.first_channel / kN + tile.thread / 32 * across; row < Tile::kPixels; row += 4 * across) {
      const Entry* line = entries() + (first_line() + row) * across;
      Part part;
      for (int t = lane(); t < across; t += 32 * kAtOnce) {
        uint4 entry[kAtOnce];
        await<kAtOnce>(entry, [&](int i) { return line + smaller(t + 32 * i, across - 1); });
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (t + 32 * i < across) add(part, entry[i]);
      }
      __syncwarp();
      const RowTriple merged = part.template over<32>();
      if (lane() == 0)
        write_entry(entries() + lines() * across + first_line() + row, merged.x, merged.y, merged.z, tile.epoch);
    }
  }
  UNISONO_DEVICE void read_merged(int across, RowTriple (&all)[kRows]) const {
    uint4 entry[kRows];
    await<kRows>(entry, [&](int r) { return entries() + lines() * across + first_line() + row_of(r); });
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      all[r] = {__uint_as_float(entry[r].x), __uint_as_float(entry[r].y), __uint_as_float(entry[r].z)};
  }
  template <int kCount, class From>
  UNISONO_DEVICE void await(uint4 (&entry)[kCount], const From& from) const {
    Watchdog watchdog;
    delay_point();
    for (;;) {
      bool complete = true;
#pragma unroll
      for (int i = 0; i < kCount; ++i) entry[i] = load_whole(from(i));
#pragma unroll
      for (int i = 0; i < kCount; ++i) complete &= entry[i].w == tile.epoch + 1;
      if (complete) break;
      __nanosleep(kPollPause);
      watchdog.tick();
    }
  }
  template <class Of>
  static UNISONO_DEVICE void add(Of& part, const uint4& entry) {
    part.add(__uint_as_float(entry.x), __uint_as_float(entry.y), __uint_as_float(entry.z));
  }

  template <RowStatistic kOf, class Of>
  struct PartOf {
    using Type = RowPart<kOf>;
  };
  template <class Of>
  struct PartOf<RowStatistic::kSoftmax, Of> {
    using Type = ExponentialPart<Of>;
  };
  using Part = typename PartOf<kKind, Visitor>::Type;
};

}  // namespace unisono
