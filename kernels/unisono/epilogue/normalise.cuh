// How a tile is normalised: what comes ahead of it, how the statistics reach its columns, what is stored. Tile:
// epilogue/tile.cuh.
#pragma once
#include "unisono/epilogue/exchanged.cuh"
#include "unisono/epilogue/pass_folds.cuh"
#include "unisono/epilogue/row_results.cuh"
#include "unisono/epilogue/row_statistics.cuh"
#include "unisono/epilogue/tile.cuh"
#include "unisono/exchange/statistics_exchange.cuh"

namespace unisono {

// The second store's values of a pair of sums.
template <class Tile, class Row>
UNISONO_DEVICE u32 side_of_pair(const Tile& tile, float& x, float& y, const float* one, const float* two,
                                const float* t1, const float* t2, const Row& row) {
  using Visitor = typename Tile::EpilogueVisitor;
  using Ahead = AheadOfRows<Visitor, ReadsRowsBefore<Visitor>::kValue>;
  return Visitor::Side::pack(Ahead::side(as_float(x), one, t1, row, tile.uniform),
                             Ahead::side(as_float(y), two, t2, row, tile.uniform));
}

// A pair of sums, the p-th of slice s, becomes what waits, and adds to reductions.
template <class Tile, class Row, class Folds, class Shares>
UNISONO_DEVICE void apply_to_pair(const Tile& tile, int s, int p, float& x, float& y, const float* one,
                                  const float* two, const float* t1, const float* t2, const Row& row, Folds& folds,
                                  Shares& shares) {
  using Visitor = typename Tile::EpilogueVisitor;
  const float v = as_float(x), w = as_float(y);
  if constexpr (ExchangedOf<Visitor>::kAny) {
    const float2 waits = shares.add(s, p, v, w, one, two, t1, t2, folds);
    x = as_float(waits.x), y = as_float(waits.y);
  } else {
    using Ahead = AheadOfRows<Visitor, ReadsRowsBefore<Visitor>::kValue>;
    folds.add(s, p, v, w, one, two, t1, t2);
    x = as_float(Ahead::before(v, one, t1, row, tile.uniform));
    y = as_float(Ahead::before(w, two, t2, row, tile.uniform));
  }
}

// The sums become the value that waits, the input of a normalisation; the second store, if it comes from here, is on
// its way, and so is what the tile adds to reductions that are exchanged.
template <class Tile>
UNISONO_DEVICE void apply_before(Tile& tile, const typename Tile::At& at) {
  using Visitor = typename Tile::EpilogueVisitor;
  constexpr int kSlice = Tile::kSlice, kSlices = Tile::kSlices, kTensors = Tile::kTensorsBefore;
  constexpr bool kFetches = Tile::kFetch > 0 && Tile::kFetchBefore, kStores = Tile::kSide == SideStore::kBefore;
  typename Tile::template Ring<0, kTensors, kFetches ? Tile::kFetch : 0> ring{tile.visitor, tile.geometry,
                                                                              tile.thread / 32, tile.thread & 31};
  const typename Tile::template Fetching<kFetches> fetch{tile};
  ring.open(0, Tile::kPairs, at);
  if constexpr (kStores) tile.open_before();
  AheadFolds<Tile> folds{tile, at};
  ExchangedShares<Tile> shares{tile, at};
  const TileRows<Tile, ReadsRowsBefore<Visitor>::kValue> rows(tile, at);
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      u32 packed[kSlice / 4];
      folds.open(b);
      shares.open(b);
      int pair = 0, row = 2 * b;
      fetch.await(b * kSlices + s, ring);
      tile.template for_pairs<0, kTensors>(
          at, b, s, ring, Tile::kPairs,
          [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
            const int p = pair++;
            const auto& of = rows.value[row];
            row ^= 1;
            if constexpr (kStores) packed[p] = side_of_pair(tile, x, y, one, two, t1, t2, of);
            apply_to_pair(tile, s, p, x, y, one, two, t1, t2, of, folds, shares);
          });
      if constexpr (kStores) tile.store_before(at, b, s, packed);
      folds.close(b, s);
      shares.close(b, s);
      fetch.refill_read(at, b * kSlices + s);
    }
  shares.publish();  // others wait for them
  folds.put();
}

// Waits for the image's statistics, calls gathered(), and leaves the normalisation in columns kMean, kFactor and kShift
// of the tile: of x, or if the tile is kCentred of x - column kMean. Until then kFactor and the columns after it hold
// the operands of factor and shift (epilogue/columns.cuh). kAtOnce: loads in flight beside the sums.
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_normalisation(const Tile& tile, const typename Tile::At& at, const Gathered& gathered) {
  using Statistic = typename Tile::Statistic;
  using Visitor = typename Tile::EpilogueVisitor;
  constexpr int kN = Tile::kN;
  float* const column = tile.columns() + Tile::kMean * kN;
  const GroupStatistics<Statistic, WarpgroupCrew<kAtOnce>, kN, Tile::kScratch, Tile::kUnit> statistics(
      tile.norm, {tile.thread, tile.barrier}, reinterpret_cast<Statistic*>(tile.moments(0)), tile.epoch, at.image,
      at.first_channel, tile.geometry.channels);
  statistics.gather();
  gathered();
  statistics.emit(
      at.slot == 0,
      [&](int, int n, const MeanAndVariance& of) {
        typename Visitor::Late late;
        if constexpr (sizeof(late) >= 4) {
#pragma unroll
          for (int i = 0; i < Tile::kLate; ++i) reinterpret_cast<float*>(&late)[i] = column[(1 + i) * kN + n];
        }
        const float2 affine = Visitor::affine(late, tile.uniform, of.mean, of.variance);
        column[kN + n] = affine.x;
        if constexpr (Tile::kCentred)
          column[2 * kN + n] = fmaf(column[n] - of.mean, affine.x, affine.y);
        else
          column[n] = of.mean, column[2 * kN + n] = affine.y;
      },
      [&](int group, const MeanAndVariance& of) {
        if constexpr (Visitor::kStatistics)
          Visitor::statistics(tile.visitor, tile.uniform, at.image, group, of.mean, of.variance);
      });
}

// Either of both, by what the visitor has.
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_statistics(const Tile& tile, const typename Tile::At& at, const Gathered& gathered) {
  if constexpr (ExchangedOf<typename Tile::EpilogueVisitor>::kAny)
    put_exchanged<kAtOnce>(tile, at, gathered);
  else
    put_normalisation<kAtOnce>(tile, at, gathered);
}

// Stores what is left of the sums, normalised if there is a normalisation: by Tile::store of f and g, which take an
// element, its columns and tensors, and which of this thread's rows it is of.
template <class Tile>
UNISONO_DEVICE void store_normalised(Tile& tile, const typename Tile::At& at) {
  using Visitor = typename Tile::EpilogueVisitor;
  constexpr bool kRows = Tile::kNorm == Norm::kRows, kBoth = Tile::kSide == SideStore::kAfter;
  RowAffine rows[Tile::Fragment::kThreadRows];
  if constexpr (kRows) RowStatistics<Tile>{tile, at}.of(rows);
  // The difference first: exact where x is near the mean, so a large common offset costs no bits.
  auto normalised = [&](float x, const float* column, int row) {
    if constexpr (ExchangedOf<Visitor>::kAny)
      return x;
    else if constexpr (kRows)
      return fmaf(x - rows[row].mean, rows[row].factor, rows[row].shift);
    else if constexpr (Tile::kCentred)
      return fmaf(x, column[Tile::kFactor], column[Tile::kShift]);
    else if constexpr (Tile::kNormalises)
      return fmaf(x - column[Tile::kMean], column[Tile::kFactor], column[Tile::kShift]);
    else
      return x;
  };
  if constexpr (ResultsOf<Visitor>::kResults > 0)
    RowResults<Tile>{tile, at}.store(normalised);
  else
    tile.template store<Visitor::kTensorsBefore, Visitor::kTensors, kBoth>(
        at,
        [&](float x, const float* column, const float* tensor, int row) {
          return Visitor::after(normalised(x, column, row), x, column + Tile::kBefore, tensor, tile.uniform);
        },
        [&](float x, const float* column, const float* tensor, int row) {
          if constexpr (kBoth)
            return Visitor::side(normalised(x, column, row), column + Tile::kBefore, tensor, tile.uniform);
          else
            return 0.f;
        });
}

}  // namespace unisono
