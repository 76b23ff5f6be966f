// How a tile is normalised: what comes ahead of it, the statistics, and tiles that wait for the second pass.
#pragma once
#include "unisono/epilogue/row_results.cuh"
#include "unisono/epilogue/sm90_epilogue.cuh"
#include "unisono/epilogue/sm90_pass_folds.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_before(const At& at, int b, int s,
                                                            const u32 (&packed)[kSlice / 4]) const {
  const int warp = thread / 32, lane = thread & 31;
  const int place = (b * kSlices + s) % kSideBuffers;
  if (!kShared && lane == 0) tma_store_wait_read<kSideBuffers - 1>();
  if (!kShared) __syncwarp();
  write_slice(side_staging(0, place), kSideStaging, packed);
  close_slice<kSideBuffers>();
  if constexpr (!kByTma)
    store_plain(fixed.side, side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
  else if (lane == 0)
    store_slice(side_map(at), side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice), tma_store_commit();
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::apply_before(const At& at) {
  constexpr bool kFetches = kFetch > 0 && kFetchBefore;
  Ring<0, kTensorsBefore, kFetches ? kFetch : 0> ring{visitor, geometry, thread / 32, thread & 31};
  const Fetch<Epilogue> fetch{*this};
  ring.open(0, kPairs, at);
  if constexpr (kShared && kSide == SideStore::kBefore) open_staging();
  AheadFolds<Config, Visitor> folds{*this, at};
  using Ahead = AheadOfRows<Visitor, ReadsRowsBefore<Visitor>::kValue>;
  const TileRows<Epilogue, ReadsRowsBefore<Visitor>::kValue> rows(*this, at);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      u32 packed[kSlice / 4];
      folds.open(b);
      int pair = 0, row = 2 * b;
      if constexpr (kFetches) fetch.await((b * kSlices + s) % kStoreBuffers, ring);
      for_pairs<0, kTensorsBefore>(
          at, b, s, ring, kPairs,
          [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
            const float v = as_float(x), w = as_float(y);
            folds.add(s, v, w, one, two, t1, t2);
            const auto& of = rows.value[row];
            row ^= 1;
            if constexpr (kSide == SideStore::kBefore)
              packed[pair++] =
                  Visitor::Side::pack(Ahead::side(v, one, t1, of, uniform), Ahead::side(w, two, t2, of, uniform));
            x = as_float(Ahead::before(v, one, t1, of, uniform));
            y = as_float(Ahead::before(w, two, t2, of, uniform));
          });
      if constexpr (kSide == SideStore::kBefore) store_before(at, b, s, packed);
      folds.close(b, s);
      if constexpr (kFetches) fetch.refill_read(at, b * kSlices + s);
    }
  folds.put();
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::reduce_and_publish(const At& at) {
  if (!kApart) {
    if ((thread & 31) == 0) tma_store_wait_read<0>();  // the staging buffers are about to be reused
    // by warps that they are not of: all four write to each (kShared), or leave their channels' moments in the first's
    if constexpr (kShared || kSwap) sync();
  }
  __syncwarp();
  const bool full = at.rows.all_valid(kPixels);
  MomentPublisher<Epilogue>{*this}.publish(at, full);
  sync();
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::load_statistics(const At& at) const {
  constexpr int kAtOnce =
      kAccBlocks * kAccCount <= 96 && Config::kTileWarpgroups * Config::kConsumerGroups == 2 ? 8 : 4;
  float* column = columns() + kMean * kN;
  const GroupStatistics<Statistic, WarpgroupCrew<kAtOnce>, kN, kScratch, kUnit> statistics(
      norm, {thread, barrier}, reinterpret_cast<Statistic*>(moments(0)), epoch, at.image, at.first_channel,
      geometry.channels);
  statistics.gather();
  trace.mark(6);
  statistics.emit(
      at.slot == 0,
      [&](int, int n, const MeanAndVariance& of) {
        typename Visitor::Late late;
        if constexpr (sizeof(late) >= 4) {
#pragma unroll
          for (int i = 0; i < kLate; ++i) reinterpret_cast<float*>(&late)[i] = column[(1 + i) * kN + n];
        }
        const float2 affine = Visitor::affine(late, uniform, of.mean, of.variance);
        column[kN + n] = affine.x;
        if constexpr (kCentred)
          column[2 * kN + n] = fmaf(column[n] - of.mean, affine.x, affine.y);
        else
          column[n] = of.mean, column[2 * kN + n] = affine.y;
      },
      [&](int group, const MeanAndVariance& of) { record(at.image, group, of.mean, of.variance); });
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::keep_centred(const At& at) const {
  open_staging();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
#pragma unroll
    for (int s = 0; s < kSlices; ++s) {
      u32 packed[Held::kPlanes][kSlice / 4];
      int pair = 0;
      for_pairs<0, 0>(at, b, s, [&](float x, float y, const float* one, const float* two, const float*, const float*) {
        u32 planes[Held::kPlanes];
        Held::split(as_float(x) - one[kMean], as_float(y) - two[kMean], planes);
#pragma unroll
        for (int i = 0; i < Held::kPlanes; ++i) packed[i][pair] = planes[i];
        ++pair;
      });
#pragma unroll
      for (int i = 0; i < Held::kPlanes; ++i)
        write_slice(staging(0) + (i * kStoresPerTile + b * kSlices + s) * kSliceBytes, kStaging, packed[i]);
    }
  fence_async_shared();
}

}  // namespace unisono
