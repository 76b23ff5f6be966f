// How a tile's elements lie in the consumers' registers, and how a slice of them goes to shared memory.
//
//   Pixels first (the usual way): pixels are the rows of a matrix instruction, channels its columns. acc[block][4 * j
//       + 2 * h + e]
//     is row 64 * block + 16 * warp + lane / 4 + 8 * h, channel 8 * j + 2 * (lane % 4) + e.
//   Channels first (Config::kSwap, the operands swapped): acc[block][4 * j + 2 * h + e] is channel 64 * block + 16 *
//       warp +
//     lane / 4 + 8 * h, row 8 * j + 2 * (lane % 4) + e.
//
// A m64nNk16 instruction reads (64 + N) * 32 bytes of shared memory in N / 2 clocks. A tile of 64 channels x 256 pixels
// is four m64n64 pixels first, 128 bytes a clock, all that there are; channels first it is one m64n256, 80 bytes a
// clock. And a thread then has two channels of every 64: column values stay in registers, and statistics need two
// shuffles.
#pragma once
#include "unisono/ptx/sm90_barrier.cuh"
#include "unisono/ptx/sm90_stmatrix.cuh"

namespace unisono {

// What a warp stores of a slice lies there in the store's map, whose last coordinate is the image, or its plane.
struct SlicePlace {
  int x, y, z, image;
};

// Rows of kSlice channels lie in shared memory as the store map's swizzle has them: 16-byte chunk c of row r at `c ^ (r
// >> shift & mask)`.
template <int kSlice>
struct SliceSwizzle {
  static constexpr int kRowBytes = kSlice * 2;
  static constexpr int kShift = kRowBytes == 128 ? 0 : kRowBytes == 64 ? 1 : 2, kMask = kRowBytes / 16 - 1;
  static UNISONO_DEVICE u32 offset(int row, int chunk) {
    return row * kRowBytes + ((chunk ^ (row >> kShift & kMask)) << 4);
  }
};

// Pixels first: a warp's 16 rows x kSlice channels; packed[2 * j + h] is acc's pair (j, h). 8 rows of 16 bytes a
// matrix, free of bank conflicts.
template <int kSlice>
UNISONO_DEVICE void write_rows(u8* buffer, const u32 (&packed)[kSlice / 4], int lane) {
  const u32 base = shared_address(buffer);
  const int row = lane & 15;
  if constexpr (kSlice >= 16) {
#pragma unroll
    for (int j = 0; j < kSlice / 16; ++j)
      store_matrices(base + SliceSwizzle<kSlice>::offset(row, 2 * j + (lane >> 4)), packed + 4 * j);
  } else {
    store_two_matrices(base + row * SliceSwizzle<kSlice>::kRowBytes, packed);
  }
}

// Channels first: this warp's 16 channels of 64 rows x 64 channels, which lie as four slices of 16 rows, `stride` bytes
// apart; packed[2 * j + h] is acc's pair (j, h), two rows of one channel.
UNISONO_DEVICE void write_channels(u8* first, int stride, const u32 (&packed)[16], int warp, int lane) {
  const u32 base =
      shared_address(first) + SliceSwizzle<64>::offset((lane >> 4) * 8 + (lane & 7), 2 * warp + (lane >> 3 & 1));
#pragma unroll
  for (int q = 0; q < 4; ++q) store_matrices_transposed(base + q * stride, packed + 4 * q);
}

// The other way: group q of four pairs, words[i] is pair 4 * q + i, of a slice at shared-memory address `slice`.
template <int kSlice, int kWords>
UNISONO_DEVICE void read_rows(u32 slice, int q, u32 (&words)[kWords], int lane) {
  const int row = lane & 15;
  if constexpr (kSlice >= 16)
    load_matrices(slice + SliceSwizzle<kSlice>::offset(row, 2 * q + (lane >> 4)), words);
  else
    load_two_matrices(slice + row * SliceSwizzle<kSlice>::kRowBytes, words);
}
UNISONO_DEVICE void read_channels(u32 first, int stride, int q, u32 (&words)[4], int warp, int lane) {
  load_matrices_transposed(
      first + q * stride + SliceSwizzle<64>::offset((lane >> 4) * 8 + (lane & 7), 2 * warp + (lane >> 3 & 1)), words);
}

}  // namespace unisono
