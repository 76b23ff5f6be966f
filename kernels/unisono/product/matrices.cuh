// Batches of matrices in global memory, and their tiles in shared memory.
#pragma once
#include "unisono/params/product_params.cuh"
#include "unisono/ptx/shared.cuh"
#include "unisono/ptx/types.cuh"

namespace unisono::product {

constexpr int kWarps = 4, kThreads = 32 * kWarps;

UNISONO_DEVICE float infinity() { return __int_as_float(0x7f800000); }

// Where a batch's matrix begins.
UNISONO_DEVICE const u16* matrix_of(const BatchedMatrix& m, const BatchSpace& space, u32 batch) {
  i64 offset = 0;
#pragma unroll
  for (int d = kBatchAxes - 1; d >= 0; --d) {
    offset += i64(batch % space.extents[d]) * m.batch[d];
    batch /= space.extents[d];
  }
  return static_cast<const u16*>(m.memory) + offset;
}

// Elements from row to row of a tile in shared memory: an odd number of 16 bytes, so that the eight rows of a matrix of
// ldmatrix are in different banks.
UNISONO_DEVICE constexpr int tile_pitch(int columns) { return columns + 8; }

// How a matrix lies in memory: eight neighbours along a line lie together, at multiples of 16 bytes, or with any
// strides.
enum class Lines { together, anyhow };

// Lines [first, first + kLines) of kLength elements to shared memory. What is outside of (lines, length) becomes zeros.
// `line`, `step`: from line to line and along a line. All threads of the CTA take part; copies of lines that lie
// together are under way until copy_async_wait().
template <int kLines, int kLength, Lines kIn>
UNISONO_DEVICE void load_lines(u16* to, const u16* from, i64 line, i64 step, u32 first, u32 lines, u32 begin,
                               u32 length) {
  static_assert(kLength % 8 == 0, "lines are whole octets");
  if constexpr (kIn == Lines::together) {
    constexpr u32 kOctets = kLength / 8;
    for (u32 i = threadIdx.x; i < kLines * kOctets; i += kThreads) {
      const u32 row = i / kOctets, column = i % kOctets * 8;
      const bool inside = first + row < lines && begin + column < length;
      const u32 count = inside ? length - begin - column : 0;
      copy_async(shared_address(to + row * tile_pitch(kLength) + column),
                 inside ? from + (first + row) * line + (begin + column) : from, count < 8 ? 2 * count : 16);
    }
  } else {
    for (u32 i = threadIdx.x; i < u32(kLines * kLength); i += kThreads) {
      const u32 row = i / kLength, column = i % kLength;
      const bool inside = first + row < lines && begin + column < length;
      to[row * tile_pitch(kLength) + column] =
          inside ? __ldg(from + (first + row) * line + (begin + column) * step) : u16(0);
    }
  }
}

// A pair of neighbours of a line as a register, zeros outside.
UNISONO_DEVICE u32 load_pair(const u16* line, i64 step, u32 column, u32 length) {
  const u32 low = column < length ? __ldg(line + column * step) : 0;
  const u32 high = column + 1 < length ? __ldg(line + (column + 1) * step) : 0;
  return low | high << 16;
}

// Whether all pairs of columns that begin at even ones are whole words.
UNISONO_DEVICE bool has_words(const BatchedMatrix& m, const u16* first, u32 columns) {
  return m.column == 1 && m.row % 2 == 0 && columns % 2 == 0 && (u64(first) & 3) == 0;
}

// Two columns of a row, as far as they exist.
template <class Element>
UNISONO_DEVICE void store_pair(u16* row, i64 step, u32 column, u32 columns, bool words, float first, float second) {
  const u32 pair = Element::pack(first, second);
  if (column >= columns) return;
  if (words) {
    *reinterpret_cast<u32*>(row + column) = pair;
    return;
  }
  row[column * step] = u16(pair);
  if (column + 1 < columns) row[(column + 1) * step] = u16(pair >> 16);
}

}  // namespace unisono::product
