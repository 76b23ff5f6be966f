// Results of tiles that wait in registers, after a normalisation or other statistics, that are more than one or two of
// 16 bits: of f32, more of them, and computed from values of rows (epilogue/visitor.cuh, Visitor::results). The first
// goes through TMA if it has 16 bits, the others leave from registers: four lanes have eight neighbouring channels of a
// row, a sector of f32.
#pragma once
#include "unisono/epilogue/pass_folds.cuh"
#include "unisono/epilogue/results.cuh"

namespace unisono {

// Values of this thread's rows of a tile, if the visitor has any.
template <class Tile, bool kAny>
struct TileRows {
  using Visitor = typename Tile::EpilogueVisitor;
  using Values = RowValues<Visitor, kAny>;
  using Fragment = typename Tile::Fragment;
  typename Values::Type value[Fragment::kThreadRows];

  UNISONO_DEVICE TileRows(const Tile& tile, const typename Tile::At& at) {
#pragma unroll
    for (int r = 0; r < Fragment::kThreadRows; ++r) {
      const int m = Fragment::row_of(tile.thread, r);  // rows that do not exist read the image's first
      value[r] = Values::of(tile.visitor, tile.uniform,
                            {at.image, at.image * tile.geometry.rows + (at.rows.valid(m) ? at.rows.pixel(m) : 0)});
    }
  }
};

template <class Tile>
struct RowResults {
  using Visitor = typename Tile::EpilogueVisitor;
  using At = typename Tile::At;
  using Results = ResultsOf<Visitor>;
  using Fragment = typename Tile::Fragment;
  static constexpr int kBlocks = Tile::kBlocks, kSlices = Tile::kSlices, kSlice = Tile::kSlice;
  static constexpr bool kDirectMain = Results::kDirect == Results::kResults;
  using Main = MainOfResults<Visitor, kDirectMain>;
  static_assert(!Tile::kSwap && Tile::kTogether > 1 && Visitor::kSide != SideStore::kAfter,
                "neighbouring channels exist together, and a thread has them");

  const Tile& tile;
  const At& at;

  UNISONO_DEVICE int lane() const { return tile.thread & 31; }

  // f(x, column, r) is what is left of an element of row number r once it is normalised.
  template <class F>
  UNISONO_DEVICE void store(F&& normalised) const {
    const TileRows<Tile, true> rows(tile, at);
    typename Tile::template Ring<Visitor::kTensorsBefore, Visitor::kTensors> ring{tile.visitor, tile.geometry,
                                                                                  tile.thread / 32, lane()};
    ring.open(0, Tile::kPairs, at);
    ResultFolds<Tile> folds{tile, at};
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        u32 packed[kSlice / 4];
        int pair = 0;
        folds.open(b);
        tile.template for_pairs<Visitor::kTensorsBefore, Visitor::kTensors>(
            at, b, s, ring, Tile::kPairs,
            [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
              const int p = (b * kSlices + s) * (kSlice / 4) + pair, r = Fragment::thread_row(p),
                        channel = at.first_channel + Fragment::channel(tile.thread, p),
                        m = Fragment::row_of(tile.thread, r);
              const bool exists = at.rows.valid(m) && channel < tile.geometry.channels;
              float of_x[Results::kResults], of_y[Results::kResults];
              results(normalised(as_float(x), one, r), normalised(as_float(y), two, r), one + Tile::kBefore,
                      two + Tile::kBefore, t1, t2, rows.value[r], exists, of_x, of_y, folds, s, pair);
              packed[pair] = Main::pack(of_x, of_y);
              if (exists) put(tile.offset_of(at, m, channel), of_x + Main::kFirstDirect, of_y + Main::kFirstDirect);
              ++pair;
            });
        if (!kDirectMain) tile.store_main_pairs(at, b * kSlices + s, packed);
        folds.close(b, s);
      }
    folds.put();
  }
  // Those of a pair, and what they add to reductions.
  template <class Row, class Folds>
  UNISONO_DEVICE void results(float x, float y, const float* one, const float* two, const float* t1, const float* t2,
                              const Row& row, bool exists, float* of_x, float* of_y, Folds& folds, int s,
                              int pair) const {
    using Of = ResultsAndShares<Visitor>;
    float shares[2][larger(1, PassFolds<Visitor>::kValues)] = {};
    Of::of(x, one, t1, row, tile.uniform, exists, of_x, shares[0]);
    Of::of(y, two, t2, row, tile.uniform, exists, of_y, shares[1]);
    folds.add_values(s, pair, shares[0], shares[1]);
  }

  UNISONO_DEVICE void put(u64 offset, const float* x, const float* y) const {
    for_indices<0, Results::kDirect>([&](auto i) { this->put<i.kValue>(offset, x[i.kValue], y[i.kValue]); });
  }
  template <int i>
  UNISONO_DEVICE void put(u64 offset, float x, float y) const {
    delay_point();
    Visitor::template direct<i>(tile.visitor, tile.main_memory()).put(offset, x, y);
  }
};

}  // namespace unisono
