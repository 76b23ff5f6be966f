// The second pass of one tile: its values, wherever they wait, are normalised and stored.
#pragma once
#include "unisono/epilogue/sm90_second_pass.cuh"

namespace unisono {

template <class Config, class Visitor>
template <bool kBeside>
UNISONO_DEVICE void SecondPass<Config, Visitor>::finish(const At& at, bool spilled, bool later) {
  const int warp = first.thread / 32, lane = first.thread & 31;
  if constexpr (kReadsStored)
    if (spilled) fence_async_shared();  // this lane's reads of the tile before come ahead of the loads over it
  __syncwarp();                         // the offsets of the tile before are read, and so are its subtiles
  if (spilled && lane == 0) {
    delay_point();
    if (later)
      tma_store_wait<1>();
    else
      tma_store_wait<0>();     // the tile is written
    tma_store_wait_read<0>();  // the buffers are free
    fence_async_global();
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) load(at, step, warp);
  }
  load_offsets(at, spilled, lane);
  __syncwarp();
  const Chunk chunk(*this, lane);
  typename First::HeadTile head;
  first.begin_head(head, at);
#pragma unroll 2
  for (int step = 0; step < kSteps; ++step) {
    if (spilled) mbarrier_wait(loaded(step), rounds & 1);
    normalise(at, chunk, subtile_of(step), row_of(step, warp), slice_of(step), lane);
    if constexpr (!kBeside) {
      fence_async_shared();
      __syncwarp();
      if (lane == 0) store_subtile(at, step), tma_store_commit();
      first.store_pooled(subtile_of(step), at, row_of(step, warp), slice_of(step));
      multiply_by_head(head, at, step);
    }
  }
  if (spilled) ++rounds;
  if constexpr (kBeside) {
    fence_async_shared();
    __syncwarp();
    store(head, at);
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void SecondPass<Config, Visitor>::load(const At& at, int step, int warp) const {
  mbarrier_arrive_expect(loaded(step), kSubtileBytes);
  tma_load_4d(shared_address(subtile_of(step)), first.output_map(at), loaded(step), at.first_channel + slice_of(step),
              at.rows.store_x(row_of(step, warp)), at.rows.store_y(row_of(step, warp)), at.image);
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
UNISONO_DEVICE void SecondPass<Config, Visitor>::normalise(const At& at, Chunk columns, u8* subtile, int m, int slice,
                                                           int lane) const {
  const int chunk = lane % kLanesPerRow, first_row = lane / kLanesPerRow, n = slice + 8 * chunk;
  if (first_row >= 16) return;
  uint4 raw[kPieces];
  Octets<Visitor, kFirstTensor, (kTensors > 0)> tensors[kPieces] = {};
  constexpr bool kSide = First::kSide == SideStore::kAfter;
  auto at_row = [&](int i) {
    const int row = i * kRowsAtOnce + first_row;
    return reinterpret_cast<uint4*>(subtile + SliceSwizzle<kSlice>::offset(row, chunk));
  };
  auto exists = [&](int i) {
    return at.rows.valid(m + i * kRowsAtOnce + first_row) && at.first_channel + n < first.geometry.channels;
  };
  auto offset_of = [&](int i) {
    return (u64(at.image) * first.geometry.rows + at.rows.pixel(m + i * kRowsAtOnce + first_row)) *
               first.geometry.channels +
           at.first_channel + n;
  };
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    raw[i] = *at_row(i);
    if (kTensors > 0 && exists(i)) tensors[i].load(first.visitor, offset_of(i));
  }
  if (!Chunk::kOnce) columns.read(*this, n);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    u32 words[4], beside[kSide ? 4 : 1];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 stored = Visitor::Output::unpack(word_of(raw[i], w));
      const float x = fmaf(stored.x, columns.factor[w].x, columns.offset[w].x),
                  y = fmaf(stored.y, columns.factor[w].y, columns.offset[w].y);
      float tensor[2][larger(1, kTensors)];
      tensors[i].pair(w, tensor[0], tensor[1]);
      const float *of_x = columns.columns[2 * w], *of_y = columns.columns[2 * w + 1];
      words[w] = Visitor::Output::pack(Visitor::after(x, 0.f, of_x, tensor[0], first.uniform),
                                       Visitor::after(y, 0.f, of_y, tensor[1], first.uniform));
      if constexpr (kSide)
        beside[w] = Visitor::Side::pack(Visitor::side(x, of_x, tensor[0], first.uniform),
                                        Visitor::side(y, of_y, tensor[1], first.uniform));
    }
    *at_row(i) = {words[0], words[1], words[2], words[3]};
    if constexpr (kSide)
      if (exists(i))
        *reinterpret_cast<uint4*>(static_cast<u16*>(first.fixed.side_memory) + offset_of(i)) = {beside[0], beside[1],
                                                                                                beside[2], beside[3]};
  }
}

}  // namespace unisono
