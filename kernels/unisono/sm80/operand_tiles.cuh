// Tiles of operands in shared memory, and the fragments that a warp reads of them.
#pragma once
#include "unisono/ptx/shared.cuh"

namespace unisono {

// Lines of that many bytes, a power of two. Spans of 16 bytes are swizzled by the line, so that eight neighbouring
// lines have the same span of k in different banks.
template <int kLinesOf, int kBytesOf>
struct SharedTile {
  static constexpr int kLines = kLinesOf, kBytes = kBytesOf, kSpans = kBytes / 16, kSize = kLines * kBytes;
  static_assert(kSpans >= 4 && (kSpans & (kSpans - 1)) == 0, "lines of 64 bytes and more");
  static UNISONO_DEVICE int at(int line, int byte) {
    const int swizzle = kSpans >= 8 ? line & 7 : line >> 1 & 3;
    return line * kBytes + ((byte / 16) ^ swizzle) * 16 + byte % 16;
  }
};

// An operand of a step: kRows rows, pixels or filters, and kStep bytes of k. kColumns: neighbours in memory are rows
// and not k; a line has all rows of one k.
template <int kRowsOf, int kStep, int kElement, bool kColumnsOf>
struct OperandTile {
  static constexpr int kRows = kRowsOf, kDepth = kStep / kElement;
  static constexpr bool kColumns = kColumnsOf;
  static_assert(!kColumns || kElement == 2, "ldmatrix transposes elements of 16 bits");
  using Tile = SharedTile<kColumns ? kDepth : kRows, kColumns ? kRows * kElement : kStep>;

  // Rows [first, first + 16) of 32 bytes of k, the k-th: four matrices, rows 0 to 7 and the others of the first 16
  // bytes, then of the next.
  static UNISONO_DEVICE void fragment(u32 tile, int first, int k, u32 (&four)[4]) {
    const int lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
    if constexpr (kColumns)
      load_matrices_transposed(tile + Tile::at(16 * k + 8 * high + lane % 8, kElement * (first + 8 * low)), four);
    else
      load_matrices(tile + Tile::at(first + 8 * low + lane % 8, 32 * k + 16 * high), four);
  }
};

}  // namespace unisono
