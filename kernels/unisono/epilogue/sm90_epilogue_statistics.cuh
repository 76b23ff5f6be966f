// What a tile stores before its statistics, its moments, and tiles that wait for the second pass.
#pragma once
#include "unisono/epilogue/sm90_epilogue.cuh"

namespace unisono {

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::store_before(const At& at, int b, int s,
                                                            const u32 (&packed)[kSlice / 4]) const {
  const int warp = thread / 32, lane = thread & 31;
  const int place = (b * kSlices + s) % kSideBuffers;
  if (!kShared && lane == 0) {
    // The tile before may have ended in this place, with no other group of stores since
    if (b + s == 0 && kStoresPerTile % kSideBuffers != 0)
      tma_store_wait_read<0>();
    else
      tma_store_wait_read<kSideBuffers - 1>();
  }
  if (!kShared) __syncwarp();
  write_slice(side_staging(0, place), kSideStaging, packed);
  close_slice<kSideBuffers>();
  Leaving::send_side(*this, side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
  Leaving::commit(*this);
}

template <class Config, class Visitor>
UNISONO_DEVICE void Epilogue<Config, Visitor>::reduce_and_publish(const At& at) {
  if constexpr (ExchangedOf<Visitor>::kAny)
    return sync();  // published by apply_before; what is read may be overwritten
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
        Held::split(Exchanged::template kept<Epilogue>(as_float(x), one),
                    Exchanged::template kept<Epilogue>(as_float(y), two), planes);
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
