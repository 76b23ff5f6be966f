// The second pass of one tile: its values, wherever they wait, are normalised and stored.
#pragma once
#include "unisono/epilogue/sm90_second_pass.cuh"

namespace unisono {

template <class Config, class Visitor>
template <bool kBeside>
UNISONO_DEVICE void SecondPass<Config, Visitor>::finish(const At& at, bool spilled, bool later) {
  const int lane = first.thread & 31;
  if (spilled) tiles.let_go();
  __syncwarp();  // the offsets of the tile before are read, and so are its subtiles
  if (spilled && lane == 0) tiles.bring_back(at, later);
  Values::load_offsets(*this, at, spilled, lane);
  __syncwarp();
  const Chunk chunk(*this, lane);
  Folds folds(first, at);
#pragma unroll kStepsUnrolled
  for (int step = 0; step < kSteps; ++step) {
    if (spilled) tiles.await(step);
    folds.open();
    normalise(Either<First::kInPlanes, InPlanes, InRows>(), at, chunk, step, lane, folds);
    folds.close(step % First::kBlocks, Tiles::slice_of(step));
    if (!kBeside) tiles.store_step(at, step);
  }
  if (spilled) ++tiles.rounds;
  folds.put();
  if (kBeside) tiles.store(at);
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::load_offsets(const At& at, bool spilled, int lane) const {
  using Of = typename First::PiecesOf;
  const int pieces = Of::before(first.norm, first.geometry.channels);
  const Message<Moments>* slot =
      slots_of<Moments>(first.norm) + (size_t(at.image) * first.norm.slots_per_image + at.slot) * pieces;
  float centre[kCentres];
#pragma unroll
  for (int i = 0; i < kCentres; ++i) {
    const int n = lane + 32 * i;
    if (spilled)
      centre[i] = read_message(slot + Of::of(first.norm, smaller(first_channel + n, first.geometry.channels - 1))).mean;
    else
      centre[i] = n < kN ? centres()[n] : 0.f;
  }
#pragma unroll
  for (int i = 0; i < kCentres; ++i) {
    const int n = lane + 32 * i;
    if (n < kN) offsets()[n] = fmaf(centre[i] - column(0)[n], column(1)[n], column(2)[n]);
  }
}

template <class Config, class Visitor>
template <class Row, class Direct>
UNISONO_DEVICE u32 SecondPass<Config, Visitor>::pair_of(OneOrTwo, float2 y, const float* of_x, const float* of_y,
                                                        const float* tensor_x, const float* tensor_y, const Row&, bool,
                                                        int, Direct&, Folds&) const {
  return Visitor::Output::pack(Visitor::after(y.x, 0.f, of_x, tensor_x, first.uniform),
                               Visitor::after(y.y, 0.f, of_y, tensor_y, first.uniform));
}
template <class Config, class Visitor>
template <class Row, class Direct>
UNISONO_DEVICE u32 SecondPass<Config, Visitor>::pair_of(Named, float2 y, const float* of_x, const float* of_y,
                                                        const float* tensor_x, const float* tensor_y, const Row& row,
                                                        bool exists, int w, Direct& direct, Folds& folds) const {
  using Of = ResultsAndShares<Visitor>;
  using Main = MainOfResults<Visitor, kWideMain>;
  float of_pair[2][Results::kResults], shares[2][larger(1, PassFolds<Visitor>::kValues)] = {};
  Of::of(y.x, of_x, tensor_x, row, first.uniform, exists, of_pair[0], shares[0]);
  Of::of(y.y, of_y, tensor_y, row, first.uniform, exists, of_pair[1], shares[1]);
  folds.add(2 * w, shares[0], exists);
  folds.add(2 * w + 1, shares[1], exists);
  direct.put(w, of_pair[0] + Main::kFirstDirect, of_pair[1] + Main::kFirstDirect);
  return Main::pack(of_pair[0], of_pair[1]);
}

// Eight elements of a lane of the second store, if there is one, which leave from registers.
template <class Tile, bool kAny>
struct SideOctet {
  using Visitor = typename Tile::EpilogueVisitor;
  u32 words[4];
  UNISONO_DEVICE void put(const Tile& tile, int w, float2 y, const float* of_x, const float* of_y,
                          const float* tensor_x, const float* tensor_y) {
    words[w] = Visitor::Side::pack(Visitor::side(y.x, of_x, tensor_x, tile.uniform),
                                   Visitor::side(y.y, of_y, tensor_y, tile.uniform));
  }
  UNISONO_DEVICE void store(const Tile& tile, u64 offset) const {
    store_octet(static_cast<u16*>(tile.fixed.side_memory) + offset, words);
  }
};
template <class Tile>
struct SideOctet<Tile, false> {
  UNISONO_DEVICE void put(const Tile&, int, float2, const float*, const float*, const float*, const float*) {}
  UNISONO_DEVICE void store(const Tile&, u64) const {}
};

// Where an octet of planes that is normalised goes: to memory, or in the place of the values.
template <class Tile, bool kOctets>
struct NormalisedOctet {
  static UNISONO_DEVICE void put(const Tile& tile, u8*, const typename Tile::At& at, int m, int channel, uint4 eight) {
    OctetStores<typename Tile::Configuration, typename Tile::EpilogueVisitor>{tile}.put(at, m, channel, eight);
  }
};
template <class Tile>
struct NormalisedOctet<Tile, false> {
  static UNISONO_DEVICE void put(const Tile&, u8* from, const typename Tile::At&, int, int, uint4 eight) {
    *reinterpret_cast<uint4*>(from) = eight;
  }
};

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::normalise(InRows, const At& at, Chunk columns, int step, int lane,
                                                           Folds& folds) const {
  const int m = Tiles::row_of(step, first.thread / 32), slice = Tiles::slice_of(step);
  const int chunk = lane % kLanesPerRow, first_row = lane / kLanesPerRow, n = slice + 8 * chunk;
  if (first_row >= 16) return;
  constexpr bool kMany = Results::kResults > 0;
  using Rows = RowValues<Visitor, kMany>;
  auto at_row = [&](int i, int plane) {
    const int row = i * kRowsAtOnce + first_row;
    return reinterpret_cast<uint4*>(tiles.subtile_of(step, plane) + SliceSwizzle<kSlice>::offset(row, chunk));
  };
  auto valid = [&](int i) { return at.rows.valid(m + i * kRowsAtOnce + first_row); };
  auto exists = [&](int i) { return valid(i) && at.first_channel + n < first.geometry.channels; };
  auto pixel_of = [&](int i) { return at.rows.pixel(m + i * kRowsAtOnce + first_row); };
  auto offset_of = [&](int i) {
    return (u64(at.image) * first.geometry.rows + pixel_of(i)) * first.geometry.channels + at.first_channel + n;
  };
  if (kMany && !Chunk::kOnce) columns.read(*this, n);
#pragma unroll 1
  for (int start = 0; start < kPieces; start += kPiecesAtOnce) {
    uint4 raw[kPiecesAtOnce][kPlanes];
    Octets<Visitor, kFirstTensor, (kTensors > 0)> tensors[kPiecesAtOnce] = {};
    typename Rows::Type rows[kPiecesAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kPiecesAtOnce; ++j) {
      const int i = start + j;
#pragma unroll
      for (int plane = 0; plane < kPlanes; ++plane) raw[j][plane] = *at_row(i, plane);
      if (kTensors > 0 && exists(i)) tensors[j].load(first.visitor, offset_of(i), first.geometry.channels);
      if (kMany && exists(i))
        rows[j] = Rows::of(first.visitor, first.uniform, {at.image, at.image * first.geometry.rows + pixel_of(i)});
    }
    if (!kMany && !Chunk::kOnce) columns.read(*this, n);
#pragma unroll
    for (int j = 0; j < kPiecesAtOnce; ++j) {
      const int i = start + j;
      folds.begin_row(valid(i));
      u32 words[4];
      SideOctet<First, First::kSide == SideStore::kAfter> beside;
      ResultOctets<Visitor, 0, (Results::kDirect > 0)> direct;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float2 y = columns.values.of(stored_pair(raw[j], w), w);
        float tensor[2][larger(1, kTensors)];
        tensors[j].pair(w, tensor[0], tensor[1]);
        const float *of_x = columns.columns[2 * w], *of_y = columns.columns[2 * w + 1];
        words[w] = pair_of(Index<kMany>(), y, of_x, of_y, tensor[0], tensor[1], rows[j], exists(i), w, direct, folds);
        beside.put(first, w, y, of_x, of_y, tensor[0], tensor[1]);
      }
      if (!kWideMain) *at_row(i, 0) = {words[0], words[1], words[2], words[3]};
      if (exists(i)) beside.store(first, offset_of(i));
      const int even = at.first_channel + slice + 8 * (chunk & ~1), channels = first.geometry.channels;
      direct.template store<kLanesPerRow, kHints>(
          first.visitor, first.fixed.side_memory,
          {offset_of(i), chunk % 2 == 1, valid(i) && even < channels, valid(i) && even + 8 < channels});
    }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::normalise(InPlanes, const At& at, const Chunk&, int step, int lane,
                                                           Folds& folds) const {
  using Planes = typename First::Planes;
  const int block = Tiles::row_of(step, 0), quarter = Tiles::slice_of(step) + first.thread / 32 * Planes::kChannels;
  const ConvGeometry& g = first.geometry;
  u8* const subtile = tiles.subtile_of(step);
#pragma unroll
  for (int i = 0; i < Planes::kOctets / 32; ++i) {
    const auto place = Planes::place(i, lane);
    const int n = quarter + place.channel, m = block + 8 * place.octet, channel = at.first_channel + n;
    u8* const eight =
        subtile + (Planes::at(shared_address(subtile), place.channel, place.octet) - shared_address(subtile));
    const uint4 raw[kPlanes] = {*reinterpret_cast<const uint4*>(eight)};
    const bool exists = at.rows.valid(m) && channel < g.channels;  // of eight pixels all or none
    const u64 offset = (u64(at.image) * g.channels + channel) * g.rows + (exists ? at.rows.pixel(m) : 0);
    Octets<Visitor, kFirstTensor, (kTensors > 0)> tensors = {};
    if (kTensors > 0 && exists) tensors.load(first.visitor, offset, g.channels);
    float columns[larger(1, Visitor::kColumnsAfter)];
#pragma unroll
    for (int c = 0; c < Visitor::kColumnsAfter; ++c) columns[c] = column(kFirstColumn + c)[n];
    u32 words[4];
    SideOctet<First, First::kSide == SideStore::kAfter> beside;
    ResultOctets<Visitor, 0, false> direct;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 stored = stored_pair(raw, w);
      const float2 y = {fmaf(stored.x, column(1)[n], offsets()[n]), fmaf(stored.y, column(1)[n], offsets()[n])};
      float tensor[2][larger(1, kTensors)];
      tensors.pair(w, tensor[0], tensor[1]);
      words[w] = pair_of(OneOrTwo(), y, columns, columns, tensor[0], tensor[1], 0, exists, w, direct, folds);
      beside.put(first, w, y, columns, columns, tensor[0], tensor[1]);
    }
    NormalisedOctet<First, Tiles::kOctets>::put(first, eight, at, m, channel, {words[0], words[1], words[2], words[3]});
    if (exists) beside.store(first, offset);
  }
}

}  // namespace unisono
