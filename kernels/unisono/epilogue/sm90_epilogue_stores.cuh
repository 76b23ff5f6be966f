// How an epilogue walks over a tile and stores it: slice by slice, through the staging buffers.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/epilogue/sm90_octet_stores.cuh"

namespace unisono {

template <class Config, class Visitor>
template <int kFirst, int kEnd, class F>
UNISONO_DEVICE void Epilogue<Config, Visitor>::for_pairs(const At& at, int b, int s, F&& f) const {
  const int first = (b * kSlices + s) * (kSlice / 4), end = first + kSlice / 4;
  Ring<kFirst, kEnd> ring{visitor, geometry, thread / 32, thread & 31};
  ring.open(first, end, at);
  for_pairs<kFirst, kEnd>(at, b, s, ring, end, f);
}

// Pairs of slice s of block b with the operands swapped: neighbouring rows of a channel.
template <class Tile, bool kSwap>
struct PairsOfSlice {
  template <int kOperands, class Tensors, class F>
  static UNISONO_DEVICE void for_each(const Tile& tile, const typename Tile::At& at, int b, int s, Tensors& ring,
                                      int end, F&& f) {
    const int warp = tile.thread / 32, lane = tile.thread & 31;
    int p = (b * Tile::kSlices + s) * (Tile::kSlice / 4);
    float column[2][larger(1, Tile::kColumns)];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c)
        column[half][c] = tile.columns()[c * Tile::kN + 64 * s + 16 * warp + lane / 4 + 8 * half];
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half, ++p) {
        float t1[larger(1, kOperands)] = {}, t2[larger(1, kOperands)] = {};
        ring.take(p, end, t1, t2, at);
        float* pair = tile.acc[s] + 4 * (8 * b + j) + 2 * half;
        f(pair[0], pair[1], column[half], column[half], t1, t2);
      }
  }
};
template <class Tile>
struct PairsOfSlice<Tile, false> {
  template <int kOperands, class Tensors, class F>
  static UNISONO_DEVICE void for_each(const Tile& tile, const typename Tile::At& at, int b, int s, Tensors& ring,
                                      int end, F&& f) {
    for_pairs_of_slice<kOperands>(tile, at, b, s, ring, end, f);
  }
};

template <class Config, class Visitor>
template <int kFirst, int kEnd, class Tensors, class F>
UNISONO_DEVICE void Epilogue<Config, Visitor>::for_pairs(const At& at, int b, int s, Tensors& ring, int end,
                                                         F&& f) const {
  PairsOfSlice<Epilogue, kSwap>::template for_each<kEnd - kFirst>(*this, at, b, s, ring, end, f);
}

template <class Config, class Visitor>
template <int kBuffers, bool kFetches>
UNISONO_DEVICE void Epilogue<Config, Visitor>::close_slice() const {
  fence_async_shared();
  if (kShared && !kFetches && (thread & 31) == 0) tma_store_wait_read<larger(0, kBuffers - 2)>();
  meet();
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_slice(const TensorMap& map, const u8* buffer, const At& at, int m,
                                                           int slice) {
  delay_point();
  const SlicePlace to = slice_place(at, m, at.first_channel + slice);
  CacheHints<Hints<Config>::kValue>::call(kEvictFirst, [&](auto... hint) {
    tma_store_4d(map, shared_address(buffer), to.x, to.y, to.z, to.image, hint...);
  });
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_plain(const TensorMap& map, const u8* buffer, const At& at, int m,
                                                           int slice) const {
  u16* memory = static_cast<u16*>(reinterpret_cast<const PlainOutput&>(map).memory);
  delay_point();
#pragma unroll
  for (int i = 0; i < kSlice / 2; ++i) {
    const int element = i * 32 + (thread & 31);  // neighbours in a warp are neighbours in memory
    const int row = kStores == Stores::kPlanes ? element % 16 : element / kSlice,
              n = kStores == Stores::kPlanes ? element / 16 : element % kSlice;
    const int channel = at.first_channel + slice + n;
    if (at.rows.valid(m + row) && channel < geometry.channels)
      memory[offset_of(at, m + row, channel)] =
          *reinterpret_cast<const u16*>(buffer + SliceSwizzle<kSlice>::offset(row, n / 8) + n % 8 * 2);
  }
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_main(const u8* buffer, const At& at, int m, int slice) const {
  store_slice(output_map(at), buffer, at, m, slice);
#pragma unroll
  for (int i = 0; i < Resample::kCopies; ++i) store_slice(further[i], buffer, at, m, slice);
}

template <class Config, class Visitor>
template <int kTogether>
UNISONO_DEVICE void Epilogue<Config, Visitor>::await_buffers(int i) const {
  if (i % kTogether != 0 || (kStoreBuffers == kStoresPerTile && i > 0)) return;
  if ((thread & 31) == 0) {
    if (i == 0 && (kStoresPerTile % kStoreBuffers != 0 || kStoreBuffers == kStoresPerTile))
      tma_store_wait_read<0>();
    else
      tma_store_wait_read<kStoreBuffers / kTogether - 1>();
  }
  __syncwarp();
}

template <class Config, class Visitor>
template <bool kBoth>
UNISONO_DEVICE void Epilogue<Config, Visitor>::send_slice(const At& at, int warp, int place, int m, int slice,
                                                          bool last) const {
  u8* const buffer = staging(warp) + place * kSliceBytes;
  Leaving::send_main(*this, buffer, at, m, slice);
  if (kBoth) Leaving::send_side(*this, side_staging(warp, place), at, m, slice);
  if (last) Leaving::commit(*this);
  Leaving::send_after(*this, buffer, at, m, slice);
  store_pooled(buffer, at, m, slice);
}

template <class Config, class Visitor>
template <int kFirst, int kEnd, bool kBoth, class Of>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store(const At& at, const Of& of) {
  const int warp = thread / 32, lane = thread & 31;
  constexpr bool kFetches = kFetch > 0 && kFirst < kEnd && !kFetchBefore;
  constexpr int kTogether = kShared || kFetches || kStores != Stores::kTma ? 1 : kStoreGroup;
  Ring<kFirst, kEnd, kFetches ? kFetch : 0> ring{visitor, geometry, warp, lane};
  const Fetching<kFetches> fetch{*this};
  ring.open(0, kPairs, at);
  if (kShared && !kFetches) open_staging();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      const int place = (b * kSlices + s) % kStoreBuffers;
      StoredPairs<Visitor, kSlice / 4, kBoth> packed;
      int pair = 0;
      fetch.await(b * kSlices + s, ring);
      for_pairs<kFirst, kEnd>(
          at, b, s, ring, kPairs,
          [&](float& own_x, float& own_y, const float* one, const float* two, const float* t1, const float* t2) {
            const float x = as_float(own_x), y = as_float(own_y);
            packed.put(pair, of, x, y, one, two, t1, t2, 2 * b + (pair & 1));
            if (kMoments > 0) {
              const float2 stored = Visitor::Output::unpack(packed.main[pair]);
              own_x = as_float(stored.x), own_y = as_float(stored.y);
            }
            ++pair;
          });
      if (!kShared && !kFetches) await_buffers<kTogether>(b * kSlices + s);
      write_pairs(place, packed);
      if ((b * kSlices + s + 1) % kTogether != 0 && b * kSlices + s + 1 < kStoresPerTile) continue;
      close_slice<kStoreBuffers, kFetches>();
      const int first = (b * kSlices + s) / kTogether * kTogether;
#pragma unroll
      for (int i = first; i <= b * kSlices + s; ++i) {
        send_slice<kBoth>(at, warp, i % kStoreBuffers, 64 * (i / kSlices) + 16 * warp, i % kSlices * kSlice,
                          i == b * kSlices + s);
      }
      fetch.refill(at, b * kSlices + s);
    }
}

template <class Config, class Visitor>
template <bool kInOrder, bool kFetches, bool kBoth, class F>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_slices(const At& at, int b, int s, int warp,
                                                            const F& write) const {
  const int lane = thread & 31, place = (kInOrder ? b * kSlices + s : s * kBlocks + b) % kStoreBuffers;
  if (kShared) {
    if (!kFetches && b + s == 0) open_staging();
  } else if (!kFetches && lane == 0) {
    if (kStoresPerTile % kStoreBuffers != 0 && b + s == 0)
      tma_store_wait_read<0>();
    else
      tma_store_wait_read<kStoreBuffers - 1>();
  }
  __syncwarp();
  write(place);
  close_slice<kStoreBuffers, kFetches>();
  send_slice<kBoth>(at, warp, place, 64 * b + 16 * warp, s * kSlice, true);
}

template <class Config, class Visitor>
template <bool kInOrder, bool kFetches, bool kBoth>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_pairs(const At& at, int b, int s,
                                                           const PackedPairs<kSlice / 4, kBoth>& pairs) const {
  store_slices<kInOrder, kFetches, kBoth>(at, b, s, thread / 32, [&](int place) { write_pairs(place, pairs); });
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_main_pairs(const At& at, int i,
                                                                const u32 (&packed)[kSlice / 4]) const {
  const int place = i % kStoreBuffers, warp = thread / 32;
  await_buffers<1>(i);
  write_slice(staging(0) + place * kSliceBytes, kStaging, packed);
  close_slice<kStoreBuffers>();
  if ((thread & 31) != 0) return;
  store_main(staging(warp) + place * kSliceBytes, at, 64 * (i / kSlices) + 16 * warp, i % kSlices * kSlice);
  tma_store_commit();
}

}  // namespace unisono
