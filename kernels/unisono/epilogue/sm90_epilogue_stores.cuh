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

template <class Config, class Visitor>
template <int kFirst, int kEnd, class Tensors, class F>
UNISONO_DEVICE void Epilogue<Config, Visitor>::for_pairs(const At& at, int b, int s, Tensors& ring, int end,
                                                         F&& f) const {
  if constexpr (kSwap) {
    const int warp = thread / 32, lane = thread & 31;
    int p = (b * kSlices + s) * (kSlice / 4);
    float column[2][larger(1, kColumns)];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) column[half][c] = columns()[c * kN + 64 * s + 16 * warp + lane / 4 + 8 * half];
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half, ++p) {
        float t1[larger(1, kEnd - kFirst)] = {}, t2[larger(1, kEnd - kFirst)] = {};
        ring.take(p, end, t1, t2, at);
        float* pair = acc[s] + 4 * (8 * b + j) + 2 * half;
        f(pair[0], pair[1], column[half], column[half], t1, t2);
      }
  } else {
    for_pairs_of_slice<kEnd - kFirst>(*this, at, b, s, ring, end, f);
  }
}

template <class Config, class Visitor>
template <int kBuffers, bool kFetches>
UNISONO_DEVICE void Epilogue<Config, Visitor>::close_slice() const {
  fence_async_shared();
  if (kShared && !kFetches && (thread & 31) == 0) tma_store_wait_read<larger(0, kBuffers - 2)>();
  meet();
}

template <class Config, class Visitor>
UNISONO_DEVICE auto Epilogue<Config, Visitor>::slice_place(const At& at, int m, int channel) -> SlicePlace {
  if constexpr (kInPlanes)
    return {at.rows.store_x(m / 64 * 64), channel + m % 64 / 16 * (kSlice / 4), at.rows.store_y(m / 64 * 64)};
  else
    return {channel, at.rows.store_x(m), at.rows.store_y(m)};
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_slice(const TensorMap& map, const u8* buffer, const At& at, int m,
                                                           int slice) {
  delay_point();
  const SlicePlace to = slice_place(at, m, at.first_channel + slice);
  with_hint<Hints<Config>::kValue>(kEvictFirst, [&](auto... hint) {
    tma_store_4d(map, shared_address(buffer), to.x, to.y, to.z, at.image, hint...);
  });
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_pooled(const u8* buffer, const At& at, int m, int slice) const {
  if constexpr (Resample::kPooled) {
    constexpr int kChunks = kSlice / 8;
    const int lane = thread & 31, chunk = lane % kChunks, window = lane / kChunks;
    const int image_row = (at.rows.top + m / 8) / 2, pixel = at.rows.left / 2 + window,
              channel = at.first_channel + slice + 8 * chunk;
    if (window >= 4 || image_row >= geometry.height / 2 || pixel >= geometry.width / 2 || channel >= geometry.channels)
      return;
    auto load = [&](int row) {
      return *reinterpret_cast<const uint4*>(buffer + SliceSwizzle<kSlice>::offset(row, chunk));
    };
    using Element = typename Visitor::Output;
    const uint4 upper = largest<Element>(load(2 * window), load(2 * window + 1)),
                lower = largest<Element>(load(8 + 2 * window), load(9 + 2 * window));
    const PooledOutput& to = reinterpret_cast<const PooledOutput&>(further[Resample::kCopies]);
    const u64 row = (u64(at.image) * (geometry.height / 2) + image_row) * (geometry.width / 2) + pixel;
    delay_point();
    *reinterpret_cast<uint4*>(static_cast<u16*>(to.memory) + row * to.pitch + channel) = largest<Element>(upper, lower);
  }
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
  if constexpr (!kByTma) {
    store_plain(fixed.output, buffer, at, m, slice);
    if constexpr (kBoth) store_plain(fixed.side, side_staging(warp, place), at, m, slice);
  } else if ((thread & 31) == 0) {
    if constexpr (!stores_octets<Config>()) store_main(buffer, at, m, slice);
    if constexpr (kBoth) store_slice(side_map(at), side_staging(warp, place), at, m, slice);
    if (last) tma_store_commit();
  }
  if constexpr (stores_octets<Config>()) OctetStores<Config, Visitor>{*this}.store(buffer, at, m, slice);
  store_pooled(buffer, at, m, slice);
}

template <class Config, class Visitor>
template <int kFirst, int kEnd, bool kBoth, class F, class G>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store(const At& at, F&& f, G&& g) {
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
      u32 packed[kSlice / 4], beside[kBoth ? kSlice / 4 : 1];
      int pair = 0;
      fetch.await(b * kSlices + s, ring);
      for_pairs<kFirst, kEnd>(
          at, b, s, ring, kPairs,
          [&](float& own_x, float& own_y, const float* one, const float* two, const float* t1, const float* t2) {
            const float x = as_float(own_x), y = as_float(own_y);
            const int row = 2 * b + (pair & 1);
            packed[pair] = Visitor::Output::pack(f(x, one, t1, row), f(y, two, t2, row));
            if constexpr (kMoments > 0) {
              const float2 stored = Visitor::Output::unpack(packed[pair]);
              own_x = as_float(stored.x), own_y = as_float(stored.y);
            }
            if constexpr (kBoth) beside[pair] = Visitor::Side::pack(g(x, one, t1, row), g(y, two, t2, row));
            ++pair;
          });
      if (!kShared && !kFetches) await_buffers<kTogether>(b * kSlices + s);
      write_slice(staging(0) + place * kSliceBytes, kStaging, packed);
      if constexpr (kBoth) write_slice(side_staging(0, place), kSideStaging, beside);
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
  if constexpr (kShared) {
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
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_pairs(const At& at, int b, int s, const u32 (&packed)[kSlice / 4],
                                                           const u32 (&beside)[kSlice / 4]) const {
  store_slices<kInOrder, kFetches, kBoth>(at, b, s, thread / 32, [&](int place) {
    write_slice(staging(0) + place * kSliceBytes, kStaging, packed);
    if constexpr (kBoth) write_slice(side_staging(0, place), kSideStaging, beside);
  });
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
