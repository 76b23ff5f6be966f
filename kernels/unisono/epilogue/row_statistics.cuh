// A normalisation over the channels of each row, by one statistic of a row: of its tile, or where a row's channels span
// several tiles (Config::kMeets) merged from what each of them has of the row (exchange/row_exchange.cuh).
#pragma once
#include "unisono/epilogue/row_parts.cuh"
#include "unisono/ptx/arithmetic.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

// A statistic: what a tile has of row r, over the row's four lanes, and what normalises the row's elements, from all
// tiles' and their own tile's. `of`: RowStatistics.
template <class Visitor, RowStatistic>
struct StatisticOfRow;

template <class Visitor>
struct StatisticOfRow<Visitor, RowStatistic::kMoments> {
  using Part = RowPart<RowStatistic::kMoments>;
  // The four lanes share a pivot, so that a large common offset costs no bits; deviations are taken from the mean.
  template <class Of>
  static UNISONO_DEVICE RowTriple of_tile(const Of& of, int r) {
    using Fragment = typename Of::Fragment;
    if (Of::kMeets && of.channels() <= 0) return {0.f, 0.f, 0.f};  // a cluster's last tile may have none
    const int here = smaller(Of::kN, of.channels());
    const float inverse = 1.f / float(here),
                pivot = __shfl_sync(~0u, as_float(Fragment::value(of.tile.acc, Fragment::pair_of(r, 0), 0)),
                                    of.lane() & ~3);
    float sum = 0.f, m2 = 0.f;
    float pair[2];
    int e = 0;
    of.for_each(r, [&](float& x, bool exists) {
      pair[e] = exists ? as_float(x) - pivot : 0.f;
      if (e == 1) sum += pair[0] + pair[1];
      e ^= 1;
    });
    const float mean = fmaf(sum_over<4>(sum), inverse, pivot);
    of.for_each(r, [&](float& x, bool exists) {
      pair[e] = exists ? as_float(x) - mean : 0.f;
      if (e == 1) m2 = fmaf(pair[0], pair[0], fmaf(pair[1], pair[1], m2));
      e ^= 1;
    });
    return {float(here), mean, sum_over<4>(m2)};
  }
  template <class Tile>
  static UNISONO_DEVICE RowAffine affine(const Tile& tile, const RowTriple& all, const RowTriple&) {
    const float2 affine = Visitor::affine({}, tile.uniform, all.y, all.z * (1.f / float(tile.geometry.channels)));
    return {all.y, affine.x, affine.y};
  }
};
template <class Visitor>
struct StatisticOfRow<Visitor, RowStatistic::kSquares> {
  using Part = RowPart<RowStatistic::kSquares>;
  template <class Of>
  static UNISONO_DEVICE RowTriple of_tile(const Of& of, int r) {
    float sum = 0.f;
    of.for_each(r, [&](float& x, bool exists) { sum = exists ? fmaf(as_float(x), as_float(x), sum) : sum; });
    return {sum_over<4>(sum), 0.f, 0.f};
  }
  template <class Tile>
  static UNISONO_DEVICE RowAffine affine(const Tile& tile, const RowTriple& all, const RowTriple&) {
    const float2 affine = Visitor::affine({}, tile.uniform, 0.f, all.x * (1.f / float(tile.geometry.channels)));
    return {0.f, affine.x, affine.y};
  }
};
template <class Visitor>
struct StatisticOfRow<Visitor, RowStatistic::kSoftmax> {
  using Part = ExponentialPart<Visitor>;
  template <class Of>
  static UNISONO_DEVICE RowTriple of_tile(const Of& of, int r) {
    float maximum = below_all();
    of.for_each(r, [&](float& x, bool exists) { maximum = exists ? max_nan(maximum, as_float(x)) : maximum; });
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) maximum = max_nan(maximum, __shfl_xor_sync(~0u, maximum, bit));
    const float centre = maximum == below_all() ? 0.f : maximum;
    float sum = 0.f;
    of.for_each(r, [&](float& x, bool exists) {
      const float e = Visitor::exponential(as_float(x) - centre);
      sum += exists ? e : 0.f;
      x = as_float(e);
    });
    return {maximum, sum_over<4>(sum), 0.f};
  }
  template <class Tile>
  static UNISONO_DEVICE RowAffine affine(const Tile& tile, const RowTriple& all, const RowTriple& own) {
    const float2 affine = Visitor::affine({}, tile.uniform, all.x, all.y);
    return {0.f, affine.x * (exponential_from<Visitor>(own.x, all.x) / all.y), affine.y};
  }
};

template <class Tile>
struct RowStatistics {
  using Visitor = typename Tile::EpilogueVisitor;
  using At = typename Tile::At;
  using Fragment = typename Tile::Fragment;
  static constexpr int kRows = Fragment::kThreadRows, kN = Tile::kN;
  using Statistic = StatisticOfRow<Visitor, RowStatisticOf<Visitor>::kValue>;
  using Exchange = RowExchange<typename Statistic::Part, Tile>;
  static constexpr bool kMeets = Tile::kRowsMeet;

  const Tile& tile;
  const At& at;

  UNISONO_DEVICE int lane() const { return tile.thread & 31; }
  // Channels of the tile that exist.
  UNISONO_DEVICE int channels() const { return tile.geometry.channels - (kMeets ? at.first_channel : 0); }

  // f(element of row r, whether it exists) of this lane's.
  template <class F>
  UNISONO_DEVICE void for_each(int r, F&& f) const {
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
      if (8 * j < channels()) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          f(Fragment::value(tile.acc, Fragment::pair_of(r, j), e),
            Tile::kTogether == 8 || 8 * j + 2 * (lane() & 3) + e < channels());
      }
  }

  // What the tile has of each of this thread's rows; others wait for it where they meet.
  UNISONO_DEVICE void publish(RowTriple (&own)[kRows]) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = Statistic::of_tile(*this, r);
    if constexpr (kMeets) Exchange::of(tile, at, 0).publish(own);
  }
  // What normalises them, once all tiles have published. kShares: nobody else merges this tile's share.
  template <bool kShares>
  UNISONO_DEVICE void collect(const RowTriple (&own)[kRows], RowAffine (&rows)[kRows]) const {
    if constexpr (kMeets) {
      RowTriple all[kRows];
      const auto exchange = Exchange::of(tile, at, 0);
      if (kShares) exchange.share();
      exchange.collect(all);
#pragma unroll
      for (int r = 0; r < kRows; ++r) rows[r] = Statistic::affine(tile, all[r], own[r]);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) rows[r] = Statistic::affine(tile, own[r], own[r]);
    }
  }
};

}  // namespace unisono
