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
  if constexpr (kNormalises) load_offsets(at, spilled, lane);
  __syncwarp();
  const Chunk chunk(*this, lane);
  Folds folds(first, at);
#pragma unroll kStepsUnrolled
  for (int step = 0; step < kSteps; ++step) {
    if (spilled) tiles.await(step);
    folds.open();
    if constexpr (First::kInPlanes)
      normalise_planes(at, step, lane, folds);
    else
      normalise(at, chunk, step, lane, folds);
    folds.close(step % First::kBlocks, Tiles::slice_of(step));
    if constexpr (!kBeside) tiles.store_step(at, step);
  }
  if (spilled) ++tiles.rounds;
  folds.put();
  if constexpr (kBeside) tiles.store(at);
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::load_offsets(const At& at, bool spilled, int lane) const {
  const int units = first.geometry.channels / First::kUnit;
  const Message<Moments>* slot =
      slots_of<Moments>(first.norm) + (size_t(at.image) * first.norm.slots_per_image + at.slot) * units;
  float centre[kCentres];
#pragma unroll
  for (int i = 0; i < kCentres; ++i) {
    const int n = lane + 32 * i;
    if (spilled)
      centre[i] = read_message(slot + smaller(first_channel + n, first.geometry.channels - 1) / First::kUnit).mean;
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
UNISONO_DEVICE u32 SecondPass<Config, Visitor>::pair_of(float x, float y, const float* of_x, const float* of_y,
                                                        const float* tensor_x, const float* tensor_y, const Row& row,
                                                        bool exists, int w, Direct& direct, Folds& folds) const {
  if constexpr (Results::kResults > 0) {
    float of_pair[2][Results::kResults];
    if constexpr (PassFolds<Visitor>::kValues > 0) {
      float values[2][PassFolds<Visitor>::kValues] = {};
      Visitor::results(x, of_x, tensor_x, row, first.uniform, exists, of_pair[0], values[0]);
      Visitor::results(y, of_y, tensor_y, row, first.uniform, exists, of_pair[1], values[1]);
      folds.add(2 * w, values[0], exists);
      folds.add(2 * w + 1, values[1], exists);
    } else {
      Visitor::results(x, of_x, tensor_x, row, first.uniform, exists, of_pair[0]);
      Visitor::results(y, of_y, tensor_y, row, first.uniform, exists, of_pair[1]);
    }
    direct.put(w, of_pair[0] + !kWideMain, of_pair[1] + !kWideMain);
    if constexpr (kWideMain)
      return 0;
    else
      return Visitor::Output::pack(of_pair[0][0], of_pair[1][0]);
  } else {
    return Visitor::Output::pack(Visitor::after(x, 0.f, of_x, tensor_x, first.uniform),
                                 Visitor::after(y, 0.f, of_y, tensor_y, first.uniform));
  }
}

template <class Config, class Visitor>
template <class Direct>
UNISONO_DEVICE void SecondPass<Config, Visitor>::store_direct(const Direct& direct, const At& at, int slice, int chunk,
                                                              bool valid, u64 offset) const {
  if constexpr (Results::kDirect > 0) {
    const int even = at.first_channel + slice + 8 * (chunk & ~1), channels = first.geometry.channels;
    direct.template store<kLanesPerRow, kHints>(
        first.visitor, first.fixed.side_memory,
        {offset, chunk % 2 == 1, valid && even < channels, valid && even + 8 < channels});
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::normalise(const At& at, Chunk columns, int step, int lane,
                                                           Folds& folds) const {
  const int m = Tiles::row_of(step, first.thread / 32), slice = Tiles::slice_of(step);
  const int chunk = lane % kLanesPerRow, first_row = lane / kLanesPerRow, n = slice + 8 * chunk;
  if (first_row >= 16) return;
  constexpr bool kSide = First::kSide == SideStore::kAfter, kMany = Results::kResults > 0;
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
      u32 words[4], beside[kSide ? 4 : 1];
      ResultOctets<Visitor, 0, (Results::kDirect > 0)> direct;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float2 stored = stored_pair(raw[j], w);
        const float x = kNormalises ? fmaf(stored.x, columns.factor[w].x, columns.offset[w].x) : stored.x,
                    y = kNormalises ? fmaf(stored.y, columns.factor[w].y, columns.offset[w].y) : stored.y;
        float tensor[2][larger(1, kTensors)];
        tensors[j].pair(w, tensor[0], tensor[1]);
        const float *of_x = columns.columns[2 * w], *of_y = columns.columns[2 * w + 1];
        words[w] = pair_of(x, y, of_x, of_y, tensor[0], tensor[1], rows[j], exists(i), w, direct, folds);
        if constexpr (kSide)
          beside[w] = Visitor::Side::pack(Visitor::side(x, of_x, tensor[0], first.uniform),
                                          Visitor::side(y, of_y, tensor[1], first.uniform));
      }
      if constexpr (!kWideMain) *at_row(i, 0) = {words[0], words[1], words[2], words[3]};
      if constexpr (kSide)
        if (exists(i)) store_octet(static_cast<u16*>(first.fixed.side_memory) + offset_of(i), beside);
      store_direct(direct, at, slice, chunk, valid(i), offset_of(i));
    }
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::normalise_planes(const At& at, int step, int lane,
                                                                  Folds& folds) const {
  using Planes = typename First::Planes;
  constexpr bool kSide = First::kSide == SideStore::kAfter;
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
    u32 words[4], beside[kSide ? 4 : 1];
    ResultOctets<Visitor, 0, (Results::kDirect > 0)> direct;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 stored = stored_pair(raw, w);
      const float x = fmaf(stored.x, column(1)[n], offsets()[n]), y = fmaf(stored.y, column(1)[n], offsets()[n]);
      float tensor[2][larger(1, kTensors)];
      tensors.pair(w, tensor[0], tensor[1]);
      words[w] = pair_of(x, y, columns, columns, tensor[0], tensor[1], 0, exists, w, direct, folds);
      if constexpr (kSide)
        beside[w] = Visitor::Side::pack(Visitor::side(x, columns, tensor[0], first.uniform),
                                        Visitor::side(y, columns, tensor[1], first.uniform));
    }
    OctetStores<Config, Visitor>{first}.put(eight, at, m, channel, {words[0], words[1], words[2], words[3]});
    if constexpr (kSide)
      if (exists) store_octet(static_cast<u16*>(first.fixed.side_memory) + offset, beside);
  }
}

}  // namespace unisono
