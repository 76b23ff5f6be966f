// Channels first in memory: how slices of a tile lie in shared memory, and go there. A slice is a block of 64 pixels of
// kSlice channels. Each of the four warps stores a quarter of its channels: kSlice / 4 rows of 64 consecutive pixels,
// 128 bytes that TMA swizzles; or of a two-dimensional tile, whose block is 8 pixels of 8 image rows, 8 image rows of
// kSlice / 4 channels of 8 pixels. Either way eight channels of the same eight pixels are in different banks.
//
// Who writes what is the other way around than in rows of channels (epilogue/sm90_fragment.cuh): pixels first, a warp
// has 16 pixels of all channels and writes to all quarters; channels first, with the operands swapped, a quarter is its
// own.
#pragma once
#include "unisono/ptx/sm90_stmatrix.cuh"

namespace unisono {

template <int kSlice, bool kTwoDimensional>
struct PlaneSlice {
  static constexpr int kChannels = kSlice / 4;  // of a quarter

  // The shared-memory address of pixels [8 octet, 8 octet + 8) of channel c of the quarter at `quarter`.
  static UNISONO_DEVICE u32 at(u32 quarter, int c, int octet) {
    if constexpr (kTwoDimensional) return quarter + (octet * kChannels + c) * 16;
    const u32 row = quarter + c * 128;
    return row + ((octet ^ (kChannels % 8 == 0 ? u32(c) & 7 : row >> 7 & 7)) << 4);
  }

  // Pixels first: this warp's 16 pixels, into quarters `stride` bytes apart; packed[2 * j + h] is acc's pair (j, h),
  // two channels of one pixel.
  static UNISONO_DEVICE void write_pixels(u8* first, int stride, const u32 (&packed)[kSlice / 4], int warp, int lane) {
    static_assert(kSlice >= 16, "four matrices at once: two eights of channels by two of pixels");
    const u32 base = shared_address(first);
    const int octet = 2 * warp + (lane >> 3 & 1);
#pragma unroll
    for (int q = 0; q < kSlice / 16; ++q) {
      const int channel = 16 * q + 8 * (lane >> 4) + (lane & 7);
      store_matrices_transposed(at(base + channel / kChannels * stride, channel % kChannels, octet), packed + 4 * q);
    }
  }

  // Channels first: this warp's 16 channels of 64 pixels, its quarter; packed[2 * j + h] is acc's pair (j, h), two
  // pixels of one channel.
  static UNISONO_DEVICE void write_channels(u8* quarter, const u32 (&packed)[kSlice / 4], int lane) {
    static_assert(kSlice == 64, "a matrix instruction has 64 channels");
    const u32 base = shared_address(quarter);
    const int channel = (lane >> 3 & 1) * 8 + (lane & 7);
#pragma unroll
    for (int q = 0; q < 4; ++q) store_matrices(at(base, channel, 2 * q + (lane >> 4)), packed + 4 * q);
  }

  // The other way: group q of four pairs.
  static UNISONO_DEVICE void read_pixels(u32 first, int stride, int q, u32 (&words)[4], int warp, int lane) {
    const int channel = 16 * q + 8 * (lane >> 4) + (lane & 7), octet = 2 * warp + (lane >> 3 & 1);
    load_matrices_transposed(at(first + channel / kChannels * stride, channel % kChannels, octet), words);
  }
  static UNISONO_DEVICE void read_channels(u32 quarter, int q, u32 (&words)[4], int lane) {
    load_matrices(at(quarter, (lane >> 3 & 1) * 8 + (lane & 7), 2 * q + (lane >> 4)), words);
  }

  // The i-th eight pixels that a lane has of its warp's quarter: of kOctets / 32 rounds over it.
  static constexpr int kOctets = 8 * kChannels;
  struct Place {
    int channel, octet;
  };
  static UNISONO_DEVICE Place place(int i, int lane) {
    const int index = 32 * i + lane;
    if constexpr (kTwoDimensional) return {index % kChannels, index / kChannels};
    return {index / 8, index % 8};
  }
};

}  // namespace unisono
