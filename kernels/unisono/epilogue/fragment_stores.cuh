// How packed pairs of a fragment leave registers: pairs, or runs of channels that the lanes of a row exchange.
#pragma once
#include "unisono/epilogue/tile.cuh"
#include "unisono/tile/tile_scheduler.cuh"

namespace unisono {

template <class Tile>
struct FragmentStores {
  using At = typename Tile::At;
  using Visitor = typename Tile::EpilogueVisitor;
  using Fragment = typename Tile::Fragment;
  using Resample = typename Tile::Resample;
  static constexpr int kSlice = Tile::kSlice, kSlices = Tile::kSlices, kTogether = Tile::kTogether;
  static constexpr bool kMakesMore = Resample::kPooled || Resample::kUpsampled;

  const Tile& tile;

  UNISONO_DEVICE i64 row_offset(const At& at, int m, i64 pitch) const {
    return (i64(at.image) * tile.geometry.rows + at.rows.pixel(m)) * pitch;
  }
  template <bool kMain>
  UNISONO_DEVICE void put_slice(void* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
    delay_point();
    constexpr bool kRuns = kTogether == 8 && kSlice >= 16;
    static_assert(kRuns || !kMakesMore, "what is made of the main store leaves by runs of channels");
    put<kMain>(Either<kRuns, Runs, Pairs>(), static_cast<u16*>(to), pitch, at, slice, packed);
  }
  struct Pairs {};
  template <bool kMain>
  UNISONO_DEVICE void put(Pairs, u16* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
#pragma unroll
    for (int i = 0; i < kSlice / 4; ++i) {
      const int pair = slice * (kSlice / 4) + i, m = Fragment::row(tile.thread, pair),
                channel = at.first_channel + Fragment::channel(tile.thread, pair);
      if (!at.rows.valid(m) || channel >= tile.geometry.channels) continue;
      u16* const first = to + row_offset(at, m, pitch) + channel;
      put_pair(Either<(kTogether > 1), Together, OneByOne>(), first, packed[i], channel + 1 < tile.geometry.channels);
    }
  }
  struct Together {};
  static UNISONO_DEVICE void put_pair(Together, u16* to, u32 pair, bool) { *reinterpret_cast<u32*>(to) = pair; }
  struct OneByOne {};
  static UNISONO_DEVICE void put_pair(OneByOne, u16* to, u32 pair, bool next) {
    to[0] = u16(pair);
    if (next) to[1] = u16(pair >> 16);
  }
  // The four lanes of a row have two channels of each chunk of eight. They exchange them, so that each has a chunk, or
  // of 16 channels half a chunk, and stores it at once.
  struct Runs {};
  template <bool kMain>
  UNISONO_DEVICE void put(Runs, u16* to, i64 pitch, const At& at, int slice, const u32 (&packed)[kSlice / 4]) const {
    constexpr int kChunks = kSlice >= 32 ? 4 : 2;
    const int lane = tile.thread & 3;
#pragma unroll
    for (int first = 0; first < kSlice / 8; first += kChunks)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 run[kChunks];
#pragma unroll
        for (int c = 0; c < kChunks; c += 2) {  // chunk c of even lanes, c + 1 of odd ones
          const u32 own[2] = {packed[2 * (first + c) + half], packed[2 * (first + c + 1) + half]};
          const u32 other = __shfl_xor_sync(~0u, lane & 1 ? own[0] : own[1], 1);
          run[c] = lane & 1 ? other : own[0], run[c + 1] = lane & 1 ? own[1] : other;
        }
        int channel = 8 * (first + (lane & 1)) + 4 * (lane / 2);
        if constexpr (kChunks == 4) {
          channel = 8 * (first + lane);
#pragma unroll
          for (int i = 0; i < 2; ++i) {  // the lanes two away have the others of both
            const u32 other = __shfl_xor_sync(~0u, lane & 2 ? run[i] : run[2 + i], 2),
                      own = lane & 2 ? run[2 + i] : run[i];
            run[i] = lane & 2 ? other : own, run[2 + i] = lane & 2 ? own : other;
          }
        }
        const int m = Fragment::row(tile.thread, slice * (kSlice / 4) + half);
        channel += at.first_channel + slice % kSlices * kSlice;
        const bool exists = at.rows.valid(m) && channel < tile.geometry.channels;
        if (exists && !(kMain && Resample::kOnly)) put_run(to + row_offset(at, m, pitch) + channel, run);
        if constexpr (kMain && Resample::kUpsampled) {
          if (exists) put_upsampled(at, m, channel, run);
        }
        if constexpr (kMain && Resample::kPooled) put_pooled(at, m, channel, run);
      }
  }
  // A pixel as 2x2 of the image of twice the height and width.
  template <int kWords>
  UNISONO_DEVICE void put_upsampled(const At& at, int m, int channel, const u32 (&run)[kWords]) const {
    const int pixel = at.rows.pixel(m), line = divided(pixel, tile.geometry.by_width),
              column = pixel - line * tile.geometry.width;
    const i64 first = (i64(at.image) * tile.geometry.height + line) * 4 * tile.geometry.width + 2 * column;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      put_run(static_cast<u16*>(tile.fixed.upsampled) +
                  (first + i / 2 * (2 * tile.geometry.width) + i % 2) * tile.fixed.upsampled_pitch + channel,
              run);
  }
  // The largest of a window, whose four rows four lanes have, if it is whole.
  template <int kWords>
  UNISONO_DEVICE void put_pooled(const At& at, int m, int channel, u32 (&run)[kWords]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int bit = 4; bit <= 8; bit *= 2) run[i] = Visitor::Output::max(run[i], __shfl_xor_sync(~0u, run[i], bit));
    const int line = at.rows.line(m) / 2, column = at.rows.column(m) / 2, height = tile.geometry.height / 2,
              width = tile.geometry.width / 2;
    if ((tile.thread & 12) != 0 || line >= height || column >= width || channel >= tile.geometry.channels) return;
    put_run(static_cast<u16*>(tile.fixed.pooled) +
                ((i64(at.image) * height + line) * width + column) * tile.fixed.pooled_pitch + channel,
            run);
  }
  static UNISONO_DEVICE void put_run(u16* to, const u32 (&run)[4]) {
    *reinterpret_cast<uint4*>(to) = {run[0], run[1], run[2], run[3]};
  }
  static UNISONO_DEVICE void put_run(u16* to, const u32 (&run)[2]) { *reinterpret_cast<uint2*>(to) = {run[0], run[1]}; }
};

}  // namespace unisono
