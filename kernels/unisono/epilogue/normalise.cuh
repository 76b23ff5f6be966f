// How a tile is normalised: what comes before it, how the statistics reach its columns, what is stored. Tile:
// epilogue/tile.cuh.
#pragma once
#include "unisono/epilogue/exchanged.cuh"
#include "unisono/epilogue/pass_folds.cuh"
#include "unisono/epilogue/row_results.cuh"
#include "unisono/epilogue/row_statistics.cuh"
#include "unisono/epilogue/tile.cuh"
#include "unisono/exchange/statistics_exchange.cuh"

namespace unisono {

// The second store before a normalisation: pairs of a slice,
template <class Tile, bool kAny>
struct SideAhead {
  using Visitor = typename Tile::EpilogueVisitor;
  using Ahead = AheadOfRows<Visitor, ReadsRowsBefore<Visitor>::kValue>;
  u32 packed[Tile::kSlice / 4];
  static UNISONO_DEVICE void open(const Tile& tile) { tile.open_before(); }
  template <class Row>
  UNISONO_DEVICE void put(const Tile& tile, int p, float x, float y, const float* one, const float* two,
                          const float* t1, const float* t2, const Row& row) {
    packed[p] =
        Visitor::Side::pack(Ahead::side(x, one, t1, row, tile.uniform), Ahead::side(y, two, t2, row, tile.uniform));
  }
  UNISONO_DEVICE void store(const Tile& tile, const typename Tile::At& at, int b, int s) const {
    tile.store_before(at, b, s, packed);
  }
};
// or none.
template <class Tile>
struct SideAhead<Tile, false> {
  static UNISONO_DEVICE void open(const Tile&) {}
  template <class Row>
  UNISONO_DEVICE void put(const Tile&, int, float, float, const float*, const float*, const float*, const float*,
                          const Row&) {}
  UNISONO_DEVICE void store(const Tile&, const typename Tile::At&, int, int) const {}
};

// A pair of sums becomes the input of a normalisation; its moments are taken of the whole tile.
template <class Tile>
struct NormalisedShares {
  using Visitor = typename Tile::EpilogueVisitor;
  using Ahead = AheadOfRows<Visitor, ReadsRowsBefore<Visitor>::kValue>;
  const Tile& tile;
  UNISONO_DEVICE NormalisedShares(const Tile& tile, const typename Tile::At&) : tile(tile) {}
  UNISONO_DEVICE void open(int) {}
  UNISONO_DEVICE void close(int, int) {}
  UNISONO_DEVICE void publish() {}
  template <class Row, class Folds>
  UNISONO_DEVICE float2 add(int s, int p, float x, float y, const float* one, const float* two, const float* t1,
                            const float* t2, const Row& row, Folds& folds) {
    folds.add(s, p, x, y, one, two, t1, t2);
    return {Ahead::before(x, one, t1, row, tile.uniform), Ahead::before(y, two, t2, row, tile.uniform)};
  }
};
template <class Tile>
using TileShares =
    Either<ExchangedOf<typename Tile::EpilogueVisitor>::kAny, ExchangedShares<Tile>, NormalisedShares<Tile>>;

// The sums become the value that waits, the input of a normalisation; the second store, if it comes from here, is on
// its way, and so is what the tile adds to reductions that are exchanged.
template <class Tile>
UNISONO_DEVICE void apply_before(Tile& tile, const typename Tile::At& at) {
  constexpr int kSlices = Tile::kSlices, kTensors = Tile::kTensorsBefore;
  constexpr bool kFetches = Tile::kFetch > 0 && Tile::kFetchBefore;
  using Side = SideAhead<Tile, Tile::kSide == SideStore::kBefore>;
  typename Tile::template Ring<0, kTensors, kFetches ? Tile::kFetch : 0> ring{tile.visitor, tile.geometry,
                                                                              tile.thread / 32, tile.thread & 31};
  const typename Tile::template Fetching<kFetches> fetch{tile};
  ring.open(0, Tile::kPairs, at);
  Side::open(tile);
  AheadFolds<Tile> folds{tile, at};
  TileShares<Tile> shares{tile, at};
  const TileRows<Tile, ReadsRowsBefore<typename Tile::EpilogueVisitor>::kValue> rows(tile, at);
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      Side side;
      folds.open(b);
      shares.open(b);
      int pair = 0;
      fetch.await(b * kSlices + s, ring);
      tile.template for_pairs<0, kTensors>(
          at, b, s, ring, Tile::kPairs,
          [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
            const int p = pair++;
            const auto& of = rows.value[2 * b + (p & 1)];
            const float v = as_float(x), w = as_float(y);
            side.put(tile, p, v, w, one, two, t1, t2, of);
            const float2 waits = shares.add(s, p, v, w, one, two, t1, t2, of, folds);
            x = as_float(waits.x), y = as_float(waits.y);
          });
      side.store(tile, at, b, s);
      folds.close(b, s);
      shares.close(b, s);
      fetch.refill_read(at, b * kSlices + s);
    }
  shares.publish();  // others wait for them
  folds.put();
}

// What factor and shift read of a channel, from where its columns hold it.
template <class Tile>
UNISONO_DEVICE typename Tile::EpilogueVisitor::Late late_of(const float* columns) {
  typename Tile::EpilogueVisitor::Late late;
#pragma unroll
  for (int i = 0; i < (sizeof(late) >= 4 ? Tile::kLate : 0); ++i)
    reinterpret_cast<float*>(&late)[i] = columns[i * Tile::kN];
  return late;
}

// What becomes of an element x that waits, in one of the thread's rows. By its channel's columns mean, factor and
// shift, the difference first: exact where x is near the mean, so a large common offset costs no bits;
template <class Tile>
struct ByChannel {
  UNISONO_DEVICE ByChannel(const Tile&, const typename Tile::At&) {}
  UNISONO_DEVICE float operator()(float x, const float* column, int) const {
    return fmaf(x - column[Tile::kMean], column[Tile::kFactor], column[Tile::kShift]);
  }
  // A channel's columns.
  static UNISONO_DEVICE void put(float* column, float mean, float2 affine) {
    column[Tile::kN] = affine.x;
    column[0] = mean, column[2 * Tile::kN] = affine.y;
  }
};
// of x that is centred by column kMean;
template <class Tile>
struct ByCentredChannel {
  UNISONO_DEVICE ByCentredChannel(const Tile&, const typename Tile::At&) {}
  UNISONO_DEVICE float operator()(float x, const float* column, int) const {
    return fmaf(x, column[Tile::kFactor], column[Tile::kShift]);
  }
  static UNISONO_DEVICE void put(float* column, float mean, float2 affine) {
    column[Tile::kN] = affine.x;
    column[2 * Tile::kN] = fmaf(column[0] - mean, affine.x, affine.y);
  }
};
// by its row;
template <class Tile>
struct ByRow {
  RowAffine rows[Tile::Fragment::kThreadRows];
  UNISONO_DEVICE ByRow(const Tile& tile, const typename Tile::At& at) {
    const RowStatistics<Tile> statistics{tile, at};
    RowTriple own[Tile::Fragment::kThreadRows];
    statistics.publish(own);
    statistics.template collect<true>(own, rows);
  }
  // For a tile that has published them, whose share spare warps merge.
  UNISONO_DEVICE ByRow(const Tile& tile, const typename Tile::At& at,
                       const RowTriple (&own)[Tile::Fragment::kThreadRows]) {
    RowStatistics<Tile>{tile, at}.template collect<false>(own, rows);
  }
  UNISONO_DEVICE float operator()(float x, const float*, int row) const {
    return fmaf(x - rows[row].mean, rows[row].factor, rows[row].shift);
  }
};
// nothing.
template <class Tile>
struct AsItWaits {
  UNISONO_DEVICE AsItWaits(const Tile&, const typename Tile::At&) {}
  UNISONO_DEVICE float operator()(float x, const float*, int) const { return x; }
};
template <class Tile>
using Normalised = Either<
    !Tile::kNormalises || ExchangedOf<typename Tile::EpilogueVisitor>::kAny, AsItWaits<Tile>,
    Either<Tile::kNorm == Norm::kRows, ByRow<Tile>, Either<Tile::kCentred, ByCentredChannel<Tile>, ByChannel<Tile>>>>;

// Waits for the image's statistics, calls gathered(), and leaves the normalisation in columns kMean, kFactor and kShift
// of the tile: of x, or if the tile is kCentred of x - column kMean. Until then kFactor and the columns after it hold
// the operands of factor and shift (epilogue/columns.cuh). kAtOnce: loads in flight while sums are held.
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_normalisation(const Tile& tile, const typename Tile::At& at, const Gathered& gathered) {
  using Statistic = typename Tile::Statistic;
  using Visitor = typename Tile::EpilogueVisitor;
  constexpr int kN = Tile::kN;
  float* const column = tile.columns() + Tile::kMean * kN;
  const GroupStatistics<Statistic, WarpgroupCrew<kAtOnce>, Tile::kScratch, typename Tile::PiecesOf> statistics(
      tile.norm, {tile.thread, tile.barrier}, reinterpret_cast<Statistic*>(tile.moments(0)), tile.epoch, at.image,
      at.first_channel, tile.geometry.channels);
  statistics.gather();
  gathered();
  statistics.emit(
      at.slot == 0,
      [&](int, int n, const MeanAndVariance& of) {
        const float2 affine = Visitor::affine(late_of<Tile>(column + kN + n), tile.uniform, of.mean, of.variance);
        Normalised<Tile>::put(column + n, of.mean, affine);
      },
      [&](int group, const MeanAndVariance& of) {
        Visitor::statistics(tile.visitor, tile.uniform, at.image, group, of.mean, of.variance);
      });
}

// Either of both, by what the visitor has.
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_statistics(MomentsOfValue, const Tile& tile, const typename Tile::At& at,
                                   const Gathered& gathered) {
  put_normalisation<kAtOnce>(tile, at, gathered);
}
template <int kAtOnce, class Tile, class Gathered>
UNISONO_DEVICE void put_statistics(ReductionsOfValues, const Tile& tile, const typename Tile::At& at,
                                   const Gathered& gathered) {
  put_exchanged<kAtOnce>(tile, at, gathered);
}

// One or two results of 16 bits of each element.
template <class Tile, bool kMany>
struct NormalisedResults {
  using Visitor = typename Tile::EpilogueVisitor;
  const Tile& tile;
  const Normalised<Tile>& normalised;
  UNISONO_DEVICE float after(float x, const float* column, const float* tensor, int row) const {
    return Visitor::after(normalised(x, column, row), x, column + Tile::kBefore, tensor, tile.uniform);
  }
  UNISONO_DEVICE float side(float x, const float* column, const float* tensor, int row) const {
    return Visitor::side(normalised(x, column, row), column + Tile::kBefore, tensor, tile.uniform);
  }
  static UNISONO_DEVICE void store(Tile& tile, const typename Tile::At& at, const Normalised<Tile>& normalised) {
    tile.template store<Visitor::kTensorsBefore, Visitor::kTensors, Tile::kSide == SideStore::kAfter>(
        at, NormalisedResults{tile, normalised});
  }
};
// Others.
template <class Tile>
struct NormalisedResults<Tile, true> {
  static UNISONO_DEVICE void store(Tile& tile, const typename Tile::At& at, const Normalised<Tile>& normalised) {
    RowResults<Tile>{tile, at}.store(normalised);
  }
};

// Stores what is left of the sums, normalised if there is a normalisation. `published`: of rows, by a tile that waited.
template <class Tile, class... Published>
UNISONO_DEVICE void store_normalised(Tile& tile, const typename Tile::At& at, const Published&... published) {
  using Results = NormalisedResults<Tile, (ResultsOf<typename Tile::EpilogueVisitor>::kResults > 0)>;
  Results::store(tile, at, Normalised<Tile>(tile, at, published...));
}

}  // namespace unisono
